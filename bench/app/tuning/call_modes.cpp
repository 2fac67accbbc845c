#include "bench/app/tuning/call_modes.hpp"

#include <algorithm>

#include "bench/app/tuning/stages.hpp"
#include "bench/measure/trials.hpp"

namespace p5 {

namespace {

constexpr int turns = 8, samples_in_turn = 3;
// Below that a median says little.
constexpr std::size_t least_samples = 6;

CallModeSize size_of_way(const tuner::SizePoint& point, const SideSamples& plain, const SideSamples& way) {
  CallModeSize size{
      .point = point, .gain = std::nullopt, .because = plain.failure.empty() ? way.failure : plain.failure};
  if (!size.because.empty()) return size;
  const tuner::BothSides both{plain.of(Quantity::throughput), way.of(Quantity::throughput)};
  const auto enough = [](const std::vector<Launch>& launches) {
    return !launches.empty() && launches.front().samples_s.size() >= least_samples;
  };
  if (enough(both.standard) && enough(both.tuned))
    size.gain = tuner::gain_of(both, band_of({point.bytes}).launch_spread);
  else
    size.because = "no time was left to measure it";
  return size;
}

}  // namespace

std::vector<CallModeResult> try_call_modes(ControlPlane& control, Backend& workers, const std::vector<Case>& cases,
                                           const RunnerOptions& runner, int nccl_version, Seconds burst,
                                           const tuner::TimeLeft& time_left) {
  std::vector<CallModeResult> tried;
  for (const tuner::CallMode& way : tuner::call_modes)
    if (way.since <= nccl_version) tried.push_back({way, {}});
  const std::size_t stride = 1 + tried.size();
  std::vector<Case> all;
  for (const Case& plain : cases) {
    all.push_back(plain);
    for (const CallModeResult& each : tried) {
      Case& c = all.emplace_back(plain);
      c.cuda_graph = each.way.cuda_graph;
      c.registration = each.way.registration;
    }
  }
  Trials trials(control, {&workers}, all, runner);
  run_on_leader(control, trials, [&] {
    std::vector<AlternatedSize> sizes(cases.size());
    for (std::size_t at = 0; at < cases.size(); ++at) {
      sizes[at].samples = samples_in_turn;
      sizes[at].quantities = {Quantity::throughput};
      for (std::size_t way = 0; way < stride; ++way) sizes[at].sides.push_back({0, at * stride + way});
    }
    Alternation alternation(trials, std::move(sizes),
                            {.burst = burst, .turns = turns, .may_continue = [&] { return time_left() > 0; }});
    alternation.launch();
    for (std::size_t way = 0; way < tried.size(); ++way)
      for (std::size_t at = 0; at < cases.size(); ++at)
        tried[way].sizes.push_back(
            size_of_way(point_of(cases[at]), alternation.at(at, 0), alternation.at(at, 1 + way)));
  });
  return tried;
}

}  // namespace p5
