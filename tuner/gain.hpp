// What a setting, an environment or a way of calling saves.
#pragma once

#include <vector>

#include "bench/measure/effect.hpp"

namespace p5::tuner {

// A setting may take so much longer than the default: this share, or these seconds if that is more (below them it is
// the host's noise).
inline constexpr double tolerated_loss = 0.01, tolerated_loss_s = 0.2e-6;
// The share of a time of the default that may be lost.
double tolerated(double default_s);

// What the default and something else took: one Launch for each process that measured it.
struct BothSides {
  std::vector<Launch> standard, tuned;
  Sides sides() const { return {standard, tuned}; }
  bool measured() const { return !standard.empty() && !tuned.empty(); }
};

// `launch_spread`: as EffectJudge takes it.
Effect effect_of(const BothSides& both, double launch_spread);

// 1 - tuned / standard: the share of time saved, and its interval.
struct Gain {
  double standard_s = 0, tuned_s = 0;  // medians over launches
  double share = 0;
  Interval interval;  // 95 %
};
Gain gain_of(const BothSides& both, double launch_spread);

}  // namespace p5::tuner
