// The search per call: which settings to measure next, from what was measured so far. It has no clock, no ranks and no
// GPU: the caller measures blocks and says how much time is left, and since all decisions follow from that and a seed,
// a leader can take them for everybody.
//
// Sweeps over the cells, of which a cell's race and what is launched after it are one:
//   baseline  the default alone, everywhere: the first of the visits that tell noise and drift
//   race      the default against candidates, in blocks. A block is one sample of each in random order, so what drifts
//             or disturbs hits all alike; candidates are compared by the median over blocks of the ratio to the default
//             of the same block. What the default does anyway is no candidate. Successive halving: after a rung of
//             blocks the better half goes on, then the neighbouring channel counts of the leader. Neighbouring sizes
//             start with each other's winners. From the third block on a candidate is dropped as soon as it cannot gain
//             enough any more, and a decided race ends.
//   launched  the winner of a race and the default with the time to launch them, as an application has it that is not
//             ahead of the device: what takes longer so (more channels take the host longer) is no winner, and the next
//             best has its turn. These samples decide nothing else
//   repeat    later: default and winner again. Only these samples decide (belief.hpp), because a winner was chosen for
//             how it looked in the race. Cells without a winner get the default once more, for the drift.
//
// Where the time is short, fewer cells are searched rather than all of them by halves: half a race or half a repetition
// decides nothing. What takes longest is left out first, and of repetitions what gains least for its time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tuner/candidates.hpp"

namespace p5::tuner {

// One sample of one candidate: seconds per operation, the slowest rank's; or why there is none.
struct Trial {
  enum class Outcome { measured, failed, wrong_data, skipped };  // skipped: nothing known, the block ended before
  Outcome outcome = Outcome::measured;
  double seconds = 0;
  std::string because;  // unless measured
};

enum class Visit { baseline, race, launched, repeat };

// Measures the candidates once each in the given order, and returns as many trials in the same order: on the device
// alone, with the time to launch them where `visit` is launched. The first block of a cell has to warm up whatever
// connects lazily.
using MeasureBlock =
    std::function<std::vector<Trial>(const Cell& cell, const std::vector<Candidate>& in_this_order, Visit visit)>;

// Where an operation takes longer, its launch is no part of its time.
inline constexpr double launches_count_s = 1e-3;
// A setting may take so much longer than the default: this share, or these seconds if that is more (below them it is
// the host's noise).
inline constexpr double tolerated_loss = 0.01, tolerated_loss_s = 0.2e-6;

// Seconds of measuring that are left for the search.
using TimeLeft = std::function<double()>;

// What NCCL offers for a cell.
struct Task {
  Cell cell;
  std::vector<Offer> offers;
};

// What came of one block, in the order in which it was measured.
struct Block {
  Visit visit = Visit::race;
  int rung = 0;
  std::vector<Candidate> candidates;
  std::vector<Trial> trials;
};

// A candidate that failed or gave wrong data, and where. It is not tried again.
struct Failure {
  Cell cell;
  Candidate candidate;
  Trial::Outcome outcome = Trial::Outcome::failed;
  std::string because;
};

// Everything measured in a cell.
struct Record {
  Cell cell;
  std::vector<Block> blocks;
  std::optional<Setting> winner;  // of the race; still to be believed
  std::string remark;             // what cut the race short; the cell is left alone then
  std::vector<Offer> offers = {};
  std::string turned_down = {};  // what was best in the race and took longer with its launch: a sentence
  int samples_before = 0;        // of an earlier search, which this one took the place of
  double seconds = 0;            // of the caller's time, in this search
};

struct SearchRules {
  CandidateRules candidates;
  std::uint64_t seed = 1;
  double least_gain = 0.03;  // a smaller one is not worth a setting
  // Of the default before all races, two samples a cell each; and more, while the level of a collective's band of sizes
  // is not known to within `settled` (standard error, relative) and no more than this share of the time is spent.
  int baseline_sweeps = 2;
  double settled = 0.01, settling_share = 0.1;
  int most_launched = 3;  // of a cell's settings, until one is not slower with its launch
  int least_launched_blocks = 4, most_launched_blocks = 12;  // the fewer the clearer it is
  int closing_samples = 4;  // of the default at the end, where nothing won. Drift is judged over many sizes
  int first_blocks = 4;     // of the first rung, doubled on each further one
  int rungs = 3;
  int exhaustive_blocks = 20;
  int least_repeats = 12, most_repeats = 24;  // blocks; as many as the noise demands
  double repeat_share = 0.35;                 // of the time: kept for the repetition
  bool exhaustive = false;       // no race: everything that NCCL offers, in exhaustive_blocks. The search's own oracle
  bool failures_spread = false;  // a failure rules out its algorithm and protocol altogether, not the one setting alone
};

struct SearchResult {
  std::vector<Record> records;  // as the tasks
  std::vector<Failure> failures;
  int samples = 0;  // of all candidates together
};

// `failures`: known beforehand, from an earlier search.
SearchResult search(const std::vector<Task>& tasks, const SearchRules& rules, const Constraints& constraints,
                    const MeasureBlock& measure, const TimeLeft& time_left, std::vector<Failure> failures = {});

// Puts a later search of some of the cells, which knew the failures of `result`, in the place of what it says of them.
void supersede(SearchResult& result, SearchResult later);

// The share of a time of the default that may be lost.
double tolerated(double default_s);

// ---- reading records

// The samples of a candidate in the order of their blocks; of one kind of visit, or of all but launched.
std::vector<double> samples_of(const Record& record, const Candidate& candidate, std::optional<Visit> visit = {});

// log(setting / default) of each block that measured both; of one kind of visit, or of all but launched.
std::vector<double> log_ratios(const Record& record, const Setting& setting, std::optional<Visit> visit = {});

// Whether a setting takes longer than the default with the launches of both, by more than is tolerated; what is in
// doubt by a standard error counts against it. Null where that was not measured.
std::optional<bool> may_be_slower_with_launch(const Record& record, const Setting& setting);

}  // namespace p5::tuner
