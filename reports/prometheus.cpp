// A run as metrics, in the text that Prometheus' node exporter takes from its textfile collector's folder
// (prometheus.io/docs/instrumenting/exposition_formats): base units, a name for each quantity, what was measured in
// labels. All that a name has stands together, as the format asks for.
#include <chrono>
#include <map>
#include <set>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "reports/decision.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Of UTF-8 only backslash, quotation mark and newline have to be written otherwise; a terminal may obey more.
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
    // Collectors refuse all of a file in which a series stands twice.
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
  return {{"backend", c.backend},
          {"arm", c.arm == "default" ? "" : c.arm},
          {"collective", std::string(c.collective->name)},
          {"pattern", c.pattern},
          {"pair", c.pair},
          {"nic", c.nic ? std::to_string(*c.nic) : ""},
          {"group", c.group},
          {"for_parts", c.for_parts ? "1" : ""},
          {"ranks", std::to_string(c.ranks)},
          {"nodes", std::to_string(c.nodes)},
          {"datatype", std::string(name_of(c.type))},
          {"op", c.op ? std::string(name_of(*c.op)) : ""},
          {"root", c.root ? std::to_string(*c.root) : ""},
          {"in_place", c.in_place ? "1" : ""},
          {"cuda_graph", c.cuda_graph ? "1" : ""},
          {"register", c.registration == "none" ? "" : c.registration},
          {"bytes", std::to_string(c.bytes.count)}};
}

// A quantity of measurements; nullopt where one does not have it.
struct Metric {
  std::string_view name, help;
  std::optional<double> (*value)(const Result& result);
};
constexpr std::array metrics_of_results{
    Metric{"time_seconds", "Time of an operation, back to back: the median of the slowest rank.",
           [](const Result& r) {
             const std::optional<Series>& series = r.measurement.throughput;
             return series ? std::optional(series->summary.median) : std::nullopt;
           }},
    Metric{"latency_seconds", "Time of an operation by itself: the median of the slowest rank.",
           [](const Result& r) {
             const std::optional<Series>& series = r.measurement.latency;
             return series ? std::optional(series->summary.median) : std::nullopt;
           }},
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
             return r.measurement.outcome == Outcome::measured
                        ? std::optional(static_cast<double>(r.measurement.wrong_elements))
                        : std::nullopt;
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
  metrics.start("decision", "The decision: 1 for the word that it is, with the parts to reject and the sentence.");
  const Decision& decision = report.decision;
  for (const std::string_view word : {accept, reject, cannot_tell}) {
    const bool is_it = decision.word == word;
    metrics.add({{"word", std::string(word)},
                 {"parts", is_it ? join(decision.parts) : ""},
                 {"sentence", is_it ? decision.sentence : ""}},
                is_it ? 1 : 0);
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
  return std::move(metrics).text();
}

}  // namespace p5::reports
