// The report as JSON and back. Rates are decimal GB/s, times microseconds, bytes integers, absent is null.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/base/names.hpp"
#include "reports/json_values.hpp"
#include "reports/report.hpp"

namespace p5::reports {

using nlohmann::json;

namespace {

constexpr std::array grades{Grade::ok, Grade::slow, Grade::wrong, Grade::failed, Grade::unknown, Grade::faulty};
constexpr std::array outcomes{Outcome::measured, Outcome::skipped, Outcome::failed};
constexpr std::array phases{Phase::open, Phase::warm_up, Phase::sample, Phase::verify};

template <class Enum, std::size_t count>
Enum parse(const std::array<Enum, count>& all, const std::string& name, std::string_view kind) {
  const auto found = std::ranges::find(all, name, [](Enum each) { return std::string(name_of(each)); });
  if (found == all.end()) throw UsageError(fmt::format("unknown {} '{}'", kind, name));
  return *found;
}

// To twelve digits: beyond what any clock tells, and a time that is read and written again stays what it was.
double rounded(double value) {
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 12);
  double back = value;
  std::from_chars(text.data(), written.ptr, back);
  return back;
}
json microseconds(double seconds) { return number(rounded(seconds * 1e6)); }
double seconds_from(const json& j) { return j.get<double>() * 1e-6; }

// ---- cases

json case_json(const Case& c) {
  return {{"backend", c.backend},
          {"collective", c.collective->name},
          {"bytes", c.bytes.count},
          {"bytes_per_rank", c.bytes_per_rank.count},
          {"type", name_of(c.type)},
          {"op", c.op ? json(name_of(*c.op)) : json(nullptr)},
          {"root", optional(c.root)},
          {"in_place", c.in_place},
          {"cuda_graph", c.cuda_graph},
          {"register", c.registration},
          {"group", c.group},
          {"pattern", c.pattern.empty() ? json(nullptr) : json(c.pattern)},
          {"pair", c.pair.empty() ? json(nullptr) : json(c.pair)},
          {"ranks", c.ranks},
          {"nodes", c.nodes},
          {"arm", c.arm},
          {"settings", c.settings},
          {"pairs_sampled", c.pairs_sampled}};
}

Case case_from(const json& j) {
  Case c;
  c.backend = j.at("backend");
  c.collective = &find_collective(j.at("collective").get<std::string>());
  c.bytes = {j.at("bytes")};
  c.bytes_per_rank = {j.at("bytes_per_rank")};
  c.type = parse_data_type(j.at("type").get<std::string>());
  if (!j.at("op").is_null()) c.op = parse_reduce_op(j.at("op").get<std::string>());
  c.root = optional_from<int>(j.at("root"));
  c.in_place = j.at("in_place");
  c.cuda_graph = j.at("cuda_graph");
  c.registration = j.at("register");
  c.group = j.at("group");
  c.pattern = j.at("pattern").is_null() ? "" : j.at("pattern").get<std::string>();
  // Reports before 2026-11-23 have none: their pairs were of both kinds.
  if (j.contains("pair") && !j.at("pair").is_null()) c.pair = j.at("pair");
  c.ranks = j.at("ranks");
  c.nodes = j.at("nodes");
  c.arm = j.at("arm");
  c.settings = j.at("settings").get<std::map<std::string, std::string>>();
  c.pairs_sampled = j.at("pairs_sampled");
  return c;
}

// ---- series

json series_json(const std::optional<Series>& series, const Case& c, bool rates, bool with_samples) {
  if (!series) return nullptr;
  const Summary& s = series->summary;
  json j{{"samples", s.samples},
         {"operations_per_sample", series->operations_per_sample},
         {"median_us", microseconds(s.median)},
         {"ci95_us",
          s.interval ? json::array({microseconds(s.interval->low), microseconds(s.interval->high)}) : json(nullptr)},
         {"min_us", microseconds(s.min)},
         {"p95_us", s.p95 ? microseconds(*s.p95) : json(nullptr)},
         {"p99_us", s.p99 ? microseconds(*s.p99) : json(nullptr)},
         {"max_us", microseconds(s.max)},
         {"stopped_because", series->stopped_because}};
  if (rates) {
    const Seconds shown{rounded(s.median * 1e6) * 1e-6};  // so that the rate is that of the time beside it
    j["algbw_gb_per_s"] = number(algorithm_bandwidth(c, shown).count);
    j["busbw_gb_per_s"] = number(bus_bandwidth(c, shown).count);
  }
  if (with_samples) {
    json& samples = j["samples_us"] = json::array();
    for (double sample : series->samples) samples.push_back(microseconds(sample));
  }
  return j;
}

std::optional<Series> series_from(const json& j) {
  if (j.is_null()) return std::nullopt;
  Series series;
  Summary& s = series.summary;
  series.operations_per_sample = j.at("operations_per_sample");
  series.stopped_because = j.at("stopped_because");
  s.samples = j.at("samples");
  s.median = seconds_from(j.at("median_us"));
  if (!j.at("ci95_us").is_null())
    s.interval = Interval{seconds_from(j.at("ci95_us").at(0)), seconds_from(j.at("ci95_us").at(1))};
  s.min = seconds_from(j.at("min_us"));
  s.max = seconds_from(j.at("max_us"));
  if (!j.at("p95_us").is_null()) s.p95 = seconds_from(j.at("p95_us"));
  if (!j.at("p99_us").is_null()) s.p99 = seconds_from(j.at("p99_us"));
  return series;
}

// ---- measurements

json first_wrong_json(const std::optional<WrongElement>& first) {
  if (!first) return nullptr;
  return {{"rank", first->rank},
          {"offset", first->offset},
          {"wanted", first->wanted},
          {"got", first->got},
          {"guard", first->guard}};
}

json selection_json(const std::optional<Selection>& selection) {
  if (!selection) return nullptr;
  return {{"algorithm", selection->algorithm},
          {"protocol", selection->protocol},
          {"channels", selection->channels},
          {"source", selection->source}};
}

json verdict_json(const Verdict& v) {
  return {{"grade", name_of(v.grade)},
          {"level", v.level.empty() ? json(nullptr) : json(v.level)},
          {"limit_gb_per_s", v.limit ? number(v.limit->count) : json(nullptr)},
          {"fraction_of_limit", v.fraction ? number(*v.fraction) : json(nullptr)},
          {"binding", v.binding.empty() ? json(nullptr) : json(v.binding)},
          {"because", v.because}};
}

Verdict verdict_from(const json& j) {
  Verdict v;
  v.grade = parse(grades, j.at("grade"), "grade");
  if (v.grade == Grade::faulty) throw UsageError("a measurement cannot be 'faulty', only a report");
  v.level = j.at("level").is_null() ? "" : j.at("level").get<std::string>();
  if (!j.at("limit_gb_per_s").is_null()) v.limit = GBps{j.at("limit_gb_per_s")};
  v.fraction = optional_from<double>(j.at("fraction_of_limit"));
  v.binding = j.at("binding").is_null() ? "" : j.at("binding").get<std::string>();
  v.because = j.at("because");
  return v;
}

// Pairs by both ranks, other groups by their first.
json groups_json(const Measurement& m) {
  json groups = json::array();
  for (const GroupResult& each : m.groups) {
    json row{each.group.front()};
    if (m.measured_case.collective->pairwise) row.push_back(each.group.back());
    row.push_back(microseconds(each.median.count));
    groups.push_back(std::move(row));
  }
  return groups;
}

std::vector<GroupResult> groups_from(const json& j) {
  std::vector<GroupResult> groups;
  for (const json& row : j) {
    Group group;
    for (std::size_t i = 0; i + 1 < row.size(); ++i) group.push_back(row.at(i));
    groups.push_back({std::move(group), {seconds_from(row.back())}});
  }
  return groups;
}

Result result_from(const json& j) {
  Result result;
  Measurement& m = result.measurement;
  m.measured_case = case_from(j.at("case"));
  m.outcome = parse(outcomes, j.at("outcome"), "outcome");
  m.because = j.at("because");
  if (!j.at("failed_in").is_null()) m.failed_in = parse(phases, j.at("failed_in"), "phase");
  m.failed_rank = optional_from<int>(j.at("failed_rank"));
  m.latency = series_from(j.at("latency"));
  m.throughput = series_from(j.at("throughput"));
  for (const json& launch : j.at("launches_us")) m.launches_s.push_back(seconds_from(launch));
  // Reports before 2026-11-21 have neither.
  if (j.contains("latency_launches_us"))
    for (const json& launch : j.at("latency_launches_us")) m.latency_launches_s.push_back(seconds_from(launch));
  if (j.contains("launch")) m.launch = optional_from<int>(j.at("launch"));
  m.slowest_rank = optional_from<int>(j.at("slowest_rank"));
  m.wrong_elements = j.at("wrong_elements");
  m.wall_s = j.at("wall_s");
  if (const json& first = j.at("first_wrong"); !first.is_null())
    m.first_wrong = WrongElement{.rank = first.at("rank"),
                                 .offset = first.at("offset"),
                                 .wanted = first.at("wanted"),
                                 .got = first.at("got"),
                                 .guard = first.at("guard")};
  if (const json& s = j.at("selection"); !s.is_null())
    m.selection = Selection{s.at("algorithm"), s.at("protocol"), s.at("channels"), s.at("source")};
  for (const char* const name : {"pairs", "groups"})
    if (j.contains(name)) m.groups = groups_from(j.at(name));
  if (j.contains("slowest_pair") && !j.at("slowest_pair").is_null())
    m.slowest_group = j.at("slowest_pair").get<Group>();
  result.verdict = verdict_from(j.at("verdict"));
  if (const auto during = j.find("during"); during != j.end() && !during->is_null())
    result.during = topo::case_watch_from_json(*during);
  return result;
}

// ---- the rest

json run_json(const RunInfo& run) {
  return {{"version", run.version}, {"command", run.command},   {"started", run.started}, {"ended", run.ended},
          {"wall_s", run.wall_s},   {"budget_s", run.budget_s}, {"seed", run.seed},       {"cluster", run.cluster},
          {"ranks", run.ranks},     {"nodes", run.nodes},       {"backend", run.backend}, {"launches", run.launches},
          {"remarks", run.remarks}, {"ended_by", run.ended_by}};
}

RunInfo run_from(const json& j) {
  return {.version = j.at("version"),
          .command = j.at("command"),
          .started = j.at("started"),
          .ended = j.at("ended"),
          .wall_s = j.at("wall_s"),
          .budget_s = j.at("budget_s"),
          .seed = j.at("seed"),
          .cluster = j.at("cluster"),
          .ranks = j.at("ranks"),
          .nodes = j.at("nodes"),
          .backend = j.at("backend"),
          .launches = j.value("launches", 1),  // reports before 2026-11-21 have none
          .remarks = j.at("remarks"),
          .ended_by = j.at("ended_by")};
}

json arms_json(const std::vector<ArmInfo>& arms) {
  json all = json::array();
  for (const ArmInfo& arm : arms)
    all.push_back({{"name", arm.name},
                   {"settings", arm.settings},
                   {"context", arm.context},
                   {"launches", arm.launches},
                   {"problem", arm.problem}});
  return all;
}

ArmInfo arm_from(const json& j) {
  return {.name = j.at("name"),
          .settings = j.at("settings").get<std::map<std::string, std::string>>(),
          .context = j.at("context").get<std::map<std::string, std::string>>(),
          .launches = j.at("launches"),
          .problem = j.at("problem")};
}

json local_checks_json(const std::vector<LocalFigures>& of_ranks) {
  json all = json::array();
  for (const LocalFigures& figures : of_ranks) {
    json& each = all.emplace_back(json::object());
    for (const auto& [name, figure] : figures) each[name] = number(figure);
  }
  return all;
}

json suspects_json(const std::vector<Suspect>& suspects) {
  json all = json::array();
  for (const Suspect& s : suspects)
    all.push_back({{"kind", s.kind},
                   {"name", s.name},
                   {"host", s.host},
                   {"instance", s.instance},
                   {"confidence", s.confidence},
                   {"evidence", s.evidence},
                   {"partners_tested", s.partners_tested},
                   {"action", s.action}});
  return all;
}

Suspect suspect_from(const json& j) {
  return {.kind = j.at("kind"),
          .name = j.at("name"),
          .host = j.at("host"),
          .instance = j.at("instance"),
          .confidence = j.at("confidence"),
          .evidence = j.at("evidence"),
          .partners_tested = j.at("partners_tested"),
          .action = j.at("action")};
}

}  // namespace

std::string_view name_of(Grade grade) {
  switch (grade) {
    case Grade::ok:
      return "ok";
    case Grade::slow:
      return "slow";
    case Grade::faulty:
      return "faulty";
    case Grade::wrong:
      return "wrong";
    case Grade::failed:
      return "failed";
    case Grade::unknown:
      break;
  }
  return "unknown";
}

json to_json(const Case& c) { return case_json(c); }

json to_json(const Result& result, bool with_samples) {
  const Measurement& m = result.measurement;
  const Case& c = m.measured_case;
  json launches = json::array(), latency_launches = json::array();
  for (double launch : m.launches_s) launches.push_back(microseconds(launch));
  for (double launch : m.latency_launches_s) latency_launches.push_back(microseconds(launch));
  json j{{"case", case_json(c)},
         {"launch", optional(m.launch)},
         {"outcome", name_of(m.outcome)},
         {"because", m.because},
         {"failed_in", m.failed_in ? json(name_of(*m.failed_in)) : json(nullptr)},
         {"failed_rank", optional(m.failed_rank)},
         {"latency", series_json(m.latency, c, false, with_samples)},
         {"throughput", series_json(m.throughput, c, true, with_samples)},
         {"launches_us", launches},
         {"latency_launches_us", latency_launches},
         {"slowest_rank", optional(m.slowest_rank)},
         {"wrong_elements", m.wrong_elements},
         {"first_wrong", first_wrong_json(m.first_wrong)},
         {"selection", selection_json(m.selection)},
         {"wall_s", number(m.wall_s)},
         {"verdict", verdict_json(result.verdict)},
         {"during", result.during ? topo::to_json(*result.during) : json(nullptr)}};
  if (c.collective->pairwise) {
    j["pairs"] = groups_json(m);
    j["slowest_pair"] = m.slowest_group.empty() ? json(nullptr) : json(m.slowest_group);
  } else if (m.groups.size() > 1) {
    j["groups"] = groups_json(m);
  }
  return j;
}

json to_json(const Report& report) {
  json measurements = json::array();
  for (const Result& result : report.results) measurements.push_back(to_json(result, false));
  json j{{"schema", schema_name},
         {"status", report.status},
         {"provenance", report.provenance},
         {"grade", name_of(report.grade)},
         {"exit_code", static_cast<int>(report.exit_code)},
         {"run", run_json(report.run)},
         {"context", report.context},
         {"topology", topo::to_json(report.topology)},
         {"limits", topo::to_json(report.limits)},
         {"measurements", measurements},
         {"findings", topo::to_json(report.findings)},
         {"suspects", suspects_json(report.suspects)},
         {"tuning", report.tuning ? to_json(*report.tuning) : json(nullptr)}};
  if (!report.arms.empty()) j["arms"] = arms_json(report.arms);
  if (!report.local_checks.empty()) j["local_checks"] = local_checks_json(report.local_checks);
  return j;
}

Case case_from_json(const json& j) { return case_from(j); }

Report report_from_json(const json& j) {
  if (!j.is_object() || !j.contains("schema")) throw UsageError("it has no \"schema\": not a report of p5bench");
  if (j.at("schema") != schema_name)
    throw UsageError(fmt::format("its schema is {}, this version reads \"{}\"", j.at("schema").dump(), schema_name));
  try {
    Report report;
    report.status = j.at("status");
    report.provenance = j.at("provenance");
    report.grade = parse(grades, j.at("grade"), "grade");
    report.exit_code = static_cast<ExitCode>(j.at("exit_code").get<int>());
    report.run = run_from(j.at("run"));
    report.context = j.at("context").get<std::map<std::string, std::string>>();
    report.topology = topo::topology_from_json(j.at("topology"));
    report.limits = topo::limits_from_json(j.at("limits"));
    for (const json& each : j.at("measurements")) report.results.push_back(result_from(each));
    report.findings = topo::findings_from_json(j.at("findings"));
    for (const json& each : j.at("suspects")) report.suspects.push_back(suspect_from(each));
    if (j.contains("local_checks")) report.local_checks = j.at("local_checks").get<std::vector<LocalFigures>>();
    if (j.contains("arms"))
      for (const json& each : j.at("arms")) report.arms.push_back(arm_from(each));
    if (!j.at("tuning").is_null()) report.tuning = tuning_from_json(j.at("tuning"));
    return report;
  } catch (const json::exception& problem) {
    throw UsageError(fmt::format("not a whole report: {}", problem.what()));
  }
}

Report read_report(const std::string& path) {
  std::ifstream file(path);
  // A folder opens like a file and then throws on the first read.
  if (!file || std::filesystem::is_directory(path))
    throw UsageError(fmt::format("'{}' cannot be read; name a report.json", path));
  json j;
  try {
    std::ostringstream text;
    text << file.rdbuf();
    j = json::parse(std::move(text).str());
  } catch (const json::exception& problem) {
    throw UsageError(fmt::format("'{}' is not JSON: {}", path, problem.what()));
  }
  try {
    return report_from_json(j);
  } catch (const UsageError& problem) {
    throw UsageError(fmt::format("'{}': {}", path, problem.what()));
  }
}

}  // namespace p5::reports
