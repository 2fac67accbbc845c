// Where the level of a series of runs changed: dates of a regression, not only whether there is one. Plain numbers in,
// plain numbers out.
//
// Seeded binary segmentation (Kovacs, Buhlmann, Li and Munk, Biometrika 110, 2023): in each interval of a fixed family
// the split whose sides' means are furthest apart for their sizes; the best of all, short intervals having to be
// better, is a change if a permutation test of that maximum says so, and both parts are searched in turn. The maximum
// over all intervals and splits is permuted, so that having looked in many places is paid for, whatever the
// distribution. Means are those of bounded scores (Huber; Fearnhead and Rigaill, Journal of the American Statistical
// Association 114, 2019, for change points): runs have outliers, which move E-divisive and the t-test of Hunter. Ranks
// are bounded too, but five slow runs after twenty have hardly more than chance of them, however slow they are.
// Intervals shorter than the series, because one split of the whole does not see a rise that went away again.
//
// The test takes runs as exchangeable where nothing changed: a slow drift is found as one or more steps, and the chance
// of `chance` is that of the first change; each that is found costs two more looks, at its sides.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace p5 {

struct ChangeRules {
  double chance = 0.05;    // of any change found in a series in which nothing changed
  double negligible = 0;   // steps up to this are not told, in the unit of the values
  std::uint64_t seed = 1;  // of the permutations: the same series gives the same changes
};

// Values on either side of a change: a level shorter than this cannot be told from outliers.
inline constexpr std::size_t least_level = 3;

struct ChangePoint {
  std::size_t first = 0;         // the first value of the new level
  double before = 0, after = 0;  // medians of the levels on both sides, each up to the next change
  double p = 1;                  // that chance alone did it, for this series
};

// By place. The values are finite; usually logs, so that steps are ratios.
std::vector<ChangePoint> find_changes(std::span<const double> values, const ChangeRules& rules = {});

// Whether so many values can show a change at all: no permutation test of them gives less than one in the number of
// ways to split them.
bool can_show_changes(std::size_t values, double chance);

}  // namespace p5
