// Two sides, A and B, each measured in several launches: by how much they differ, and with which certainty. The one
// judge of `compare`, `ab` and tuning. Says nothing about what follows from an effect.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/base/statistics.hpp"
#include "bench/measure/resampling.hpp"
#include "bench/measure/thresholds.hpp"

namespace p5 {

// Of one false alarm among all rows that are judged together.
inline constexpr double chance_of_alarm = 0.05;

// An effect with its uncertainty: B over A, so above 1 is slower (or wider, of spreads).
struct Effect {
  double ratio = 1;
  Interval interval;  // 95 %
  // That chance alone did it. Of several sizes together: that B is slower (one-sided), adjusted for all rows (Holm). Of
  // one: that it differs (two-sided), adjusted for all sizes (Benjamini and Hochberg).
  double p = 1, p_adjusted = 1;
};

struct Effects {
  Effect together;           // the mean over the sizes, of logs
  std::vector<Effect> each;  // of the sizes, in their order
  bool screening = false;    // too few launches for a test on launches: stands on an assumed variance
};

// One number for each launch of a side: the mean over the sizes of `value`.
std::vector<double> scores_of(std::span<const Sides> sizes, bool base, double (*value)(const Launch&));

class EffectJudge {
 public:
  // `rows`: how many are judged together, each a family of sizes; `chance`: of one error among them that is allowed.
  EffectJudge(std::size_t rows, std::uint64_t seed, double chance = chance_of_alarm)
      : rows_(rows), seed_(seed), chance_(chance) {}

  // Of sizes that the same launches measured; at least one launch a side. `launch_spread`: the standard deviation
  // between launches of the same thing that is assumed where these are too few to tell; it weighs as much as
  // thresholds().weight launches. `salt` makes draws of rows independent.
  Effects judge(std::span<const Sides> sizes, double launch_spread, std::uint64_t salt = 0);
  // Whether ranks of launches cannot tell anything among so many rows.
  bool too_few(const Sides& sides) const;
  // The p of `together` by the ranks of launches alone, however few they are.
  double slower(std::span<const Sides> sizes);
  // That the ranks of `fresh` are as far above those of `base`.
  double above(std::span<const double> base, std::span<const double> fresh) { return ranks_.one_sided_p(base, fresh); }

 private:
  std::size_t rows_;
  std::uint64_t seed_;
  double chance_;
  RankTest ranks_;
};

// From logs.
Effect effect_of(double log_ratio, const Interval& logs, double p);

}  // namespace p5
