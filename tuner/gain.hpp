// The time that a setting, an environment or a call mode saves, and the loss that is tolerated.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "bench/base/statistics.hpp"
#include "bench/measure/effect.hpp"

namespace p5::tuner {

// A setting may take longer than the default by this share, or by these seconds if that is more: below them differences
// are noise of the host.
inline constexpr double tolerated_loss = 0.01, tolerated_loss_s = 0.2e-6;
// The tolerated loss as a share of a default's time in seconds.
inline double tolerated(double default_s) { return std::max(tolerated_loss, tolerated_loss_s / default_s); }

// Times of the default and of the tuned side: one Launch for each process that measured it.
struct BothSides {
  std::vector<Launch> standard, tuned;
  Sides sides() const { return {standard, tuned}; }
  bool measured() const { return !standard.empty() && !tuned.empty(); }
};

// Standard deviation between processes of the same thing by the device's own time, at all their sizes alike: 0.5 % on
// 4 x H200 (RESULTS.md, "Differences between processes"). It does not shrink with the number of sizes.
inline constexpr double process_spread = 0.005;

// The spread to give to EffectJudge for a few processes, whose times are `base` and `fresh` as logs: that of these
// processes, at least `least`. The judge weighs it as much as thresholds().weight launches, so it is widened as
// Student's t is for the number of processes that show it.
inline double spread_of_processes(std::span<const double> base, std::span<const double> fresh, double least) {
  const int seen = static_cast<int>(base.size() + fresh.size()) - 2;
  if (seen < 1) return least;
  constexpr double chance = 0.05;
  const double deviation = std::sqrt((sum_of_squared_deviations({base.begin(), base.end()}) +
                                      sum_of_squared_deviations({fresh.begin(), fresh.end()})) /
                                     seen);
  return std::max(least,
                  deviation * student_quantile(chance, seen) / student_quantile(chance, thresholds().weight + seen));
}
inline double spread_of_processes(std::span<const Sides> sizes, double least) {
  const auto log_of = [](const Launch& launch) { return std::log(launch.median_s); };
  return spread_of_processes(scores_of(sizes, true, log_of), scores_of(sizes, false, log_of), least);
}

// `launch_spread`: see EffectJudge.
inline Effect effect_of(const BothSides& both, double launch_spread) {
  const Sides sides = both.sides();
  return EffectJudge(1, 1).judge({&sides, 1}, launch_spread).overall;
}

struct Gain {
  double standard_s = 0, tuned_s = 0;  // medians over launches
  double share = 0;                    // 1 - tuned / standard
  Interval interval;                   // 95 %, of the share
};
inline Gain gain_of(const BothSides& both, double launch_spread) {
  const Effect effect = effect_of(both, launch_spread);
  return {median_of(both.standard),
          median_of(both.tuned),
          1 - effect.ratio,
          {1 - effect.interval.high, 1 - effect.interval.low}};
}

}  // namespace p5::tuner
