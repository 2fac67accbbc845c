#include "bench/app/run/resuming.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/base/error.hpp"

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
  const bool interrupted = m.because == ended_by && ended_by.starts_with("ended by ");
  return m.outcome == Outcome::measured || (m.outcome == Outcome::failed && !interrupted);
}

// The lines of these cases; what is no whole line, as a run may leave that was ended hard, is none.
std::string journal_of(const fs::path& folder, const std::set<std::string>& keys) {
  std::ifstream file(folder / "measurements.jsonl");
  std::string lines;
  for (std::string line; std::getline(file, line);) {
    try {
      if (keys.contains(key_of(reports::case_from_json(json::parse(line).at("case"))))) lines += line + "\n";
    } catch (const json::exception&) {
    }
  }
  return lines;
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
  kept.journal = journal_of(earlier.folder, keys_of(kept.results));
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
