// Change points of a series of runs: the dates of regressions. Plain numbers in and out.
//
// Seeded binary segmentation (Kovacs, Buhlmann, Li and Munk, Biometrika 110, 2023): each interval of a fixed family has
// a best split, at which the means of both sides differ most for their sizes. The best split of all intervals, with a
// penalty for short ones, is a change if a permutation test of this maximum is significant; both parts are searched
// recursively. The maximum over all intervals and splits is permuted, which corrects for the number of places searched,
// whatever the distribution. Means are those of bounded scores (Huber; Fearnhead and Rigaill, Journal of the American
// Statistical Association 114, 2019, for change points), because runs have outliers, which move E-divisive and the
// t-test of Hunter. Ranks are bounded too, but five slow runs after twenty are hardly significant by ranks, however
// slow they are. Intervals shorter than the series find a rise that ended again, which one split of the whole misses.
//
// The test assumes exchangeable runs where nothing changed: a slow drift appears as one or more steps. `chance` applies
// to the first change; each change found adds two tests, of its sides.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace p5 {

struct ChangeRules {
  double chance = 0.05;    // probability of any change found in a series without one
  double negligible = 0;   // steps up to this are not reported, in the unit of the values
  std::uint64_t seed = 1;  // seed of the permutations: the same series gives the same changes
};

// Fewest values on either side of a change: fewer cannot be told from outliers.
inline constexpr std::size_t least_level = 3;

struct ChangePoint {
  std::size_t first = 0;         // index of the first value of the new level
  double before = 0, after = 0;  // medians of the levels on both sides, each up to the next change
  double p = 1;                  // p-value, for this series
};

// Changes in order. The values are finite; usually logs, so that steps are ratios.
std::vector<ChangePoint> find_changes(std::span<const double> values, const ChangeRules& rules = {});

// True if so many values can be significant at all: the smallest p of a permutation test is one over the number of
// splits.
bool can_show_changes(std::size_t values, double chance);

}  // namespace p5
