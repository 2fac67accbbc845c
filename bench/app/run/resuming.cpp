#include "bench/app/run/resuming.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/base/error.hpp"
#include "bench/base/input.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A case by what its report says of it, so by everything that a measurement depends on. Which pairs the budget left out
// was not planned.
std::string key_of(const Case& c) {
  json key = reports::to_json(c);
  key.erase("pairs_sampled");
  return key.dump();
}

std::set<std::string> keys_of(const std::vector<reports::Result>& results) {
  std::set<std::string> keys;
  for (const reports::Result& result : results) keys.insert(key_of(result.measurement.measured_case));
  return keys;
}

UsageError refusal(const EarlierRun& earlier, const std::string& why) {
  return UsageError(fmt::format("--resume: {}: {}; start without --resume", earlier.folder.string(), why));
}

std::string hosts_of(const reports::Report& report) {
  std::string names;
  for (const topo::Host& host : report.topology.hosts) names += (names.empty() ? "" : ",") + host.name;
  return names;
}

// Figures of both would stand side by side in one report.
void refuse_another_job(const EarlierRun& earlier, const reports::Report& fresh) {
  const auto same = [&](const std::string& what, const std::string& then, const std::string& now) {
    if (then != now) throw refusal(earlier, fmt::format("it had {} '{}', now it is '{}'", what, then, now));
  };
  const reports::RunInfo &then = earlier.report.run, &now = fresh.run;
  same("p5bench", then.version, now.version);
  same("cluster", then.cluster, now.cluster);
  same("backend", then.backend, now.backend);
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

// A fault stays one. Only what a signal interrupted has not failed.
bool stands(const Measurement& m, const std::string& ended_by) {
  const bool interrupted = m.because.starts_with("ended by ") && (ended_by.empty() || m.because == ended_by);
  return m.outcome == Outcome::measured || (m.outcome == Outcome::failed && !interrupted);
}

// The journal is written at each case, the report now and then: a run that was killed left more lines than results.
// What is no whole line, as such a run may leave, is none.
void add_journal(EarlierRun& earlier) {
  const fs::path path = earlier.folder / "measurements.jsonl";
  if (std::error_code problem; !fs::exists(fs::symlink_status(path, problem))) return;
  const std::string text =
      read_input(path, largest_journal, "make it readable, or move it away to go on with the report alone");
  std::map<std::string, reports::Result> newer;
  const std::set<std::string> in_report = keys_of(earlier.report.results);
  for (std::size_t from = 0, to = 0; from < text.size(); from = to + 1) {
    to = std::min(text.find('\n', from), text.size());
    const std::string line = text.substr(from, to - from);
    try {
      reports::Result result = reports::result_from_json(parse_json(line));
      std::string key = key_of(result.measurement.measured_case);
      if (!in_report.contains(key) && !result.measurement.launch) newer.insert_or_assign(key, std::move(result));
      earlier.journal.emplace_back(std::move(key), line);
    } catch (const UsageError&) {
    }
  }
  for (auto& [key, result] : newer) earlier.report.results.push_back(std::move(result));
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
  if (earlier.report.run.launches != 1 || !earlier.report.arms.empty())
    throw refusal(earlier, "it has several launches, which one run makes in turns");
  add_journal(earlier);
  return earlier;
}

Kept keep_results(const EarlierRun& earlier, const reports::Report& fresh, const std::vector<Case>& planned) {
  refuse_another_job(earlier, fresh);
  Kept kept;
  for (const reports::Result& result : earlier.report.results)
    if (stands(result.measurement, earlier.report.run.ended_by)) kept.results.push_back(result);
  std::set<std::string> in_plan;
  for (const Case& c : planned) in_plan.insert(key_of(c));
  for (const reports::Result& result : kept.results)
    if (const Case& c = result.measurement.measured_case; !in_plan.contains(key_of(c)))
      throw refusal(
          earlier, fmt::format("it measured {}, which is not in this plan: give the options that it had", describe(c)));
  if (left_to_measure(planned, kept).empty()) throw refusal(earlier, "nothing is left to measure");
  const std::set<std::string> keys = keys_of(kept.results);
  for (const auto& [key, line] : earlier.journal)
    if (keys.contains(key)) kept.journal += line + "\n";
  return kept;
}

std::vector<std::size_t> left_to_measure(const std::vector<Case>& planned, const Kept& kept) {
  const std::set<std::string> known = keys_of(kept.results);
  std::vector<std::size_t> left;
  for (std::size_t at = 0; at < planned.size(); ++at)
    if (!known.contains(key_of(planned[at]))) left.push_back(at);
  return left;
}

}  // namespace p5
