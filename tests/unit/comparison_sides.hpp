// Invented sides of a comparison, for tests: times as clusters give them, with an optional fault.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "bench/model/collective.hpp"
#include "reports/compare/comparison.hpp"

namespace p5::reports {

// Scatter of launches and samples. Clusters show, by bench/measure/thresholds.json, launches of large messages within
// 0.7 %, middle ones 1.2 %, small ones 3 %, of which a third is specific to a size; one launch in 33 is 5 % slower
// altogether; samples within a launch 2 %, neighbours correlated (0.5), one in 33 half as long again.
struct Noise {
  double small = 0.03, mid = 0.01, large = 0.005;
  double gated = 0.01;  // for the latency of small messages, whose ranks start behind a gate on the device
  double own = 0.5;     // scatter specific to a size, relative to that common to all sizes
  double slow_launches = 0.01, slow_by = 0.05;
  double samples = 0.01, likeness = 0.3;
  double outliers = 0.03;
  double of(Bytes size) const { return size <= KiB(64) ? small : size < MiB(64) ? mid : large; }
};

struct SideRecipe {
  int launches = 7;        // of all runs together
  int runs = 1;            // of as many launches each
  double runs_differ = 0;  // standard deviation of a run, common to all its launches
  int samples = 24;
  std::vector<const Collective*> collectives{&all_reduce, &all_gather};
  int factor = 2;
  Bytes from{8}, to = GiB(4);
  Noise noise;
  std::function<double(const Case&, int launch)> slowdown = [](const Case&, int) { return 1.0; };
  double wider = 1;  // factor on noise.samples
};

inline Case case_of(const Collective& collective, Bytes size) {
  Case c;
  c.backend = "nccl";
  c.collective = &collective;
  c.bytes = size;
  if (collective.reduces) c.op = ReduceOp::sum;
  c.ranks = 32;
  c.nodes = 4;
  return c;
}

// 8 us and 200 GB/s.
inline double ideal_time(Bytes size) { return 8e-6 + static_cast<double>(size.count) / 200e9; }

inline Launch launch_of(int number, double time, const SideRecipe& recipe, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  Launch launch;
  launch.number = number;
  const double likeness = recipe.noise.likeness, fresh = std::sqrt(1 - likeness * likeness);
  double state = normal(random);
  for (int i = 0; i < recipe.samples; ++i) {
    state = likeness * state + fresh * normal(random);
    const double longer = uniform(random) < recipe.noise.outliers ? 1.5 : 1;
    launch.samples_s.push_back(time * std::exp(recipe.noise.samples * recipe.wider * state) * longer);
  }
  launch.median_s = median(launch.samples_s);
  return launch;
}

inline Side make_up_side(const std::string& name, const SideRecipe& recipe, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  Side side;
  side.name = name;
  side.sources = {name + " (made up)"};
  side.reports.emplace_back().status = "complete";
  side.reports.back().exit_code = ExitCode::ok;
  std::mt19937_64 random_of_runs(~seed);
  std::vector<double> of_run;
  for (int run = 0; run < recipe.runs; ++run) of_run.push_back(recipe.runs_differ * normal(random_of_runs));
  normal.reset();
  const auto run_of = [&](int launch) { return launch / (recipe.launches / recipe.runs); };
  std::vector<double> common, slow;
  for (int launch = 0; launch < recipe.launches; ++launch) {
    common.push_back(normal(random));
    slow.push_back((uniform(random) < recipe.noise.slow_launches ? recipe.noise.slow_by : 0) +
                   of_run[static_cast<std::size_t>(run_of(launch))]);
  }
  for (const Collective* collective : recipe.collectives)
    for (Bytes size = recipe.from; size <= recipe.to; size.count *= static_cast<unsigned>(recipe.factor)) {
      Observation& observation = side.observations.emplace_back();
      observation.measured_case = case_of(*collective, size);
      for (int l = 0; l < recipe.launches; ++l) {
        const auto at = static_cast<std::size_t>(l);
        const double scatter = common[at] + recipe.noise.own * normal(random);
        const auto time = [&](double ideal, double noise) {
          return ideal * std::exp(noise * scatter + slow[at]) * recipe.slowdown(observation.measured_case, l);
        };
        const double noise = recipe.noise.of(size);
        observation.throughput.push_back(launch_of(l, time(ideal_time(size), noise), recipe, random));
        observation.throughput.back().run = run_of(l);
        if (size > MiB(1)) continue;
        observation.latency.push_back(
            launch_of(l, time(1.5 * ideal_time(size), std::min(noise, recipe.noise.gated)), recipe, random));
        observation.latency.back().run = run_of(l);
      }
    }
  return side;
}

inline const BandRow& row_of(const Comparison& c, std::string_view collective, std::string_view band,
                             Quantity quantity = Quantity::throughput) {
  return *std::ranges::find_if(c.bands, [&](const BandRow& row) {
    return row.collective == collective && row.threshold.band == band && row.quantity == quantity;
  });
}

inline SideRecipe slower_from(Bytes from, double factor) {
  SideRecipe recipe;
  recipe.slowdown = [=](const Case& c, int) { return c.bytes >= from ? factor : 1; };
  return recipe;
}

}  // namespace p5::reports
