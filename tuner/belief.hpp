// When a setting is believed to be faster than the default, and when nothing is believed because the machine itself
// changed.
//
// A winner of the race was chosen among many for how it looked there, so the race proves nothing: it is judged on the
// blocks that repeat it later. It has to
//   - gain at least 3 %, and at least 3 standard errors of the gain, in the race and again in the repetition;
//   - have a 95 % interval of the median that does not touch the default's, in the repetition;
//   - not have a tail (the largest quantile that the samples allow) more than 5 % above the default's;
//   - win against the default of the same block in so many blocks of the repetition that chance would bring that about
//   in any
//     cell of the whole search with 5 % probability at most: sign test, one-sided, with Holm's correction over all
//     cells that were repeated (ties count as lost). Candidates within a cell need no correction, because the test does
//     not use the samples that chose among them; nor do cells that were not repeated, which cannot be believed.
// Blocks are compared within themselves, so common drift cancels. What one launch has that another has not (the layout
// of rings, buffer addresses) does not: that is left to the confirmation in fresh processes (confirm.hpp).
#pragma once

#include "bench/base/statistics.hpp"
#include "tuner/search.hpp"

namespace p5::tuner {

struct BeliefRules {
  double least_gain = 0.03;
  double sigmas = 3;
  double worst_tail = 0.05;
  double chance = 0.05;      // of believing anything false in the whole search, as far as samples can tell
  double most_drift = 0.05;  // of the default between the first visit and the last
};

// 1 - tuned / standard: the share of time saved, and the interval that both medians' intervals span (wider than 95 %).
struct Gain {
  double standard_s = 0, tuned_s = 0;  // medians
  double share = 0;
  std::optional<Interval> interval;  // null where a median has none: below 6 samples
};
// Of non-empty samples.
Gain gain_of(const std::vector<double>& standard, const std::vector<double>& tuned);

// "up to 64 KiB", "below 64 MiB", "from 64 MiB on", as the report's bands: what bounds a call changes from one to the
// next.
std::string band_of(std::uint64_t bytes);

struct CellVerdict {
  Cell cell;
  std::optional<Setting> winner;  // of the race, believed or not
  bool believed = false;
  std::optional<double> noise;  // standard deviation of the default's median between visits, relative
  std::optional<Gain> gain;     // in the repetition; null without one
  std::string because;          // one sentence
};

// One verdict for each record. Settings that failed anywhere are not believed anywhere.
std::vector<CellVerdict> judge(const SearchResult& result, const BeliefRules& rules);

// Probability of at least `wins` in `blocks` fair tosses.
double sign_test(int wins, int blocks);

// Which of the tests hold when all of them together may err with `chance`: Holm, Scandinavian Journal of Statistics 6,
// 1979.
std::vector<bool> holm(const std::vector<double>& probabilities, double chance);

// What the default did between its first and its last visit, for each collective and band of sizes (up to 64 KiB, below
// 64 MiB, above): what drifts by more than 5 % is not tuned, and where everything does, nothing is.
struct Drift {
  struct Part {
    std::string collective, band;
    double share = 0;  // median over the cells; positive: slower
    int cells = 0;
    bool refused = false;
  };
  std::vector<Part> parts;
  double share = 0;  // of the part that changed most
  bool refused = false;
  std::string changes;  // of the refused parts
  std::string sentence;
};
Drift drift_of(const SearchResult& result, const BeliefRules& rules);

// What the drift leaves without a verdict: to be searched again, where there is time. In the order of the drift's
// parts.
struct Part {
  std::vector<Task> tasks;
  double seconds = 0;  // that their search has taken
};
std::vector<Part> restless(const std::vector<Task>& tasks, const SearchResult& result, const Drift& drift);

}  // namespace p5::tuner
