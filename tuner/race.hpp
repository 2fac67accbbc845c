// The race in one cell, as decisions over its record: who stands how, who goes on.
#pragma once

#include "tuner/search.hpp"

namespace p5::tuner {

struct Standing {
  Setting setting;
  double gain = 0;   // 1 - time / default's time, the median over blocks
  double error = 0;  // standard error of that
};

// The settings that have a ratio to the default, best first. The error takes the spread of all of them together: with
// five blocks a single one's own is mostly luck.
std::vector<Standing> standings(const Record& record, const std::vector<Setting>& settings);

// The same with the launches, of one setting; null where that was not measured.
std::optional<Standing> standing_with_launch(const Record& record, const Setting& setting);

// Two errors more than it seems to gain would be enough.
bool may_gain(const Standing& standing, double least_gain);

// Who still has a chance: the better half, of those that may gain enough.
std::vector<Setting> survivors(const std::vector<Standing>& standings, double least_gain);

// More blocks would not change the choice: the first gains enough, two errors away, or at most `indifferent` more than
// that, so that little is lost either way; and the second could at most be better by less than `indifferent`.
bool decided(const std::vector<Standing>& standings, double least_gain, double indifferent);

// Of those that are as good as the first within `indifferent` and within two errors: the earliest in `preferred`, else
// the one with the fewest channels (they leave more of the GPU to others), else the first.
Setting choose(const std::vector<Standing>& standings, const std::vector<Setting>& preferred, double indifferent);

}  // namespace p5::tuner
