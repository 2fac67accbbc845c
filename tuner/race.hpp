// The race in one cell, as decisions over its record: who gains how much, who goes on.
#pragma once

#include "tuner/search.hpp"

namespace p5::tuner {

// By how much a setting is faster than the default, with the interval of two standard errors.
struct Estimate {
  Setting setting;
  double gain = 0;   // 1 - time / default's time, the median over blocks
  double error = 0;  // standard error of that
  double least() const { return gain - 2 * error; }
  double most() const { return gain + 2 * error; }
};

// The settings that have a ratio to the default, best first. The error takes the spread of all of them together: with
// five blocks a single one's own is mostly luck.
std::vector<Estimate> estimates(const Record& record, const std::vector<Setting>& settings);

// The same with the launches, of one setting; null where that was not measured.
std::optional<Estimate> estimate_of_throughput(const Record& record, const Setting& setting);

// More blocks would not change the choice: the first certainly gains enough, or at most `indifferent` more than that,
// so that little is lost either way; and the second could at most be better by less than `indifferent`.
bool decided(const std::vector<Estimate>& best_first, const SearchRules& rules);

// Of those that are as good as the first within `indifferent` and within an error: the one that is preferred, else the
// one with the fewest channels (they leave more of the GPU to others), else the first.
Setting choose(const std::vector<Estimate>& best_first, const std::optional<Setting>& preferred, double indifferent);

}  // namespace p5::tuner
