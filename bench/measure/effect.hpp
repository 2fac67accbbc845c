// Effects between two sides, A (base) and B (new), each measured in several launches: their ratio and its uncertainty,
// by a hierarchical bootstrap of the medians and rank tests of launches. `compare`, `ab` and tuning use it and draw the
// conclusions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/base/statistics.hpp"
#include "bench/base/units.hpp"
#include "bench/model/case.hpp"

namespace p5 {

// Smallest relevant effects by band of message sizes, as data (thresholds.json); each band is bounded by a different
// resource. Values are fractions of the time.
struct BandRule {
  std::string name;   // latency, mid, bandwidth
  std::string sizes;  // "up to 64 KiB", "below 64 MiB", "from 64 MiB on"
  Bytes up_to;        // starts above the previous band; the last has no end
  bool last = false;
  bool steps = false;  // not of messages: of collectives that move no data
  double matters = 0;
  double matters_s = 0;   // absolute minimum in seconds; 0: none
  double negligible = 0;  // fraction of `matters`
  double launch_spread = 0;
  std::string because;
};

struct SpreadRule {
  double matters = 0, negligible = 0;  // factors
  double least = 0;                    // relative to the median
};

struct Thresholds {
  std::vector<BandRule> bands;
  SpreadRule spread;
  int weight = 0;  // weight of launch_spread, in launches
};
const Thresholds& thresholds();
const BandRule& band_of(Bytes size);
const BandRule& band_of(const Case& c);
// The smallest relevant effect as a fraction of a time.
double matters_at(const BandRule& band, double time_s);

// One launch of one case: fresh processes and communicators, the unit of replication.
struct Launch {
  int number = 0;  // over all runs of the side; the same number in two cases is the same launch
  int run = 0;     // of the side, which made it
  double median_s = 0;
  std::vector<double> samples_s;     // in the order in which they were taken; empty without a journal
  std::optional<Interval> interval;  // interval of the median, if the report has one but no samples
  double rounding_s = 0;             // rounding error of the median, shared by all launches
};

// Median of the launches' medians; at least one launch.
double median_of(std::span<const Launch> launches);

// The launches of one case on both sides.
struct Sides {
  std::span<const Launch> base, fresh;
};

struct ResamplingRules {
  std::size_t rounds = 64;  // each of 16 replicates
  std::uint64_t seed = 1;
  // False with too few launches: only samples within launches are drawn.
  bool draws_launches = true;
};

struct Resampled {
  Interval overall;            // interval of the mean over the cells
  std::vector<Interval> each;  // by cell
};

// Log of the ratio of both sides' medians over launches, new over base.
double log_ratio(const Sides& cell);

// Bootstrap of the logs of ratios (0.03 is 3 % slower): launches are drawn with replacement, then blocks of samples
// within them. All cells have the same numbers of launches, and the i-th launch of one cell is the i-th of all: a
// launch's own deviation affects all sizes, so one draw of launches applies to all cells. Samples within a launch
// are drawn in blocks of the cube root of their number, or longer where neighbours are much alike. The intervals are
// percentiles: in simulations (normal scatter between launches, with and without slow ones) they cover the truth in
// 95.5 to 97 % of cases from fewest_resampled launches on. Widening them for small numbers, as is right for means
// (Hesterberg, The American Statistician 69, 2015), gave 98 to 99 % for these medians, which costs launches.
inline constexpr std::size_t fewest_resampled = 6;
Resampled resample(std::span<const Sides> cells, const ResamplingRules& rules);

// Probability of one false alarm among all rows judged together.
inline constexpr double false_alarm_probability = 0.05;

// A ratio with its uncertainty, B over A: above 1 is slower (or wider, for spreads).
struct Effect {
  double ratio = 1;
  Interval interval;  // 95 %
  // p-values. For several sizes together: B is slower (one-sided), adjusted for all rows (Holm). For one size: B
  // differs (two-sided), adjusted for all sizes (Benjamini and Hochberg).
  double p = 1, p_adjusted = 1;
};

// The parts of half an interval, as logarithms. Only the first one shrinks with more launches of the same runs.
struct IntervalParts {
  double launches = 0;
  double rounding = 0;  // adds to `launches`
  // Standard deviation of the ratio by runs that differ, its degrees of freedom, and the number of runs of each side
  // (harmonic mean); combined with the others by squares. 0 where runs do not differ beyond their launches.
  double run_deviation = 0;
  int run_degrees = 0;
  double runs = 1;
};

struct Effects {
  Effect overall;            // mean of the logs over the sizes
  std::vector<Effect> each;  // by size
  bool screening = false;    // too few launches: intervals are based on an assumed variance
  // Standard deviation between runs of a side beyond that of their launches, as a fraction of the time, all sizes
  // together. The effects allow for it. 0 where no side has several runs of several launches.
  double runs_differ = 0;
  IntervalParts parts = {};  // of the interval of `overall`
};

// A one-sided effect that allows for the variance between runs of a side, if these are the launches that show it.
Effect allowing_for_runs(const Effect& slower, const Sides& launches);

// One number for each launch of a side: the mean of `value` over the sizes.
std::vector<double> scores_of(std::span<const Sides> sizes, bool base, double (*value)(const Launch&));

class EffectJudge {
 public:
  // `rows`: number of families of sizes that are judged together; `chance`: allowed probability of one error among
  // them.
  EffectJudge(std::size_t rows, std::uint64_t seed, double chance = false_alarm_probability)
      : rows_(rows), seed_(seed), chance_(chance) {}

  // Judges sizes measured by the same launches, at least one per side. `launch_spread`: assumed standard deviation
  // between identical launches where there are too few; it weighs as much as thresholds().weight launches. `salt` makes
  // the random numbers of rows independent.
  Effects judge(std::span<const Sides> sizes, double launch_spread, std::uint64_t salt = 0);
  // False if rank tests of so few launches cannot reach significance among so many rows.
  bool can_test(const Sides& sides) const;
  // True if the launches are too few for that, or on one side too few to draw from. p is that of the rank test where it
  // can be.
  bool needs_screening(const Sides& sides) const;
  // p of `together` by the rank test alone, whatever the number of launches.
  double slower_p(std::span<const Sides> sizes);
  // One-sided p that `fresh` is above `base`.
  double one_sided_p(std::span<const double> base, std::span<const double> fresh) {
    return ranks_.one_sided_p(base, fresh);
  }

 private:
  std::size_t rows_;
  std::uint64_t seed_;
  double chance_;
  RankTest ranks_;
};

// Converts logs to ratios.
Effect effect_of(double log_ratio, const Interval& logs, double p);

}  // namespace p5
