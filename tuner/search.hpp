// The search for settings of single calls: from the samples so far it decides what to measure next. It has no clock,
// no ranks and no GPU. The caller measures blocks and reports the time left; all decisions follow from that and a seed,
// so a leader can take them for all ranks.
//
// 1. Baseline: two samples of the default at each size point, from which the time is divided.
// 2. Race: the default against candidates, in blocks of one sample each in random order, so that drift and disturbances
//    affect all alike. Candidates are compared by the median over blocks of their ratio to the default of the same
//    block. The setting that the default uses is no candidate. A first rung of blocks measures all candidates, then the
//    channel counts next to the best one's; each further rung has fewer candidates and twice as many blocks, as in
//    successive halving, until the race is decided. Candidates that can gain nothing are dropped. A size starts with
//    the winner of its neighbour.
// 3. Bound: a constraint. The winner and the default in a second quantity, in which it may lose only as much as is
//    tolerated: with the time to launch them, as in an application whose host is not ahead of the device. More channels
//    take longer to launch.
//
// Beside other work (SearchRules::beside) the race is about the time until the operation and that work are done, and
// the bound about the operation alone. The fewer channels an operation has the more of the GPU it leaves to the work,
// so each kind of setting starts with several channel counts, what exceeds the bound leaves the race at once, and where
// the winner exceeds it in the end, the next best is tried.
//
// A winner is biased upwards, as the best of many in one process, so confirm.hpp compares again in fresh processes.
// Where time is short, fewer size points are searched, the longest skipped first: half a race decides nothing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/model/measurement.hpp"
#include "tuner/candidates.hpp"

namespace p5::tuner {

enum class Stage { baseline, race, bound };

// Measures each candidate once, in this order, and returns as many trials in the same order: device time, or the second
// quantity in the bound stage. The first block of a size point has to warm up lazy connections.
using MeasureBlock =
    std::function<std::vector<Trial>(const SizePoint& point, const std::vector<Candidate>& in_this_order, Stage stage)>;

// Operations longer than this hide their launch, so the bound stage is skipped, except beside other work.
inline constexpr double launch_counts_below_s = 1e-3;
// Seconds of measuring that are left for the search.
using TimeLeft = std::function<double()>;

// A size point and NCCL's cost table for it.
struct Task {
  SizePoint point;
  std::vector<CostEntry> offered;
};

// One block, in the order of measurement.
struct Block {
  Stage stage = Stage::race;
  std::vector<Candidate> candidates;
  std::vector<Trial> trials;
};

// A candidate that failed or gave wrong data, which is not tried again at any size.
struct Failure {
  SizePoint point;
  Candidate candidate;
  Trial::Outcome outcome = Trial::Outcome::failed;
  std::string because;
};
// True if a setting with this outcome excludes the other one too. Wrong data excludes all settings of the algorithm and
// protocol, because the number of channels does not decide whether data arrives whole; a hang or crash the same
// setting.
bool excludes(const Setting& failed, Trial::Outcome outcome, const Setting& other);
// The same for the candidate of a failure; a failure of the default excludes nothing.
bool excludes(const Failure& failure, const Setting& setting);

// All measurements of a size point.
struct Record {
  SizePoint point;
  std::vector<Block> blocks;
  std::optional<Setting> winner;
  std::string because;  // one sentence, where there is no winner
  std::vector<CostEntry> offered = {};
  // Beside other work: the operations of a sample of the race, its own first, then those of each work. Empty: alone.
  std::vector<int> operations = {};
};

// Rules of a race beside other work.
struct BesideRules {
  double alone_loss = 0.02;  // share by which the operation may be slower alone
  // As in SearchRules: what is near the limit often gains most, and samples of operations alone are short.
  int most_bound_blocks = 30;
};

struct SearchRules {
  CandidateRules candidates;
  std::uint64_t seed = 1;
  double least_gain = 0.03;                            // a smaller one is not worth a setting
  double indifference_zone = 0.01;                     // settings closer than this count as equally good
  int least_bound_blocks = 6, most_bound_blocks = 12;  // fewer where the difference is clear
  int first_blocks = 4;                                // blocks of the first rung
  int rungs = 3;
  int exhaustive_blocks = 20;
  bool exhaustive = false;  // measures the full grid instead of a race; tests judge the search by it
  int channel_steps = 3;    // channel counts next to the best are probed so often
  std::optional<BesideRules> beside = {};
};

struct SearchResult {
  std::vector<Record> records;  // in the order of the tasks
  std::vector<Failure> failures;
  int samples = 0;  // of all candidates together
};

SearchResult search(const std::vector<Task>& tasks, const SearchRules& rules, const Constraints& constraints,
                    const MeasureBlock& measure, const TimeLeft& time_left);

// ---- figures of a record: of the race, or of the second quantity where `bound`

// The samples of a candidate in seconds, in the order of their blocks.
std::vector<double> samples_of(const Record& record, const Candidate& candidate, bool bound = false);

// log(setting / default) of each block that measured both.
std::vector<double> log_ratios(const Record& record, const Setting& setting, bool bound = false);

// 1 - setting / default, the median over blocks; null where the setting was not measured.
std::optional<double> median_gain(const Record& record, const Setting& setting);

// ---- decisions within a race

// The gain of a setting over the default, with an interval of two standard errors.
struct Estimate {
  Setting setting;
  double gain = 0;   // 1 - setting / default, the median over blocks
  double error = 0;  // standard error of the gain
  double least() const { return gain - 2 * error; }
  double most() const { return gain + 2 * error; }
};

// Estimates of the settings that were measured, best first. The error comes from the spread of all settings together,
// because the spread of one setting in five blocks is mostly chance.
std::vector<Estimate> estimate_gains(const Record& record, const std::vector<Setting>& settings);

// The estimate in the second quantity; null where that was not measured.
std::optional<Estimate> estimate_bound_gain(const Record& record, const Setting& setting);

// True if more blocks would hardly change the choice. Two conditions: the first one's gain is certainly at least
// least_gain, or certainly below least_gain plus the indifference zone, so that a wrong choice costs little; and no
// other setting can be better than the first by more than the indifference zone.
bool is_decided(const std::vector<Estimate>& best_first, const SearchRules& rules);

// Chooses among the settings whose gain is below the first one's by at most the larger of the indifference zone and
// the smaller of both standard errors: the preferred one, else, with the first one's algorithm and protocol, the one
// with the fewest channels (they leave more of the GPU to others), else the first.
Setting choose_winner(const std::vector<Estimate>& best_first, const std::optional<Setting>& preferred,
                      double indifference_zone);

}  // namespace p5::tuner
