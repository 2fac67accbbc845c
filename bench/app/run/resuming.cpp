#include "bench/app/run/resuming.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/app/run/run_folder.hpp"
#include "bench/base/error.hpp"
#include "bench/base/input.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Identifies a case by its JSON, so by everything that a measurement depends on. `pairs_sampled` is a result of the
// budget, not of the plan.
std::string key_of(const Case& c) {
  json key = reports::to_json(c);
  key.erase("pairs_sampled");
  return key.dump(-1, ' ', false, json::error_handler_t::replace);
}

UsageError refusal(const EarlierRun& earlier, const std::string& why) {
  return UsageError(fmt::format("--resume: {}: {}; start without --resume", earlier.folder.string(), why));
}

std::string hosts_of(const reports::Report& report) {
  std::string names;
  for (const topo::Host& host : report.topology.hosts) names += (names.empty() ? "" : ",") + host.name;
  return names;
}

std::string arms_of(const reports::Report& report) {
  json arms = json::object();
  for (const reports::ArmInfo& arm : report.arms) arms[arm.name] = arm.settings;
  return arms.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Results of both runs share one report, so machine, versions and layout must match.
void require_same_job(const EarlierRun& earlier, const reports::Report& fresh) {
  const auto same = [&](const std::string& what, const std::string& then, const std::string& now) {
    if (then != now) throw refusal(earlier, fmt::format("it had {} '{}', now it is '{}'", what, then, now));
  };
  const reports::RunInfo &then = earlier.report.run, &now = fresh.run;
  same("p5bench", then.version, now.version);
  same("cluster", then.cluster, now.cluster);
  same("backend", then.backend, now.backend);
  same("launches", std::to_string(then.launches), std::to_string(now.launches));
  same("arms", arms_of(earlier.report), arms_of(fresh));
  same("ranks", std::to_string(then.ranks), std::to_string(now.ranks));
  same("hosts", hosts_of(earlier.report), hosts_of(fresh));
  for (const char* const name : {"gpu", "nccl", "libfabric", "cuda.driver", "cuda.runtime", "mpi"}) {
    const auto value = [&](const reports::Report& report) {
      const auto found = report.context.find(name);
      return found == report.context.end() ? std::string() : found->second;
    };
    same(name, value(earlier.report), value(fresh));
  }
}

// Failed cases are kept; only cases interrupted by a signal or by a full disk are measured again.
bool can_be_kept(const Measurement& m, const std::string& ended_by) {
  const bool interrupted =
      m.because == ended_by && (ended_by.starts_with("ended by ") || ended_by.find(disk_remedy) != std::string::npos);
  return m.outcome == Outcome::measured || (m.outcome == Outcome::failed && !interrupted);
}

// Completes groups from the plan: a line names only their first rank.
void complete_groups(Measurement& m) {
  if (m.measured_case.collective->pairwise) return;
  for (const Round& round : *m.measured_case.rounds)
    for (const Group& group : round)
      for (GroupResult& each : m.groups)
        if (each.group.front() == group.front()) each.group = group;
}

std::vector<std::string> lines_of_journal(const EarlierRun& earlier) {
  const fs::path path = earlier.folder / "measurements.jsonl";
  std::error_code problem;
  if (earlier.report.results.empty() && !fs::exists(fs::symlink_status(path, problem))) return {};
  std::istringstream text(read_input(path, largest_journal, "it has what was measured: start without --resume"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

// Case key to arm and index in the plan.
using Places = std::map<std::string, std::pair<std::size_t, std::size_t>>;

Places places_of(const std::vector<Case>& planned, const std::vector<Arm>& arms) {
  Places places;
  for (std::size_t arm = 0; arm < arms.size(); ++arm)
    for (std::size_t at = 0; at < planned.size(); ++at)
      places.try_emplace(key_of(with_arm(planned[at], arms[arm])), arm, at);
  return places;
}

}  // namespace

EarlierRun find_earlier_run(const Options& options) {
  std::error_code problem;
  EarlierRun earlier;
  earlier.folder = fs::canonical(fs::path(options.out) / "latest", problem);
  if (problem || !fs::exists(earlier.folder / "report.json"))
    throw UsageError(
        fmt::format("--resume: there is no run in '{}' to go on with; start without --resume, or name the "
                    "--out of that run",
                    options.out));
  earlier.report = reports::read_report((earlier.folder / "report.json").string());
  return earlier;
}

std::vector<KeptLine> keep_results(const EarlierRun& earlier, const reports::Report& fresh,
                                   const std::vector<Case>& planned, const std::vector<Arm>& arms) {
  require_same_job(earlier, fresh);
  const Places places = places_of(planned, arms);
  std::vector<KeptLine> kept;
  std::map<CaseInLaunch, std::size_t> line_of;
  for (std::string& text : lines_of_journal(earlier)) {
    reports::Result result;
    try {
      result = reports::result_from_json(parse_json(text));
    } catch (const std::exception&) {
      continue;  // truncated by a killed run: measured again
    }
    Measurement& m = result.measurement;
    if (!can_be_kept(m, earlier.report.run.ended_by)) continue;
    if (m.measured_case.for_parts || m.measured_case.nic) continue;  // not in the plan: measured again
    const auto found = places.find(key_of(m.measured_case));
    if (found == places.end())
      throw refusal(earlier, fmt::format("it measured {}, which is not in this plan: give the options that it had",
                                         describe(m.measured_case)));
    const auto [arm, at] = found->second;
    m.measured_case.rounds = planned[at].rounds;
    m.measured_case.shape = planned[at].shape;
    complete_groups(m);
    const CaseInLaunch place{arm, m.launch.value_or(0), at};
    KeptLine line{place, std::move(result), std::move(text)};
    const auto [known, first] = line_of.try_emplace(place, kept.size());
    if (first)
      kept.push_back(std::move(line));
    else
      kept[known->second] = std::move(line);
  }
  const std::size_t whole = planned.size() * arms.size() * static_cast<std::size_t>(fresh.run.launches);
  if (earlier.report.status == "complete" && kept.size() == whole) throw refusal(earlier, "nothing is left to measure");
  return kept;
}

}  // namespace p5
