// The report as JSON and back. Rates are decimal GB/s, times microseconds, bytes integers; an absent value is null.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "bench/base/names.hpp"
#include "bench/model/job.hpp"
#include "bench/model/result_fields.hpp"
#include "bench/model/traffic.hpp"
#include "reports/decision.hpp"
#include "reports/journal.hpp"
#include "reports/json_values.hpp"
#include "reports/judge.hpp"
#include "reports/report.hpp"

namespace p5::reports {

using json_fields::As;
using json_fields::named;
using json_fields::or_null;
using json_fields::read_as;
using json_fields::written;
using nlohmann::json;

namespace {

// The last grade is of reports only.
constexpr std::array grades{Grade::ok, Grade::slow, Grade::wrong, Grade::failed, Grade::unknown, Grade::faulty};
constexpr std::array measured_grades{Grade::ok, Grade::slow, Grade::wrong, Grade::failed, Grade::unknown};
constexpr std::array outcomes{Outcome::measured, Outcome::skipped, Outcome::failed};
constexpr std::array phases{Phase::open, Phase::warm_up, Phase::sample, Phase::verify, Phase::close};

// Enumerations kept as text.
constexpr std::array<std::string_view, 2> statuses{"complete", "partial"};
constexpr std::array<std::string_view, 3> provenances{"measured", "simulated", "imported"};
constexpr std::array<std::string_view, 4> subcommands{"run", "tune", "ab", "check"};
constexpr std::array<std::string_view, 6> suspect_kinds{"gpu", "nic", "node", "link", "rail", "domain"};
constexpr std::array<std::string_view, 3> faults{"slow", "silent", "wrong"};
constexpr std::array<std::string_view, 3> decisions{"ACCEPT", "REJECT", "CANNOT TELL"};
constexpr std::array<std::string_view, 3> levels{"wire", "achievable", "published"};

// Of all collectives.
const std::vector<std::string_view>& patterns() {
  static const std::vector<std::string_view> all = [] {
    std::vector<std::string_view> found;
    for (const Collective* const each : collectives())
      found.insert(found.end(), each->patterns.begin(), each->patterns.end());
    return found;
  }();
  return all;
}

template <class Enum, std::size_t count>
Enum parse(const std::array<Enum, count>& all, const std::string& name, std::string_view kind) {
  std::vector<std::string> names;
  for (const Enum each : all) {
    names.emplace_back(name_of(each));
    if (names.back() == name) return each;
  }
  throw UsageError(unknown_name(kind, name, names));
}

json list_of_entries(const auto& entries, const auto& write_entry) {
  json list = json::array();
  for (const auto& each : entries) list.push_back(write_entry(each));
  return list;
}

// Reads each entry of a list; errors name the entry.
auto list_from(const json& j, const auto& read_entry) {
  std::vector<decltype(read_entry(j))> all;
  for (const json& each : json_fields::list_in(j))
    json_fields::at(all.size(), [&] { all.push_back(read_entry(each)); });
  return all;
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
  return As{times, [](const std::vector<double>& all) { return list_of_entries(all, microseconds); },
            [](const json& j) { return list_from(j, seconds_from); }};
}

Grade grade_from(const std::string& name) { return parse(grades, name, "grade"); }
Grade measured_grade_from(const std::string& name) { return parse(measured_grades, name, "grade of a measurement"); }
Outcome outcome_from(const std::string& name) { return parse(outcomes, name, "outcome"); }
Phase phase_from(const std::string& name) { return parse(phases, name, "phase"); }

std::vector<double> probabilities_from(const json& j) {
  return list_from(j, [](const json& each) {
    double value = 0;
    auto within = json_fields::between(0, 1, value);
    json_fields::read(each, within);
    return value;
  });
}

// Pairs have both ranks, other groups their first rank.
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

// Reads rows of `ranks` ranks followed by the time.
std::vector<GroupResult> groups_from(const json& j, std::size_t ranks) {
  return list_from(j, [&](const json& each) {
    const json::array_t& row = json_fields::list_of_size(ranks + 1, each);
    GroupResult group;
    for (std::size_t i = 0; i < ranks; ++i) json_fields::at(i, [&] { group.group.push_back(read_as<int>(row[i])); });
    json_fields::at(ranks, [&] { group.median = {seconds_from(row.back())}; });
    return group;
  });
}

ExitCode exit_code_from(const json& j) {
  constexpr std::array all{ExitCode::ok,         ExitCode::usage,       ExitCode::slow,        ExitCode::wrong_data,
                           ExitCode::unfinished, ExitCode::environment, ExitCode::inconclusive};
  const auto found = std::ranges::find(all, read_as<int>(j), [](ExitCode each) { return static_cast<int>(each); });
  if (found == all.end()) throw json_fields::BadValue("", fmt::format("is {}, which is no exit code here", j.dump()));
  return *found;
}

// Reports of earlier versions may hold values that are redacted today.
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

using json_fields::above_zero;
using json_fields::any;

constexpr std::array<std::string_view, 3> modes{"quick", "full", "exhaustive"};
constexpr std::array<std::string_view, 3> tuning_outcomes{"settings", "nothing", "refused"};

constexpr std::array<std::string_view, 7> stage_names{"preparation",     "search",       "search again", "variables",
                                                      "ways of calling", "confirmation", "job's step"};

}  // namespace

double rounded(double value, int digits) {
  std::array<char, 32> text{};
  const auto shown = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, digits);
  double back = value;
  std::from_chars(text.data(), shown.ptr, back);
  return back;
}

}  // namespace p5::reports

namespace p5 {

// ---- cases

// A work is a text, as on the command line.
static nlohmann::json written(const Work& work) { return name_of(work); }
static void read(const nlohmann::json& j, Work& work) { work = parse_work(json_fields::text_in(j)); }

// Of Case::replay a report has only these.
struct NameOfReplay {
  std::string name, digest;
  std::optional<Work> products = {};
  std::optional<double> recorded_us = {};
};
void fields(auto& archive, Is<NameOfReplay> auto& job) {
  archive.must("name", job.name);
  archive.must("digest", job.digest);
  archive.some("gaps", job.products);
  archive.some("recorded_us", job.recorded_us);
}

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
  archive.some("every_root", c.every_root);
  archive.must("in_place", c.in_place);
  fields(archive, c.calls);
  archive.must("group", c.group);
  archive.must("pattern", json_fields::one_of_or_null(c.pattern, reports::patterns()));
  std::optional<std::string> traffic = c.shape.traffic ? std::optional(c.shape.traffic->name) : std::nullopt;
  archive.some("traffic", traffic);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(c)>>)
    if (traffic) c.shape.traffic = std::make_shared<const MatrixTraffic>(MatrixTraffic{.name = *traffic});
  archive.some("tokens", json_fields::omitted_if(c.shape.tokens == 0, c.shape.tokens));
  archive.some("hidden", json_fields::omitted_if(c.shape.hidden == 0, c.shape.hidden));
  std::optional<NameOfReplay> job;
  if (c.replay) job = {c.replay->name, c.replay->digest, c.replay->products};
  if (c.replay && c.replay->step) job->recorded_us = std::round(c.replay->step->count * 1e9) / 1e3;
  archive.some("job", job);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(c)>>)
    if (job) {
      Replay replay{.name = job->name, .digest = job->digest, .products = std::move(job->products)};
      if (job->recorded_us) replay.step = Seconds{*job->recorded_us * 1e-6};
      c.replay = std::make_shared<const Replay>(std::move(replay));
    }
  // Reports before 2026-11-23 lack it: their pairs were of both kinds.
  archive.may("pair", json_fields::one_of_or_null(c.pair, pair_kinds));
  archive.some("nic", c.nic);
  archive.some("beside", c.beside);
  archive.must("ranks", json_fields::at_least(1, c.ranks));
  archive.must("nodes", json_fields::at_least(1, c.nodes));
  archive.some("domains", c.domains);
  std::optional<int> smallest = c.domains ? std::optional(c.nodes_per_domain) : std::nullopt;
  archive.some("nodes_per_domain", smallest);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(c)>>) c.nodes_per_domain = smallest.value_or(1);
  archive.some("fewest_per_domain", c.fewest_per_domain);
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

void fields(auto& archive, Is<ConcurrentOperation::BesideOne> auto& beside) {
  archive.must("name", beside.name);
  archive.must("times", beside.times);
}

void fields(auto& archive, Is<ConcurrentOperation> auto& operation) {
  archive.must("name", operation.name);
  archive.must("operations", json_fields::at_least(1, operation.operations));
  archive.must("alone", operation.alone);
  archive.must("beside", operation.beside);
  archive.some("beside_each", operation.beside_each);
  archive.must("covered", operation.covered);
}

void fields(auto& archive, Is<Concurrency> auto& concurrency) {
  archive.must("operations", concurrency.operations);
  archive.must("together", concurrency.together);
}

void fields(auto& archive, Is<RootResult> auto& each) {
  archive.must("root", each.root);
  archive.must("median_us", reports::rounded_us(each.median.count));
}

}  // namespace p5

namespace p5::topo {

void fields(auto& archive, Is<TrafficPart> auto& part) {
  archive.must("name", part.name);
  archive.must("binding", part.binding);
  archive.must("receives", part.receives);
  archive.must("members", part.members);
  archive.must("load", part.load);
  archive.must("gb_per_s", json_fields::above_zero(part.rate));
  archive.must("because", part.because);
}

}  // namespace p5::topo

namespace p5::reports {

// ---- measurements

void fields(auto& archive, Is<Verdict> auto& v) {
  archive.must("grade", named(v.grade, measured_grade_from));
  archive.must("level", json_fields::one_of_or_null(v.level, levels));
  archive.must("limit_gb_per_s", json_fields::above_zero(v.limit));
  archive.must("fraction_of_limit", v.fraction);
  archive.may("mean_fraction_of_limit", v.mean_fraction);
  archive.some("least_fraction_of_limit", v.least_fraction);
  archive.must("binding", or_null(v.binding));
  archive.must("because", v.because);
  archive.some("not_judged_hosts", v.not_judged_hosts);
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
                                   m.launch));  // reports before 2026-11-21 lack this and the launches of latency
  archive.some("run", json_fields::omitted_if(m.run == 0, json_fields::between(0, most_launches - 1, m.run)));
  archive.must("outcome", named(m.outcome, outcome_from));
  archive.must("because", m.because);
  archive.must("failed_in", named(m.failed_in, phase_from));
  archive.must("failed_rank", m.failed_rank);
  archive.some("worker_log", m.failure_context.log);
  archive.some("library_status", m.failure_context.library_status);
  archive.must("latency", m.latency);
  archive.must("throughput", m.throughput);
  archive.some("concurrency", m.concurrency);
  archive.must("launches_us", rounded_us(m.launches_s));
  archive.may("latency_launches_us", rounded_us(m.latency_launches_s));
  archive.some("launch_runs", m.launch_runs);
  archive.some("latency_launch_runs", m.latency_launch_runs);
  archive.must("slowest_rank", m.slowest_rank);
  archive.some("roots", m.roots);
  archive.some("host_us", json_fields::omitted_if(!m.host_s.has_value(), rounded_us(m.host_s)));
  archive.must("wrong_elements", m.wrong_elements);
  archive.some("data_checked", m.data_checked);
  archive.must("first_wrong", m.first_wrong);
  archive.must("selection", m.selection);
  archive.some("communicator_costs", m.communicator_costs);
  archive.must("wall_s", m.wall_s);
  archive.must("verdict", result.verdict);
  archive.may("during", As{result.during, [](const topo::CaseWatch& watch) { return topo::to_json(watch); },
                           topo::case_watch_from_json});
  archive.some("baseline", result.baseline);
}

// ---- run, arms, suspects and decision

void fields(auto& archive, Is<HeldRun> auto& held) {
  archive.must("started", held.started);
  archive.must("digest", held.digest);
  archive.must("continued", held.continued);
}

void fields(auto& archive, Is<RunInfo> auto& run) {
  archive.must("version", run.version);
  archive.must("command", run.command);
  archive.some("subcommand",
               json_fields::omitted_if(run.subcommand.empty(), json_fields::one_of(run.subcommand, subcommands)));
  archive.must("started", run.started);
  archive.must("ended", run.ended);
  archive.must("wall_s", run.wall_s);
  archive.must("budget_s", run.budget_s);
  archive.must("seed", run.seed);
  archive.must("cluster", run.cluster);
  archive.some("folder", run.folder);
  archive.must("ranks", run.ranks);
  archive.must("nodes", run.nodes);
  archive.must("backend", run.backend);
  archive.may("launches", json_fields::between(1, most_launches, run.launches));  // reports before 2026-11-21 lack it
  archive.must("remarks", run.remarks);
  archive.must("ended_by", run.ended_by);
  archive.some("held", run.held);
}

void fields(auto& archive, Is<ArmInfo> auto& arm) {
  archive.must("name", arm.name);
  archive.must("settings", arm.settings);
  archive.must("context", arm.context);
  archive.must("launches", arm.launches);
  archive.must("problem", arm.problem);
}

void fields(auto& archive, Is<LocalActivity> auto& activity) {
  archive.must("seconds", activity.seconds);
  archive.must("sm_clock_min_mhz", activity.sm_clock_min_mhz);
  archive.must("sm_clock_median_mhz", activity.sm_clock_median_mhz);
  archive.must("temperature_max_c", any(activity.temperature_max_c));
  archive.must("power_max_w", activity.power_max_w);
  archive.must("throttle_reasons", activity.throttle_reasons);
  archive.must("corrected", activity.corrected);
  archive.must("uncorrected", activity.uncorrected);
  archive.must("xids", activity.xids);
}

void fields(auto& archive, Is<Suspect> auto& suspect) {
  archive.must("kind", json_fields::one_of(suspect.kind, suspect_kinds));
  archive.must("name", suspect.name);
  archive.must("host", suspect.host);
  archive.must("instance", suspect.instance);
  archive.may("device", suspect.device);  // reports before 2026-11-24 lack it
  archive.must("confidence", json_fields::between(0, 1, suspect.confidence));
  archive.must("evidence", suspect.evidence);
  archive.must("partners_tested", suspect.partners_tested);
  archive.must("action", suspect.action);
  archive.may("fault", json_fields::one_of(suspect.fault, faults));  // reports before 2026-11-25 have none
}

void fields(auto& archive, Is<Traffic> auto& traffic) {
  archive.must("name", traffic.name);
  archive.must("collectives", traffic.collectives);
  archive.must("ranks", json_fields::at_least(2, traffic.ranks));
  archive.must("matrix", traffic.matrix);
  archive.must("level", json_fields::one_of_or_null(traffic.level, levels));
  archive.must("parts", traffic.parts);
  archive.must("sent_imbalance", traffic.sent_imbalance);
  archive.must("received_imbalance", traffic.received_imbalance);
  archive.must("incast_loss", json_fields::between(0, 1, traffic.incast_loss));
}

void fields(auto& archive, Is<GdrPath> auto& path) {
  archive.must("host", path.host);
  archive.must("gpu", path.gpu);
  archive.must("nic", path.nic);
  archive.must("beside", path.beside);
  archive.must("gb_per_s", path.gb_per_s);
  archive.must("slow", path.slow);
}

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

// Rates are derived from times. They are rounded, those of small messages to few digits. A rate that is 0 by
// definition, such as the bus bandwidth of one rank, follows from no time: 0.2.0 wrote the algorithm bandwidth there.
static void require_rates_of_time(const json& series, const Measurement& m) {
  constexpr double share = 0.01, least = 0.01;
  const Seconds time{m.throughput->summary.median};
  for (const auto& [name, rate] : {std::pair("algbw_gb_per_s", algorithm_bandwidth(m.measured_case, time)),
                                   std::pair("busbw_gb_per_s", bus_bandwidth(m.measured_case, time))}) {
    const auto found = series.find(name);
    if (found == series.end() || !found->is_number()) continue;
    const double told = found->get<double>(), derived = rate.count;
    if (derived > 0 && std::abs(told - derived) > std::max(share * derived, least))
      throw json_fields::BadValue(fmt::format("/throughput/{}", name),
                                  fmt::format("is {:g}, but {:.4g} by the message and its median time", told, derived));
  }
}

// The shares of a limit, too, are derived from the median time, except where groups on some hosts are not judged: then
// it is that of another group, and comparisons read no groups. A baseline has the verdict of its newest run, and times
// of all. The share by the mean is written where it is below that by the median.
static void require_fractions_of_time(const Verdict& verdict, const Measurement& m) {
  constexpr double share = 0.01;
  if (!m.throughput || !verdict.limit || !verdict.fraction) return;
  if (verdict.mean_fraction && *verdict.mean_fraction > *verdict.fraction)
    throw json_fields::BadValue(
        "/verdict/mean_fraction_of_limit",
        fmt::format("is {:.4g}, but no more than {:.4g}, the median's", *verdict.mean_fraction, *verdict.fraction));
  if (!verdict.not_judged_hosts.empty() || m.throughput->stopped_because.starts_with("a baseline of ")) return;
  const double derived =
      bus_bandwidth(m.measured_case, Seconds{m.throughput->summary.median}).count / verdict.limit->count;
  if (derived > 0 && std::abs(*verdict.fraction - derived) > share * derived)
    throw json_fields::BadValue(
        "/verdict/fraction_of_limit",
        fmt::format("is {:.4g}, but {:.4g} by the limit and the median time", *verdict.fraction, derived));
}

// A measurement that is ok has at least the fraction from which its grade is ok.
static void require_fraction_of_grade(const Verdict& verdict) {
  constexpr double rounding = 1e-9;
  if (verdict.grade != Grade::ok || !verdict.fraction || !verdict.least_fraction) return;
  if (*verdict.fraction < *verdict.least_fraction * (1 - rounding))
    throw json_fields::BadValue("/verdict/fraction_of_limit", fmt::format("is {:.4g}, but ok begins at {:.4g}",
                                                                          *verdict.fraction, *verdict.least_fraction));
}

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
  read_from_line(j, m);
  if (m.throughput) require_rates_of_time(j.at("throughput"), m);
  require_fractions_of_time(result.verdict, m);
  require_fraction_of_grade(result.verdict);
  return result;
}

void fields(auto& archive, Is<Report> auto& report) {
  const auto converted = [](auto& value, auto from) {
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
  archive.must("topology", converted(report.topology, topo::topology_from_json));
  archive.must("limits", converted(report.limits, topo::limits_from_json));
  archive.must("measurements", As{report.results,
                                  [](const std::vector<Result>& all) {
                                    return list_of_entries(all,
                                                           [](const Result& each) { return to_json(each, false); });
                                  },
                                  [](const json& j) { return list_from(j, result_from_json); }});
  archive.must("findings", converted(report.findings, topo::findings_from_json));
  archive.must("suspects", report.suspects);
  archive.may("open_questions", report.open_questions);  // reports before 2026-11-25 have none
  archive.some("local_checks", report.local_checks);
  archive.some("compute_checks", report.compute_checks);
  archive.some("local_activity", report.local_activity);
  archive.some("load_activity", report.load_activity);
  archive.some("gdr", report.gdr);
  archive.some("traffic", report.traffic);
  archive.some("arms", report.arms);
  archive.must("tuning", converted(report.tuning, tuning_from_json));
}

std::string_view name_of(Grade grade) {
  constexpr std::array<std::string_view, 6> names{"ok", "slow", "faulty", "wrong", "failed", "unknown"};
  return names.at(static_cast<std::size_t>(grade));
}

json to_json(const Case& c) { return written(c); }
json to_json(const Suspect& suspect) { return written(suspect); }

// Figures derived from the times, for readers.
static void add_ratios(const Concurrency& concurrency, json& j) {
  for (std::size_t i = 0; i < concurrency.operations.size(); ++i) {
    const ConcurrentOperation& each = concurrency.operations[i];
    j["operations"][i]["slowdown"] = slowdown(each.alone, each.beside);
    for (std::size_t one = 0; one < each.beside_each.size(); ++one)
      j["operations"][i]["beside_each"][one]["slowdown"] = slowdown(each.alone, each.beside_each[one].times);
  }
  j["sum_us"] = microseconds(sum_of(concurrency));
  j["longest_us"] = microseconds(longest_of(concurrency));
  j["overlap"] = overlap(concurrency);
}

json to_json(const Result& result, bool with_samples) {
  const Measurement& m = result.measurement;
  const Case& c = m.measured_case;
  json j = written(result);
  if (m.throughput) {
    // The rates follow from the rounded time beside them.
    const Seconds shown{rounded(m.throughput->summary.median * 1e6) * 1e-6};
    j["throughput"]["algbw_gb_per_s"] = written(algorithm_bandwidth(c, shown));
    j["throughput"]["busbw_gb_per_s"] = written(bus_bandwidth(c, shown));
  }
  if (m.concurrency) add_ratios(*m.concurrency, j["concurrency"]);
  if (with_samples) add_to_line(m, j);
  if (c.collective->pairwise) {
    j["pairs"] = groups_json(m);
    j["slowest_pair"] = m.slowest_group.empty() ? json(nullptr) : json(m.slowest_group);
  } else if (m.groups.size() > 1) {
    j["groups"] = groups_json(m);
  }
  if (const std::optional<int> root = slowest_root(m)) j["slowest_root"] = *root;
  return j;
}

json to_json(const Report& report) {
  json j = written(report);
  j["schema"] = schema_name;
  return j;
}

Case case_from_json(const json& j) { return read_as<Case>(j); }

Report report_from_json(const json& j) {
  if (!j.is_object() || !j.contains("schema")) throw UsageError("it has no \"schema\": not a report of p5bench");
  if (const json& schema = j.at("schema"); schema != schema_name)
    throw UsageError(fmt::format("its schema is {}, this version reads '{}'", json_fields::found(schema), schema_name));
  Report report = read_as<Report>(j);
  for (std::size_t rank = 0; rank < report.local_checks.size(); ++rank)
    for (const auto& [name, figure] : report.local_checks[rank])
      if (figure == 0) throw json_fields::BadValue(fmt::format("/local_checks/{}/{}", rank, name), "has to be above 0");
  hide_secrets(report);
  // Reports before 2026-11-25 have no decision, and their grade may lack what is known by now of the content: it was
  // not computed for runs that were killed.
  if (report.decision.sentence.empty()) {
    report.grade = worse_grade(report.grade, overall(report));
    report.decision = decide(report);
  }
  if (const std::string why = contradiction_in(report); !why.empty())
    throw UsageError(fmt::format("it contradicts itself: {}; take the file as p5bench wrote it", why));
  return report;
}

Report read_report(const std::string& path, std::span<const std::string_view> skipped) {
  constexpr const char* remedy = "name a report.json as p5bench wrote it";
  const json j = read_json_input(path, largest_json, remedy, skipped);
  try {
    return report_from_json(j);
  } catch (const UsageError& problem) {
    throw UsageError(fmt::format("'{}': {}; {}", printable(path), problem.what(), remedy));
  }
}

void fields(auto& archive, Is<TuningGain> auto& gain) {
  archive.must("default_us", in_microseconds(gain.default_s));
  archive.must("tuned_us", in_microseconds(gain.tuned_s));
  archive.must("share", json_fields::between(-std::numeric_limits<double>::infinity(), 1, gain.share));
  archive.must("ci95_share", as_list(gain.interval));
}

void fields(auto& archive, Is<TuningSetting> auto& setting) {
  archive.must("setting", setting.setting);
  archive.must("median_us", setting.median_us);
  archive.must("launched_us", setting.launched_us);
  archive.some("alone_us", setting.alone_us);
  archive.must("samples", setting.samples);
  archive.must("predicted_us", any(setting.predicted_us));
  archive.must("chosen", setting.chosen);
}

void fields(auto& archive, Is<TuningSizePoint> auto& point) {
  archive.must("collective", point.collective);
  archive.must("bytes", point.bytes);
  archive.must("tuner_bytes", point.tuner_bytes);
  archive.must("candidates", point.candidates);
  archive.must("samples", point.samples);
  archive.must("winner", point.winner);
  archive.must("believed", point.believed);
  archive.must("noise", point.noise);
  archive.must("gain", point.gain);
  archive.must("because", point.because);
  archive.must("settings", point.settings);
  archive.some("operations", point.operations);
}

void fields(auto& archive, Is<TuningFailure> auto& failure) {
  archive.must("collective", failure.collective);
  archive.must("bytes", failure.bytes);
  archive.must("setting", failure.setting);
  archive.must("wrong_data", failure.wrong_data);
  archive.must("because", failure.because);
}

void fields(auto& archive, Is<TuningArm> auto& arm) {
  archive.must("name", arm.name);
  archive.must("environment", arm.environment);
  archive.must("speedup", above_zero(arm.speedup));
  archive.must("ci95_speedup", as_list(arm.interval));
  archive.some("alone_speedup", arm.alone_speedup);
  archive.must("adopted", arm.adopted);
}

void fields(auto& archive, Is<TuningCallModeSize> auto& size) {
  archive.must("collective", size.collective);
  archive.must("bytes", json_fields::at_least(1, size.bytes));
  archive.must("gain", size.gain);
  archive.some("alone_gain", size.alone_gain);
  archive.must("because", size.because);
}

void fields(auto& archive, Is<TuningCallMode> auto& mode) {
  archive.must("name", mode.name);
  archive.must("how", mode.how);
  archive.must("sizes", mode.sizes);
}

void fields(auto& archive, Is<TuningRow> auto& row) {
  archive.must("collective", row.collective);
  archive.must("from", row.from);
  archive.must("to", row.to);
  archive.must("setting", row.setting);
  archive.must("us", above_zero(row.microseconds));
}

void fields(auto& archive, Is<TuningConfirmation> auto& confirmation) {
  archive.must("collective", confirmation.collective);
  archive.must("tuner_bytes", confirmation.tuner_bytes);
  archive.must("setting", confirmation.setting);
  archive.must("gain", confirmation.gain);
  archive.must("launched_gain", confirmation.launched_gain);
  archive.some("alone_gain", confirmation.alone_gain);
  archive.must("verdict", confirmation.verdict);
}

void fields(auto& archive, Is<TuningStage> auto& stage) {
  archive.must("name", json_fields::one_of(stage.name, stage_names));
  archive.must("seconds", stage.seconds);
}

void fields(auto& archive, Is<TuningBeside> auto& beside) {
  archive.must("works", beside.works);
  archive.must("alone_loss", beside.alone_loss);
}

void fields(auto& archive, Is<Tuning> auto& tuning) {
  archive.must("mode", json_fields::one_of(tuning.mode, modes));
  archive.must("outcome", json_fields::one_of(tuning.outcome, tuning_outcomes));
  archive.must("because", tuning.because);
  archive.must("seed", tuning.seed);
  archive.must("wall_s", tuning.wall_s);
  archive.must("stages", tuning.stages);
  archive.must("nccl_version", tuning.nccl_version);
  archive.must("ranks", tuning.ranks);
  archive.must("nodes", tuning.nodes);
  archive.some("beside", tuning.beside);
  archive.must("drift", any(tuning.drift));
  archive.must("cells", tuning.size_points);
  archive.must("failures", tuning.failures);
  archive.must("arms", tuning.arms);
  archive.must("ways", tuning.call_modes);
  archive.must("environment", tuning.environment);
  archive.must("rows", tuning.rows);
  archive.must("confirmations", tuning.confirmations);
  archive.some("step", tuning.step);
  archive.must("processes", tuning.processes);
  archive.must("refusals", tuning.refusals);
  archive.must("files", tuning.files);
  archive.must("loading", tuning.loading);
}

json to_json(const Tuning& tuning) { return json_fields::written(tuning); }

Tuning tuning_from_json(const json& j) { return json_fields::read_as<Tuning>(j); }

}  // namespace p5::reports
