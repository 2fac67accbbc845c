// The search per call: which settings to measure next, from what was measured so far. It has no clock, no ranks and no
// GPU: the caller measures blocks and says how much time is left, and since all decisions follow from that and a seed,
// a leader can take them for everybody.
//
// First the default alone, everywhere: what a cell costs. Then each cell's race: the default against candidates, in
// blocks. A block is one sample of each in random order, so what drifts or disturbs hits all alike; candidates are
// compared by the median over blocks of the ratio to the default of the same block. What the default does anyway is no
// candidate. A rung of blocks for all, then the neighbouring channel counts of the leader, then rungs of twice as many
// blocks until the race is decided. What can gain nothing any more is dropped. Neighbouring sizes start with each
// other's winners. Last the winner and the default with the time to launch them, as an application has it that is not
// ahead of the device: more channels take the host longer, and what takes longer so is no winner.
//
// A winner is still to be believed: it was chosen for how it looked, in one process. That is left to the comparison in
// fresh processes (confirm.hpp).
//
// Where the time is short, fewer cells are searched rather than all of them by halves: half a race decides nothing.
// What takes longest is left out first.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/model/trial.hpp"
#include "tuner/candidates.hpp"

namespace p5::tuner {

enum class Stage { baseline, race, throughput };

// Measures the candidates once each in the given order, and returns as many trials in the same order: on the device
// alone, with the time to launch them where the stage is launch. The first block of a cell has to warm up whatever
// connects lazily.
using MeasureBlock =
    std::function<std::vector<Trial>(const SizePoint& point, const std::vector<Candidate>& in_this_order, Stage stage)>;

// Where an operation takes longer, its launch is no part of its time.
inline constexpr double host_counts_below_s = 1e-3;
// Seconds of measuring that are left for the search.
using TimeLeft = std::function<double()>;

// What NCCL offers for a cell.
struct Task {
  SizePoint point;
  std::vector<CostEntry> offered;
};

// What came of one block, in the order in which it was measured.
struct Block {
  Stage stage = Stage::race;
  std::vector<Candidate> candidates;
  std::vector<Trial> trials;
};

// A candidate that failed or gave wrong data, and where. It is not tried again.
struct Failure {
  SizePoint point;
  Candidate candidate;
  Trial::Outcome outcome = Trial::Outcome::failed;
  std::string because;
};

// Everything measured in a cell.
struct Record {
  SizePoint point;
  std::vector<Block> blocks;
  std::optional<Setting> winner;
  std::string because;  // why there is none: one sentence
  std::vector<CostEntry> offered = {};
};

struct SearchRules {
  CandidateRules candidates;
  std::uint64_t seed = 1;
  double least_gain = 0.03;                                      // a smaller one is not worth a setting
  double indifferent = 0.01;                                     // settings closer than this are as good as each other
  int least_throughput_blocks = 6, most_throughput_blocks = 12;  // the fewer the clearer it is
  int first_blocks = 4;                                          // of the first rung, doubled on each further one
  int rungs = 3;
  int exhaustive_blocks = 20;
  bool exhaustive = false;  // no race: everything that NCCL offers, in exhaustive_blocks. The search's own oracle
};

struct SearchResult {
  std::vector<Record> records;  // as the tasks
  std::vector<Failure> failures;
  int samples = 0;  // of all candidates together
};

SearchResult search(const std::vector<Task>& tasks, const SearchRules& rules, const Constraints& constraints,
                    const MeasureBlock& measure, const TimeLeft& time_left);

// ---- reading records

// The samples of a candidate in the order of their blocks: on the device alone, or with the time to launch.
std::vector<double> samples_of(const Record& record, const Candidate& candidate, bool throughput = false);

// log(setting / default) of each block that measured both; the same.
std::vector<double> log_ratios(const Record& record, const Setting& setting, bool throughput = false);

// 1 - time / default's time, the median over blocks; null where the setting was not measured.
std::optional<double> gain_in(const Record& record, const Setting& setting);

}  // namespace p5::tuner
