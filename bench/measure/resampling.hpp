// The hierarchical bootstrap of the ratio of two sides' medians: launches are drawn with replacement, then blocks of
// samples within them. Logs of ratios throughout: 0.03 is 3 % slower.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/base/statistics.hpp"

namespace p5 {

// One launch of one case: fresh processes and communicators, so the unit of replication.
struct Launch {
  int number = 0;  // over all runs of the side: the same number of two cases is the same launch
  double median_s = 0;
  std::vector<double> samples_s;     // in the order in which they were taken; empty where no journal holds them
  std::optional<Interval> interval;  // of the median, where the report has one and the samples are gone
  double rounding_s = 0;             // the median may be so much shorter or longer, in all launches alike
};

// The median over launches of their medians; of at least one.
double median_of(std::span<const Launch> launches);

// The launches of one case on both sides.
struct Sides {
  std::span<const Launch> base, fresh;
};

struct ResamplingRules {
  std::size_t rounds = 64;  // of 16 replicates
  std::uint64_t seed = 1;
  // False where there are too few launches to draw from: then only what varies within them.
  bool draws_launches = true;
};

struct Resampled {
  Interval together;           // of the mean over the cells
  std::vector<Interval> each;  // of the cells, in their order
};

// The median over its launches, NEW over BASE.
double log_ratio(const Sides& cell);

// All cells have the same numbers of launches, and the i-th of one cell is the i-th of all: what a launch has of its
// own it has at all sizes, so one draw of launches counts for all cells. Samples within a launch are drawn in blocks of
// the cube root of their number, since neighbours are alike. The intervals are percentiles: in simulations (normal
// scatter between launches, with and without slow ones) they cover the truth in 95.5 to 97 % of cases from 6 launches
// on. Widening them for small numbers, as is right for means (Hesterberg, The American Statistician 69, 2015), made
// that 98 to 99 % for these medians, which costs launches.
Resampled resample(std::span<const Sides> cells, const ResamplingRules& rules);

}  // namespace p5
