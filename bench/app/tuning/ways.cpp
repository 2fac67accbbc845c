#include "bench/app/tuning/ways.hpp"

#include <algorithm>

#include "bench/app/tuning/stages.hpp"

namespace p5 {

namespace {

constexpr int rounds = 8, samples_in_turn = 3;
// Below that a median has no interval.
constexpr std::size_t least_samples = 6;

// Of one case: plain first, then each way.
struct Measured {
  std::vector<std::vector<double>> times;
  std::vector<std::string> problems;
};

// Turns of all ways, so that what drifts hits all alike. A way that failed is not tried again.
void measure_round(Trials& trials, std::size_t first, Measured& measured, Seconds burst) {
  for (std::size_t way = 0; way < measured.times.size(); ++way) {
    if (!measured.problems[way].empty()) continue;
    for (const Trial& trial : trials.block({0, first + way}, std::vector<std::string>(samples_in_turn), {burst})) {
      if (trial.outcome == Trial::Outcome::measured)
        measured.times[way].push_back(trial.time.count);
      else if (trial.outcome != Trial::Outcome::skipped)
        measured.problems[way] = trial.because;
    }
  }
}

WaySize size_of_way(const tuner::Cell& cell, const Measured& measured, std::size_t way) {
  WaySize size{.cell = cell, .gain = std::nullopt, .because = measured.problems[way]};
  if (size.because.empty()) size.because = measured.problems.front();
  if (!size.because.empty()) return size;
  if (std::min(measured.times[way].size(), measured.times.front().size()) < least_samples)
    size.because = "no time was left to measure it";
  else
    size.gain = tuner::gain_of(measured.times.front(), measured.times[way]);
  return size;
}

}  // namespace

std::vector<WayTried> try_ways(World& world, Backend& workers, const std::vector<Case>& cases,
                               const RunnerOptions& runner, int nccl_version, Seconds burst,
                               const tuner::TimeLeft& time_left) {
  std::vector<WayTried> tried;
  for (const tuner::Way& way : tuner::ways())
    if (way.since <= nccl_version) tried.push_back({way, {}});
  const std::size_t stride = 1 + tried.size();
  std::vector<Case> all;
  for (const Case& plain : cases) {
    all.push_back(plain);
    for (const WayTried& each : tried) {
      Case& c = all.emplace_back(plain);
      c.cuda_graph = each.way.cuda_graph;
      c.registration = each.way.registration;
    }
  }
  Trials trials(world, {&workers}, all, runner);
  lead_together(world, trials, [&] {
    std::vector<Measured> measured(cases.size(),
                                   {std::vector<std::vector<double>>(stride), std::vector<std::string>(stride)});
    for (int round = 0; round < rounds; ++round)
      for (std::size_t at = 0; at < cases.size(); ++at)
        if (time_left() > 0) measure_round(trials, at * stride, measured[at], burst);
    for (std::size_t way = 0; way < tried.size(); ++way)
      for (std::size_t at = 0; at < cases.size(); ++at)
        tried[way].sizes.push_back(size_of_way(cell_of(cases[at]), measured[at], 1 + way));
  });
  return tried;
}

}  // namespace p5
