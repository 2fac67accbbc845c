// The time that a setting, an environment or a call mode saves, and the loss that is tolerated.
#pragma once

#include <algorithm>
#include <vector>

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
