// The hierarchical bootstrap of the ratio of two sides' medians: launches are drawn with replacement, then blocks of
// samples within them. Logs of ratios throughout: 0.03 is 3 % slower.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/base/statistics.hpp"
#include "reports/compare/comparison.hpp"

namespace p5::reports {

// The launches of one case on both sides.
struct Cell {
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
double log_ratio(const Cell& cell);

// All cells have the same numbers of launches, and the i-th of one cell is the i-th of all: what a launch has of its
// own it has at all sizes, so one draw of launches counts for all cells. Samples within a launch are drawn in blocks of
// the cube root of their number, since neighbours are alike. The intervals are percentiles: in simulations (normal
// scatter between launches, with and without slow ones) they cover the truth in 95.5 to 97 % of cases from 6 launches
// on. Widening them for small numbers, as is right for means (Hesterberg, The American Statistician 69, 2015), made
// that 98 to 99 % for these medians, which costs launches.
Resampled resample(std::span<const Cell> cells, const ResamplingRules& rules);

}  // namespace p5::reports
