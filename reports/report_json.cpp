// The report as JSON and back. Rates are decimal GB/s, times microseconds, bytes integers, absent is null.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/base/environment.hpp"
#include "bench/base/input.hpp"
#include "bench/base/names.hpp"
#include "bench/model/result_fields.hpp"
#include "reports/decision.hpp"
#include "reports/json_values.hpp"
#include "reports/report.hpp"

namespace p5::reports {

using json_fields::As;
using json_fields::named;
using json_fields::or_null;
using json_fields::read_as;
using json_fields::written;
using nlohmann::json;

namespace {

// Of reports; the last is of no measurement.
constexpr std::array grades{Grade::ok, Grade::slow, Grade::wrong, Grade::failed, Grade::unknown, Grade::faulty};
constexpr std::array measured_grades{Grade::ok, Grade::slow, Grade::wrong, Grade::failed, Grade::unknown};
constexpr std::array outcomes{Outcome::measured, Outcome::skipped, Outcome::failed};
constexpr std::array phases{Phase::open, Phase::warm_up, Phase::sample, Phase::verify};

// Texts of few values.
constexpr std::array<std::string_view, 2> statuses{"complete", "partial"};
constexpr std::array<std::string_view, 3> provenances{"measured", "simulated", "imported"};
constexpr std::array<std::string_view, 5> suspect_kinds{"gpu", "nic", "node", "link", "rail"};
constexpr std::array<std::string_view, 3> faults{"slow", "silent", "wrong"};
constexpr std::array<std::string_view, 3> decisions{"ACCEPT", "REJECT", "CANNOT TELL"};
constexpr std::array<std::string_view, 3> registrations{"none", "local", "symmetric"};
constexpr std::array<std::string_view, 3> patterns{"one_way", "both_ways", "ping_pong"};
constexpr std::array<std::string_view, 2> pair_kinds{"same_node", "other_node"};
constexpr std::array<std::string_view, 3> levels{"wire", "achievable", "published"};

template <class Enum, std::size_t count>
Enum parse(const std::array<Enum, count>& all, const std::string& name, std::string_view kind) {
  std::vector<std::string> names;
  for (const Enum each : all) {
    names.emplace_back(name_of(each));
    if (names.back() == name) return each;
  }
  throw UsageError(unknown_name(kind, name, names));
}

auto rounded_us(auto& seconds) { return in_microseconds(seconds); }

auto rounded_us(Is<std::optional<Interval>> auto& interval) {
  return As{interval,
            [](const Interval& each) {
              return json{microseconds(each.low), microseconds(each.high)};
            },
            [](const json& j) { return interval_from(j, seconds_from); }};
}

auto rounded_us(Is<std::vector<double>> auto& times) {
  return As{times,
            [](const std::vector<double>& all) {
              json list = json::array();
              for (double seconds : all) list.push_back(microseconds(seconds));
              return list;
            },
            [](const json& j) {
              std::vector<double> all;
              for (const json& each : json_fields::list_in(j))
                json_fields::at(all.size(), [&] { all.push_back(seconds_from(each)); });
              return all;
            }};
}

Grade grade_from(const std::string& name) { return parse(grades, name, "grade"); }
Grade measured_grade_from(const std::string& name) { return parse(measured_grades, name, "grade of a measurement"); }
Outcome outcome_from(const std::string& name) { return parse(outcomes, name, "outcome"); }
Phase phase_from(const std::string& name) { return parse(phases, name, "phase"); }

}  // namespace

double rounded(double value) {
  std::array<char, 32> text{};
  const auto shown = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 12);
  double back = value;
  std::from_chars(text.data(), shown.ptr, back);
  return back;
}

}  // namespace p5::reports

namespace p5 {

// ---- cases

void fields(auto& archive, Is<Case> auto& c) {
  archive.must("backend", c.backend);
  archive.must("collective",
               json_fields::As{c.collective, [](const Collective* each) { return nlohmann::json(each->name); },
                               [](const nlohmann::json& j) { return &find_collective(json_fields::text_in(j)); }});
  archive.must("bytes", c.bytes);
  archive.must("bytes_per_rank", c.bytes_per_rank);
  archive.must("type", json_fields::named(c.type, parse_data_type));
  archive.must("op", json_fields::named(c.op, parse_reduce_op));
  archive.must("root", c.root);
  archive.must("in_place", c.in_place);
  archive.must("cuda_graph", c.cuda_graph);
  archive.must("register", json_fields::one_of(c.registration, reports::registrations));
  archive.must("group", c.group);
  archive.must("pattern", json_fields::one_of_or_null(c.pattern, reports::patterns));
  // Reports before 2026-11-23 have none: their pairs were of both kinds.
  archive.may("pair", json_fields::one_of_or_null(c.pair, reports::pair_kinds));
  archive.some("nic", c.nic);
  archive.must("ranks", json_fields::at_least(1, c.ranks));
  archive.must("nodes", json_fields::at_least(1, c.nodes));
  archive.must("arm", c.arm);
  archive.must("settings", c.settings);
  archive.some("for_parts", c.for_parts);
  archive.must("pairs_sampled", c.pairs_sampled);
}

// ---- series

void fields(auto& archive, Is<Series> auto& series) {
  auto& s = series.summary;
  archive.must("samples", json_fields::at_least(1, s.samples));
  archive.must("operations_per_sample", json_fields::at_least(1, series.operations_per_sample));
  archive.must("median_us", reports::rounded_us(s.median));
  archive.must("ci95_us", reports::rounded_us(s.interval));
  archive.must("min_us", reports::rounded_us(s.min));
  archive.must("p95_us", reports::rounded_us(s.p95));
  archive.must("p99_us", reports::rounded_us(s.p99));
  archive.must("max_us", reports::rounded_us(s.max));
  archive.must("stopped_because", series.stopped_because);
  archive.some("rounding_us", series.rounding_us);
}

}  // namespace p5

namespace p5::reports {

// ---- measurements

void fields(auto& archive, Is<Verdict> auto& v) {
  archive.must("grade", named(v.grade, measured_grade_from));
  archive.must("level", json_fields::one_of_or_null(v.level, levels));
  archive.must("limit_gb_per_s", json_fields::above_zero(v.limit));
  archive.must("fraction_of_limit", v.fraction);
  archive.must("binding", or_null(v.binding));
  archive.must("because", v.because);
}

void fields(auto& archive, Is<BaselineTimes> auto& times) {
  archive.must("latency_us", rounded_us(times.latency_s));
  archive.must("throughput_us", rounded_us(times.throughput_s));
}

void fields(auto& archive, Is<Result> auto& result) {
  auto& m = result.measurement;
  archive.must("case", m.measured_case);
  archive.may("launch",
              json_fields::between(0, most_launches - 1,
                                   m.launch));  // reports before 2026-11-21 have none, as with the launches of latency
  archive.must("outcome", named(m.outcome, outcome_from));
  archive.must("because", m.because);
  archive.must("failed_in", named(m.failed_in, phase_from));
  archive.must("failed_rank", m.failed_rank);
  archive.some("worker_log", m.failure_context.log);
  archive.some("library_status", m.failure_context.library_status);
  archive.must("latency", m.latency);
  archive.must("throughput", m.throughput);
  archive.must("launches_us", rounded_us(m.launches_s));
  archive.may("latency_launches_us", rounded_us(m.latency_launches_s));
  archive.must("slowest_rank", m.slowest_rank);
  archive.must("wrong_elements", m.wrong_elements);
  archive.must("first_wrong", m.first_wrong);
  archive.must("selection", m.selection);
  archive.must("wall_s", m.wall_s);
  archive.must("verdict", result.verdict);
  archive.may("during", As{result.during, [](const topo::CaseWatch& watch) { return topo::to_json(watch); },
                           topo::case_watch_from_json});
  archive.some("baseline", result.baseline);
}

// ---- the rest

void fields(auto& archive, Is<RunInfo> auto& run) {
  archive.must("version", run.version);
  archive.must("command", run.command);
  archive.must("started", run.started);
  archive.must("ended", run.ended);
  archive.must("wall_s", run.wall_s);
  archive.must("budget_s", run.budget_s);
  archive.must("seed", run.seed);
  archive.must("cluster", run.cluster);
  archive.must("ranks", run.ranks);
  archive.must("nodes", run.nodes);
  archive.must("backend", run.backend);
  archive.may("launches", json_fields::between(1, most_launches, run.launches));  // reports before 2026-11-21 have none
  archive.must("remarks", run.remarks);
  archive.must("ended_by", run.ended_by);
}

void fields(auto& archive, Is<ArmInfo> auto& arm) {
  archive.must("name", arm.name);
  archive.must("settings", arm.settings);
  archive.must("context", arm.context);
  archive.must("launches", arm.launches);
  archive.must("problem", arm.problem);
}

void fields(auto& archive, Is<Suspect> auto& suspect) {
  archive.must("kind", json_fields::one_of(suspect.kind, suspect_kinds));
  archive.must("name", suspect.name);
  archive.must("host", suspect.host);
  archive.must("instance", suspect.instance);
  archive.may("device", suspect.device);  // reports before 2026-11-24 have none
  archive.must("confidence", json_fields::between(0, 1, suspect.confidence));
  archive.must("evidence", suspect.evidence);
  archive.must("partners_tested", suspect.partners_tested);
  archive.must("action", suspect.action);
  archive.may("fault", json_fields::one_of(suspect.fault, faults));  // reports before 2026-11-25 have none
}

namespace {

std::vector<double> probabilities_from(const json& j) {
  std::vector<double> all;
  for (const json& each : json_fields::list_in(j))
    json_fields::at(all.size(), [&] {
      double value = 0;
      auto within = json_fields::between(0, 1, value);
      json_fields::read(each, within);
      all.push_back(value);
    });
  return all;
}

}  // namespace

void fields(auto& archive, Is<OpenQuestion> auto& question) {
  archive.must("candidates", question.candidates);
  archive.may("probabilities",
              As{question.probabilities, [](const std::vector<double>& all) { return json(all); }, probabilities_from});
  archive.may("host", question.host);
  archive.must("evidence", question.evidence);
  archive.must("next", question.next);
  archive.must("fault", json_fields::one_of(question.fault, faults));
}

void fields(auto& archive, Is<Decision> auto& decision) {
  archive.must("word", json_fields::one_of(decision.word, decisions));
  archive.must("parts", decision.parts);
  archive.must("sentence", decision.sentence);
  archive.must("next", decision.next);
  archive.must("command", decision.command);
}

namespace {

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

// Ranks, and the time behind them.
std::vector<GroupResult> groups_from(const json& j, std::size_t ranks) {
  std::vector<GroupResult> groups;
  for (const json& each : json_fields::list_in(j))
    json_fields::at(groups.size(), [&] {
      const json::array_t& row = json_fields::list_of_size(ranks + 1, each);
      GroupResult group;
      for (std::size_t i = 0; i < ranks; ++i) json_fields::at(i, [&] { group.group.push_back(read_as<int>(row[i])); });
      json_fields::at(ranks, [&] { group.median = {seconds_from(row.back())}; });
      groups.push_back(std::move(group));
    });
  return groups;
}

json results_json(const std::vector<Result>& results) {
  json all = json::array();
  for (const Result& result : results) all.push_back(to_json(result, false));
  return all;
}

}  // namespace

Result result_from_json(const json& j) {
  Result result = read_as<Result>(j);
  Measurement& m = result.measurement;
  const auto part = [&](const char* name, const auto& read_part) {
    if (const auto found = j.find(name); found != j.end() && !found->is_null())
      json_fields::at(name, [&] { read_part(*found); });
  };
  part("pairs", [&](const json& rows) { m.groups = groups_from(rows, 2); });
  part("groups", [&](const json& rows) { m.groups = groups_from(rows, 1); });
  part("slowest_pair", [&](const json& ranks) {
    json_fields::list_of_size(2, ranks);
    m.slowest_group = read_as<Group>(ranks);
  });
  const auto read_samples = [&](const char* name, std::optional<Series>& series) {
    if (!series || !j.at(name).contains("samples_us")) return;
    json_fields::at(name, [&] {
      for (const json& sample : json_fields::list_in(j.at(name).at("samples_us")))
        series->samples.push_back(seconds_from(sample));
    });
  };
  read_samples("latency", m.latency);
  read_samples("throughput", m.throughput);
  return result;
}

namespace {

std::vector<Result> results_from(const json& j) {
  std::vector<Result> results;
  for (const json& each : json_fields::list_in(j))
    json_fields::at(results.size(), [&] { results.push_back(result_from_json(each)); });
  return results;
}

ExitCode exit_code_from(const json& j) {
  constexpr std::array all{ExitCode::ok,         ExitCode::usage,       ExitCode::slow,        ExitCode::wrong_data,
                           ExitCode::unfinished, ExitCode::environment, ExitCode::inconclusive};
  const auto found = std::ranges::find(all, read_as<int>(j), [](ExitCode each) { return static_cast<int>(each); });
  if (found == all.end()) throw json_fields::BadValue("", fmt::format("is {}, which is no exit code here", j.dump()));
  return *found;
}

}  // namespace

void fields(auto& archive, Is<Report> auto& report) {
  const auto elsewhere = [](auto& value, auto from) {
    return As{value, [](const auto& each) -> decltype(to_json(each)) { return to_json(each); }, from};
  };
  archive.must("status", json_fields::one_of(report.status, statuses));
  archive.must("provenance", json_fields::one_of(report.provenance, provenances));
  archive.must("grade", named(report.grade, grade_from));
  archive.may("decision", report.decision);  // reports before 2026-11-25 have none
  archive.must("exit_code",
               As{report.exit_code, [](ExitCode code) { return json(static_cast<int>(code)); }, exit_code_from});
  archive.must("run", report.run);
  archive.must("context", report.context);
  archive.must("topology", elsewhere(report.topology, topo::topology_from_json));
  archive.must("limits", elsewhere(report.limits, topo::limits_from_json));
  archive.must("measurements", As{report.results, results_json, results_from});
  archive.must("findings", elsewhere(report.findings, topo::findings_from_json));
  archive.must("suspects", report.suspects);
  archive.may("open_questions", report.open_questions);  // reports before 2026-11-25 have none
  archive.some("local_checks", report.local_checks);
  archive.some("compute_checks", report.compute_checks);
  archive.some("arms", report.arms);
  archive.must("tuning", elsewhere(report.tuning, tuning_from_json));
}

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

json to_json(const Case& c) { return written(c); }

json to_json(const Result& result, bool with_samples) {
  const Measurement& m = result.measurement;
  const Case& c = m.measured_case;
  json j = written(result);
  if (m.throughput) {
    // Of the time that is shown, so that the rate is that of the time beside it.
    const Seconds shown{rounded(m.throughput->summary.median * 1e6) * 1e-6};
    j["throughput"]["algbw_gb_per_s"] = written(algorithm_bandwidth(c, shown));
    j["throughput"]["busbw_gb_per_s"] = written(bus_bandwidth(c, shown));
  }
  if (with_samples) {
    if (m.latency) j["latency"]["samples_us"] = written(rounded_us(m.latency->samples));
    if (m.throughput) j["throughput"]["samples_us"] = written(rounded_us(m.throughput->samples));
  }
  if (c.collective->pairwise) {
    j["pairs"] = groups_json(m);
    j["slowest_pair"] = m.slowest_group.empty() ? json(nullptr) : json(m.slowest_group);
  } else if (m.groups.size() > 1) {
    j["groups"] = groups_json(m);
  }
  return j;
}

json to_json(const Report& report) {
  json j = written(report);
  j["schema"] = schema_name;
  return j;
}

Case case_from_json(const json& j) { return read_as<Case>(j); }

namespace {

// Reports of earlier versions may hold values that this one would not have recorded.
void hide_secrets(Report& report) {
  constexpr std::string_view prefix = "env.";
  const auto hide = [&](std::map<std::string, std::string>& context) {
    for (auto& [name, value] : context)
      if (name.starts_with(prefix)) value = recorded_value(name.substr(prefix.size()), value);
  };
  hide(report.context);
  for (ArmInfo& arm : report.arms) {
    hide(arm.context);
    arm.settings = recorded(arm.settings);
  }
  for (Result& result : report.results)
    result.measurement.measured_case.settings = recorded(result.measurement.measured_case.settings);
  for (std::string& word : report.run.command) word = recorded_argument(word);
}

}  // namespace

Report report_from_json(const json& j) {
  if (!j.is_object() || !j.contains("schema")) throw UsageError("it has no \"schema\": not a report of p5bench");
  if (const json& schema = j.at("schema"); schema != schema_name)
    throw UsageError(fmt::format("its schema is {}, this version reads '{}'", json_fields::found(schema), schema_name));
  Report report = read_as<Report>(j);
  for (std::size_t rank = 0; rank < report.local_checks.size(); ++rank)
    for (const auto& [name, figure] : report.local_checks[rank])
      if (figure == 0) throw json_fields::BadValue(fmt::format("/local_checks/{}/{}", rank, name), "has to be above 0");
  hide_secrets(report);
  if (!j.contains("decision")) report.decision = decide(report);
  return report;
}

Report read_report(const std::string& path, std::span<const std::string_view> left_out) {
  constexpr const char* remedy = "name a report.json as p5bench wrote it";
  const json j = read_json_input(path, largest_json, remedy, left_out);
  try {
    return report_from_json(j);
  } catch (const UsageError& problem) {
    throw UsageError(fmt::format("'{}': {}; {}", printable(path), problem.what(), remedy));
  }
}

}  // namespace p5::reports
