// A run for other programs: CSV, Google Benchmark, JUnit XML, Markdown and Prometheus.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "bench/model/job.hpp"
#include "bench/model/traffic.hpp"
#include "reports/case_names.hpp"
#include "reports/decision.hpp"
#include "reports/judge.hpp"
#include "reports/markup.hpp"
#include "reports/part_names.hpp"
#include "reports/suspect_text.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

namespace {

// ---- CSV: a row per measurement, RFC 4180 with a header, decimal points, empty cells for absent values.

struct CsvColumn {
  std::string_view name;
  std::string (*value)(const Report& report, const Result& result);
};

std::string number(double value) { return fmt::format("{:.6g}", value); }
std::string number(std::optional<double> value) { return value ? number(*value) : ""; }
std::string whole(std::optional<int> value) { return value ? std::to_string(*value) : ""; }
std::string yes(bool value) { return value ? "1" : "0"; }

const Case& measured(const Result& result) { return result.measurement.measured_case; }

std::string name_of_traffic(const Case& c) { return c.shape.traffic ? std::string(c.shape.traffic->name) : ""; }

// The digest tells steps of the same name apart, and steps with other fillings of their gaps.
std::string name_of_job(const Case& c) {
  return c.replay ? fmt::format("{} {}", c.replay->name, c.replay->digest) : "";
}

std::string in_us(const std::optional<Series>& series, std::optional<double> (*value)(const Summary&)) {
  const std::optional<double> seconds = series ? value(series->summary) : std::nullopt;
  return seconds ? number(*seconds * 1e6) : "";
}
std::optional<double> median_of(const Summary& s) { return s.median; }
std::optional<double> low_of(const Summary& s) { return s.interval ? std::optional(s.interval->low) : std::nullopt; }
std::optional<double> high_of(const Summary& s) { return s.interval ? std::optional(s.interval->high) : std::nullopt; }
// The reason of the outcome, else of the verdict, which for wrong data has both.
std::string because_of(const Result& result) {
  const std::string& of_outcome = result.measurement.because;
  return of_outcome.empty() || result.verdict.grade == Grade::wrong ? result.verdict.because : of_outcome;
}
std::string bandwidth(const Result& result, GBps (*rate)(const Case&, Seconds)) {
  const std::optional<Series>& found = result.measurement.throughput;
  return found ? number(rate(measured(result), {found->summary.median}).count) : "";
}

std::optional<double> slowdown_of(const Result& result) {
  const std::optional<Concurrency>& found = result.measurement.concurrency;
  return found ? std::optional(slowdown(found->operations.front().alone, found->operations.front().beside))
               : std::nullopt;
}

std::optional<double> overlap_of(const Result& result) {
  const std::optional<Concurrency>& found = result.measurement.concurrency;
  return found ? std::optional(overlap(*found)) : std::nullopt;
}

constexpr std::array csv_columns{
    CsvColumn{"cluster", [](const Report& report, const Result&) { return for_csv(report.run.cluster); }},
    CsvColumn{"started", [](const Report& report, const Result&) { return for_csv(report.run.started); }},
    CsvColumn{"provenance", [](const Report& report, const Result&) { return for_csv(report.provenance); }},
    CsvColumn{"backend", [](const Report&, const Result& r) { return for_csv(measured(r).backend); }},
    CsvColumn{"arm", [](const Report&, const Result& r) { return for_csv(measured(r).arm); }},
    CsvColumn{"collective", [](const Report&, const Result& r) { return std::string(measured(r).collective->name); }},
    CsvColumn{"pattern", [](const Report&, const Result& r) { return for_csv(measured(r).pattern); }},
    CsvColumn{"pair", [](const Report&, const Result& r) { return for_csv(measured(r).pair); }},
    CsvColumn{"nic", [](const Report&, const Result& r) { return whole(measured(r).nic); }},
    CsvColumn{"group", [](const Report&, const Result& r) { return for_csv(measured(r).group); }},
    CsvColumn{"traffic", [](const Report&, const Result& r) { return for_csv(name_of_traffic(measured(r))); }},
    CsvColumn{"job", [](const Report&, const Result& r) { return for_csv(name_of_job(measured(r))); }},
    CsvColumn{"beside", [](const Report&, const Result& r) { return for_csv(describe_beside(measured(r).beside)); }},
    CsvColumn{"slowdown", [](const Report&, const Result& r) { return number(slowdown_of(r)); }},
    CsvColumn{"overlap", [](const Report&, const Result& r) { return number(overlap_of(r)); }},
    CsvColumn{"for_parts", [](const Report&, const Result& r) { return yes(measured(r).for_parts); }},
    CsvColumn{"ranks", [](const Report&, const Result& r) { return whole(measured(r).ranks); }},
    CsvColumn{"nodes", [](const Report&, const Result& r) { return whole(measured(r).nodes); }},
    CsvColumn{"type", [](const Report&, const Result& r) { return std::string(name_of(measured(r).type)); }},
    CsvColumn{"op", [](const Report&,
                       const Result& r) { return measured(r).op ? std::string(name_of(*measured(r).op)) : ""; }},
    CsvColumn{"root", [](const Report&, const Result& r) { return root_text(measured(r)); }},
    CsvColumn{"slowest_root", [](const Report&, const Result& r) { return whole(slowest_root(r.measurement)); }},
    CsvColumn{"in_place", [](const Report&, const Result& r) { return yes(measured(r).in_place); }},
    CsvColumn{"cuda_graph", [](const Report&, const Result& r) { return yes(measured(r).calls.cuda_graph); }},
    CsvColumn{"register", [](const Report&, const Result& r) { return for_csv(measured(r).calls.registration); }},
    CsvColumn{"aggregate", [](const Report&, const Result& r) { return std::to_string(measured(r).calls.aggregate); }},
    CsvColumn{"cta_policy", [](const Report&, const Result& r) { return for_csv(measured(r).calls.cta_policy); }},
    CsvColumn{"unalign", [](const Report&, const Result& r) { return std::to_string(measured(r).calls.unalign); }},
    CsvColumn{"bytes", [](const Report&, const Result& r) { return std::to_string(measured(r).bytes.count); }},
    CsvColumn{"outcome", [](const Report&, const Result& r) { return std::string(name_of(r.measurement.outcome)); }},
    CsvColumn{"time_us", [](const Report&, const Result& r) { return in_us(r.measurement.throughput, median_of); }},
    CsvColumn{"time_low_us", [](const Report&, const Result& r) { return in_us(r.measurement.throughput, low_of); }},
    CsvColumn{"time_high_us", [](const Report&, const Result& r) { return in_us(r.measurement.throughput, high_of); }},
    CsvColumn{"algbw_gb_per_s", [](const Report&, const Result& r) { return bandwidth(r, algorithm_bandwidth); }},
    CsvColumn{"busbw_gb_per_s", [](const Report&, const Result& r) { return bandwidth(r, bus_bandwidth); }},
    CsvColumn{"latency_us", [](const Report&, const Result& r) { return in_us(r.measurement.latency, median_of); }},
    CsvColumn{"host_us",
              [](const Report&, const Result& r) {
                const std::optional<double>& seconds = r.measurement.host_s;
                return seconds ? number(*seconds * 1e6) : std::string();
              }},
    CsvColumn{"wrong_elements",
              [](const Report&, const Result& r) {
                return r.measurement.data_checked.value_or(true) ? std::to_string(r.measurement.wrong_elements) : "";
              }},
    CsvColumn{"limit_gb_per_s",
              [](const Report&, const Result& r) { return r.verdict.limit ? number(r.verdict.limit->count) : ""; }},
    CsvColumn{"fraction_of_limit", [](const Report&, const Result& r) { return number(r.verdict.fraction); }},
    CsvColumn{"grade", [](const Report&, const Result& r) { return std::string(name_of(r.verdict.grade)); }},
    CsvColumn{"because", [](const Report&, const Result& r) { return for_csv(because_of(r)); }},
};

}  // namespace

std::string render_csv(const Report& report) {
  std::string text;
  for (const CsvColumn& column : csv_columns) text += fmt::format("{}{}", text.empty() ? "" : ",", column.name);
  text += "\r\n";
  for (const Result* result : in_reading_order(report)) {
    bool first = true;
    for (const CsvColumn& column : csv_columns) {
      if (!first) text += ',';
      first = false;
      text += column.value(report, *result);
    }
    text += "\r\n";
  }
  return text;
}

namespace {

using nlohmann::json;

// ---- Google Benchmark 1.9, in the fields of its docs/tools.md and src/json_reporter.cc, readable by its
// tools/compare.py: each launch of a case is a repetition, and its median is the time.

std::string name_of_case(const Case& c, std::string_view quantity) {
  std::string name(c.collective->name);
  const auto add = [&](std::string_view part) {
    if (!part.empty()) name += fmt::format("/{}", part);
  };
  add(c.pattern);
  add(c.pair);
  if (c.shape.traffic) add("traffic:" + name_of_traffic(c));
  if (c.replay) add("job:" + name_of_job(c));
  if (c.nic) add(fmt::format("nic:{}", *c.nic));
  add(quantity);
  add(name_of(c.type));
  if (c.op) add(name_of(*c.op));
  if (const std::string root = root_text(c); !root.empty()) add("root:" + root);
  if (c.in_place) add("in_place");
  for (const CallOption& each : call_options()) add(each.text(each.path, c.calls));
  if (c.group != "world") add("group:" + c.group);
  for (const Work& work : c.beside) add("beside:" + name_of(work));
  if (c.arm != "default") add("arm:" + c.arm);
  if (c.for_parts) add("for_parts");
  add(fmt::format("ranks:{}", c.ranks));
  add(fmt::format("nodes:{}", c.nodes));
  add(fmt::format("{}", c.bytes.count));
  return name;
}

// One of the repetitions of a case; without its figures.
json repetition_of(const Case& c, std::string_view quantity, int family, std::size_t all = 1, std::size_t index = 0) {
  const std::string name = name_of_case(c, quantity);
  return {{"name", name},       {"family_index", family},    {"run_name", name}, {"per_family_instance_index", 0},
          {"repetitions", all}, {"repetition_index", index}, {"threads", 1},     {"run_type", "iteration"}};
}

void add_repetitions(json& out, const Measurement& m, std::string_view quantity, const std::optional<Series>& series,
                     std::vector<double> launches, int family) {
  if (!series) return;
  if (launches.empty()) launches = {series->summary.median};
  for (std::size_t i = 0; i < launches.size(); ++i) {
    json row = repetition_of(m.measured_case, quantity, family, launches.size(), i);
    row["iterations"] = series->summary.samples * series->operations_per_sample;
    row["real_time"] = row["cpu_time"] = launches[i] * 1e6;
    row["time_unit"] = "us";
    if (quantity == "throughput")
      row["bytes_per_second"] = algorithm_bandwidth(m.measured_case, {launches[i]}).count * 1e9;
    out.push_back(std::move(row));
  }
}

// Failed, or with wrong data: no figure counts.
bool is_broken(const Result& result) {
  return result.verdict.grade == Grade::wrong || result.verdict.grade == Grade::failed;
}

// As Google Benchmark writes a benchmark that called SkipWithError().
void add_error(json& out, const Result& result, int family) {
  json row = repetition_of(result.measurement.measured_case, "throughput", family);
  row["error_occurred"] = true;
  row["error_message"] = because_of(result);
  out.push_back(std::move(row));
}

}  // namespace

std::string render_gbench(const Report& report) {
  json benchmarks = json::array();
  int family = 0;
  for (const Result& result : report.results) {
    const Measurement& m = result.measurement;
    if (is_broken(result)) {
      add_error(benchmarks, result, family++);
      continue;
    }
    if (m.outcome != Outcome::measured) continue;
    add_repetitions(benchmarks, m, "latency", m.latency, m.latency_launches_s, family++);
    add_repetitions(benchmarks, m, "throughput", m.throughput, m.launches_s, family++);
  }
  const std::string host = report.topology.hosts.empty() ? "" : report.topology.hosts.front().host_name;
  const json context{{"date", report.run.started},
                     {"host_name", host},
                     {"executable", fmt::format("p5bench {} ({})", report.run.version, report.provenance)},
                     {"num_cpus", report.topology.hosts.empty() ? 0 : report.topology.hosts.front().threads},
                     {"mhz_per_cpu", 0},
                     {"cpu_scaling_enabled", false},
                     {"caches", json::array()},
                     {"library_build_type", "release"},
                     {"p5bench_decision", report.decision.sentence},
                     {"p5bench_provenance", report.provenance},
                     {"p5bench_cluster", report.run.cluster}};
  return json{{"context", context}, {"benchmarks", benchmarks}}.dump(2, ' ', false, json::error_handler_t::replace) +
         "\n";
}

namespace {

// ---- JUnit XML: a test case for the decision, each measurement, suspect and open question, and each warning or error
// about hardware or fabric. Slow measurements are failures; wrong and failed ones are errors; unjudged ones are
// skipped, and so are warnings and, unless the decision is REJECT, open questions.

struct TestCase {
  std::string group, name, kind, message;  // kind: "", failure, error, skipped
  double seconds = 0;
};

TestCase test_case_of(const Result& result, const CaseNames& cases) {
  const Measurement& m = result.measurement;
  TestCase test{.group = std::string(m.measured_case.collective->name),
                .name = cases.of(m.measured_case),
                .kind = {},
                .message = because_of(result),
                .seconds = m.wall_s};
  if (m.measured_case.arm != "default") test.name += ", arm " + m.measured_case.arm;
  if (m.measured_case.for_parts) test.name += ", beside the plan";
  constexpr std::array test_kinds{"", "failure", "failure", "error", "error", "skipped"};  // indexed by Grade
  test.kind = test_kinds.at(static_cast<std::size_t>(result.verdict.grade));
  return test;
}

// Test case of the decision: CANNOT TELL is skipped, and an error if the run did not end.
TestCase decision_of(const Report& report) {
  const std::string& word = report.decision.word;
  const bool ended = report.exit_code == ExitCode::ok || report.exit_code == ExitCode::inconclusive;
  return {.group = "decision",
          .name = "decision",
          .kind = word == accept   ? ""
                  : word == reject ? "failure"
                  : ended          ? "skipped"
                                   : "error",
          .message = report.decision.sentence};
}

std::vector<TestCase> test_cases_of(const Report& report) {
  std::vector<TestCase> all{decision_of(report)};
  for (const Suspect& suspect : report.suspects)
    all.push_back({"suspect", suspect.kind + " " + suspect.name, "failure", sentence_about(suspect)});
  for (const OpenQuestion& question : report.open_questions)
    all.push_back({"open question", join(question.candidates, " or "),
                   report.decision.word == reject ? "failure" : "skipped",
                   fmt::format("{}. {}", question.evidence, question.next)});
  for (const topo::Finding& each : report.findings)
    if (topo::is_notable(each))
      all.push_back({"finding",
                     fmt::format("{} {}{}{}", each.id, each.subject.host,
                                 each.subject.gpu ? fmt::format(" GPU {}", *each.subject.gpu) : "",
                                 each.subject.nic ? " " + *each.subject.nic : ""),
                     topo::condemns(each) ? "failure" : "skipped", fmt::format("{}. {}", each.evidence, each.action)});
  const CaseNames cases(report);
  for (const Result* result : in_reading_order(report)) all.push_back(test_case_of(*result, cases));
  return all;
}

}  // namespace

std::string render_junit(const Report& report) {
  const std::vector<TestCase> tests = test_cases_of(report);
  const auto count = [&](std::string_view kind) { return std::ranges::count(tests, kind, &TestCase::kind); };
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites>\n<testsuite name=\"p5bench {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" "
      "time=\"{:.3f}\" timestamp=\"{}\">\n"
      "<properties><property name=\"version\" value=\"{}\"/><property name=\"provenance\" value=\"{}\"/>"
      "<property name=\"exit code\" value=\"{}\"/></properties>\n",
      for_xml(report.run.cluster), tests.size(), count("failure"), count("error"), count("skipped"), report.run.wall_s,
      for_xml(report.run.started.substr(0, report.run.started.find('Z'))), for_xml(report.run.version),
      for_xml(report.provenance), static_cast<int>(report.exit_code));
  TestNames names;
  for (const TestCase& test : tests)
    text += fmt::format("<testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">{}</testcase>\n", for_xml(test.group),
                        for_xml(names.unique(test.group, test.name)), test.seconds,
                        test.kind.empty() ? fmt::format("<system-out>{}</system-out>", for_xml(test.message))
                                          : fmt::format("<{} message=\"{}\"/>", test.kind, for_xml(test.message)));
  return text +
         fmt::format("<system-out>{}</system-out>\n</testsuite>\n</testsuites>\n", for_xml(report.decision.sentence));
}

namespace {

// ---- Markdown, as short as a comment on an issue should be.

std::string table_of_operations(const Report& report) {
  const std::vector<SummaryRow> rows = summary_of(report);
  const std::string job_steps = job_steps_text(report);
  const std::string below = job_steps.empty() ? "" : for_markdown(job_steps) + "\n";
  if (rows.empty()) return below;
  std::string text =
      "| operation | ranks | latency | message | bus bandwidth | of the limit | grade |\n"
      "|---|--:|--:|--:|--:|--:|---|\n";
  for (const SummaryRow& row : rows)
    text += fmt::format("| {} | {} | {} | {} | {:.4g} GB/s | {} | {} |\n", for_markdown(row.operation), row.ranks,
                        row.latency, row.size, row.busbw, row.of_limit, shown(row.grade));
  return text + "\n" + below;
}

std::string markdown_steps(const Decision& decision) {
  std::string text;
  for (const std::string& step : decision.next) text += fmt::format("1. {}\n", for_markdown(step));
  if (!text.empty()) text = "To do:\n\n" + text + "\n";
  // Text in a code block is literal except for its end.
  if (!decision.command.empty() && decision.command.find("```") == std::string::npos)
    text += fmt::format("```\n{}\n```\n\n", printable(decision.command));
  return text;
}

// Measurements that failed or have wrong data: how many, and the first of them.
std::string list_of_broken(const Report& report) {
  constexpr std::size_t most = 5;
  const CaseNames cases(report);
  std::size_t broken = 0;
  std::string text;
  for (const Result* result : in_reading_order(report))
    if (is_broken(*result) && ++broken <= most)
      text += fmt::format("- {} {}: {}\n", shown(result->verdict.grade),
                          for_markdown(cases.of(result->measurement.measured_case)), for_markdown(because_of(*result)));
  if (broken == 0) return "";
  if (broken > most) text += fmt::format("- and {} more\n", broken - most);
  return fmt::format("{} of {} failed or have wrong data:\n\n{}\n", broken,
                     counted(report.results.size(), "measurement"), text);
}

std::string list_of_findings(const Report& report) {
  std::string text;
  for (const topo::Finding& each : report.findings)
    text += fmt::format("- {} {}{}: {}. {}\n", topo::name_of(each.severity), code_for_markdown(each.id),
                        each.subject.host.empty() ? "" : " on " + for_markdown(each.subject.host),
                        for_markdown(each.evidence), for_markdown(each.action));
  return text.empty() ? "" : text + "\n";
}

}  // namespace

std::string render_markdown(const Report& report) {
  const RunInfo& run = report.run;
  std::string text = fmt::format("## {}\n\n", for_markdown(report.decision.sentence));
  for (const Suspect& suspect : report.suspects) text += fmt::format("- {}\n", for_markdown(sentence_about(suspect)));
  for (const OpenQuestion& question : report.open_questions)
    text += fmt::format("- one of {}: {}\n", for_markdown(join(question.candidates)), for_markdown(question.evidence));
  if (!report.suspects.empty() || !report.open_questions.empty()) text += "\n";
  text += markdown_steps(report.decision);
  text += list_of_broken(report) + table_of_operations(report) + list_of_findings(report);
  for (const std::string& remark : run.remarks) text += for_markdown(remark) + "\n\n";
  return text + fmt::format("{}: {} on {}, backend {}, {}. p5bench {}.\n", for_markdown(run.cluster),
                            counted(static_cast<std::size_t>(run.ranks), "rank"),
                            counted(static_cast<std::size_t>(run.nodes), "node"), for_markdown(run.backend),
                            for_markdown(run.started), for_markdown(run.version));
}

namespace {

// ---- Prometheus: text for node exporter's textfile collector (prometheus.io/docs/instrumenting/exposition_formats):
// base units, a metric per quantity, the case as labels. The format requires all series of a metric together.

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Label value: escapes backslash and quotation mark as the format requires; control characters are replaced for
// terminals.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : printable(text)) {
    if (c == '\\' || c == '"') safe += '\\';
    safe += c;
  }
  return safe;
}

class Metrics {
 public:
  explicit Metrics(const Report& report) : cluster_(report.run.cluster) {}

  void start(std::string_view name, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP p5bench_{} {}\n# TYPE p5bench_{} gauge\n", name, help, name);
  }
  void add(const Labels& labels, double value) {
    std::string series = fmt::format("p5bench_{}{{cluster=\"{}\"", name_, escaped(cluster_));
    for (const auto& [label, its] : labels)
      if (!its.empty()) series += fmt::format(",{}=\"{}\"", label, escaped(its));
    // A duplicate series would make collectors reject the file.
    if (!seen_.insert(series).second) return;
    text_ += fmt::format("{}}} {}\n", series, value);
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string cluster_, text_;
  std::set<std::string> seen_;
  std::string_view name_;
};

Labels labels_of(const Case& c) {
  Labels labels{{"backend", c.backend},
                {"arm", c.arm == "default" ? "" : c.arm},
                {"collective", std::string(c.collective->name)},
                {"pattern", c.pattern},
                {"pair", c.pair},
                {"nic", c.nic ? std::to_string(*c.nic) : ""},
                {"group", c.group},
                {"traffic", name_of_traffic(c)},
                {"job", name_of_job(c)},
                {"beside", describe_beside(c.beside)},
                {"for_parts", c.for_parts ? "1" : ""},
                {"ranks", std::to_string(c.ranks)},
                {"nodes", std::to_string(c.nodes)},
                {"datatype", std::string(name_of(c.type))},
                {"op", c.op ? std::string(name_of(*c.op)) : ""},
                {"root", root_text(c)},
                {"in_place", c.in_place ? "1" : ""},
                {"bytes", std::to_string(c.bytes.count)}};
  for (const CallOption& each : call_options()) labels.emplace_back(each.name, each.value(c.calls));
  return labels;
}

std::optional<double> median_of(const std::optional<Series>& series) {
  return series ? std::optional(series->summary.median) : std::nullopt;
}

// A metric of measurements; nullopt without a value.
struct Metric {
  std::string_view name, help;
  std::optional<double> (*value)(const Result& result);
};
constexpr std::array metrics_of_results{
    Metric{"time_seconds",
           "Time of an operation, back to back: the median, of the slowest rank unless it was imported.",
           [](const Result& r) { return median_of(r.measurement.throughput); }},
    Metric{"latency_seconds", "Time of an operation by itself: the median of the slowest rank.",
           [](const Result& r) { return median_of(r.measurement.latency); }},
    Metric{"bus_bandwidth_bytes_per_second", "Bus bandwidth as nccl-tests defines it.",
           [](const Result& r) {
             const std::optional<Series>& series = r.measurement.throughput;
             return series ? std::optional(bus_bandwidth(r.measurement.measured_case, {series->summary.median}).count *
                                           1e9)
                           : std::nullopt;
           }},
    Metric{"limit_ratio", "Bus bandwidth over what the machine can do.",
           [](const Result& r) { return r.verdict.fraction; }},
    Metric{"wrong_elements", "Elements of results that were wrong.",
           [](const Result& r) {
             const Measurement& m = r.measurement;
             const bool known = m.wrong_elements > 0 || (has_figures_to_show(m) && m.data_checked.value_or(true));
             return known ? std::optional(static_cast<double>(m.wrong_elements)) : std::nullopt;
           }},
};

void add_run(Metrics& metrics, const Report& report) {
  metrics.start("run_info", "What was run; the value is 1.");
  metrics.add({{"version", report.run.version},
               {"backend", report.run.backend},
               {"provenance", report.provenance},
               {"status", report.status},
               {"grade", std::string(name_of(report.grade))},
               {"ranks", std::to_string(report.run.ranks)},
               {"nodes", std::to_string(report.run.nodes)}},
              1);
  metrics.start("decision",
                "The decision: 1 for the word that applies, else 0; labels hold the rejected parts and the sentence.");
  const Decision& decision = report.decision;
  for (const std::string_view word : {accept, reject, cannot_tell}) {
    const bool applies = decision.word == word;
    metrics.add({{"word", std::string(word)},
                 {"parts", applies ? join(decision.parts) : ""},
                 {"sentence", applies ? decision.sentence : ""}},
                applies ? 1 : 0);
  }
  metrics.start("exit_code",
                "Exit code of the run: 0 sound, 10 slow, broken or missing, 11 wrong data, 12 unfinished, 14 nothing "
                "could be judged.");
  metrics.add({}, static_cast<double>(report.exit_code));
  if (const std::optional<double> started = parse_utc(report.run.started)) {
    metrics.start("start_timestamp_seconds", "When the run started.");
    metrics.add({}, *started);
  }
  metrics.start("duration_seconds", "How long the run took.");
  metrics.add({}, report.run.wall_s);
  metrics.start("measurements", "Measurements of each grade.");
  std::map<Grade, int> grades;
  for (const Result& result : report.results) ++grades[result.verdict.grade];
  for (const Grade grade : {Grade::ok, Grade::slow, Grade::wrong, Grade::failed, Grade::unknown})
    metrics.add({{"grade", std::string(name_of(grade))}}, grades[grade]);
}

void add_parts(Metrics& metrics, const Report& report) {
  metrics.start("suspect_confidence_ratio", "Parts that are suspected, with the confidence.");
  for (const Suspect& s : report.suspects)
    metrics.add({{"kind", s.kind}, {"name", s.name}, {"host", s.host}, {"instance", s.instance}, {"device", s.device}},
                s.confidence);
  std::map<std::array<std::string, 4>, int> findings;
  for (const topo::Finding& each : report.findings)
    ++findings[{each.id, std::string(topo::name_of(each.severity)),
                each.about ? std::string(topo::name_of(*each.about)) : "", each.subject.host}];
  metrics.start("findings", "Findings about hosts, hardware, software and settings.");
  for (const auto& [what, count] : findings)
    metrics.add({{"id", what[0]}, {"severity", what[1]}, {"about", what[2]}, {"host", what[3]}}, count);
}

}  // namespace

std::string render_prometheus(const Report& report) {
  Metrics metrics(report);
  add_run(metrics, report);
  add_parts(metrics, report);
  for (const Metric& metric : metrics_of_results) {
    metrics.start(metric.name, metric.help);
    for (const Result* result : in_reading_order(report))
      if (const std::optional<double> value = metric.value(*result))
        metrics.add(labels_of(result->measurement.measured_case), *value);
  }
  metrics.start("communicator_cost", "What a communicator took besides time, of the rank that it took most of.");
  for (const Result* result : in_reading_order(report))
    for (const auto& [name, value] : result->measurement.communicator_costs) {
      Labels labels = labels_of(result->measurement.measured_case);
      labels.emplace_back("cost", name);
      metrics.add(labels, value);
    }
  metrics.start("gpu_figure", "What the GPU of each rank did alone and under load, in the unit of the figure's name.");
  const topo::Topology& there = report.topology;
  for (std::size_t rank = 0; rank < report.local_checks.size(); ++rank) {
    const bool placed = rank < there.host_of_rank.size();
    for (const auto& [name, value] : report.local_checks[rank])
      metrics.add({{"rank", std::to_string(rank)},
                   {"host", placed ? there.hosts[static_cast<std::size_t>(there.host_of_rank[rank])].name : ""},
                   {"device", rank < there.gpu_of_rank.size() ? there.gpu_of_rank[rank] : ""},
                   {"figure", name}},
                  value);
  }
  return std::move(metrics).text();
}

}  // namespace p5::reports
