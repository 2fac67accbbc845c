// Launches: fresh processes and communicators, the unit of replication in comparisons, because samples within one
// launch are not independent. Order and budget of launches and their repetitions, and the combination of a case's
// launches. Plain values; run_launches() in runner.hpp runs them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/base/statistics.hpp"
#include "bench/base/units.hpp"
#include "bench/model/case.hpp"
#include "bench/model/groups.hpp"
#include "bench/model/measurement.hpp"

namespace p5 {

struct ArmLaunch {
  std::size_t arm = 0;
  int launch = 0;  // index within the arm, from 0
  friend bool operator==(const ArmLaunch&, const ArmLaunch&) = default;
};

// A B, B A, A B, ...: drift affects all arms alike.
std::vector<ArmLaunch> launch_order(std::size_t arms, int launches);

// One round of one case: index of the case, index into its rounds.
struct Repetition {
  std::size_t at = 0;
  int round = 0;
  friend bool operator==(const Repetition&, const Repetition&) = default;
};

// Consecutive repetitions that need the same communicators. Each repetition on the job's communicator, or on those of
// groups larger than its own, is a batch of its own.
struct CommunicatorBatch {
  Round communicators;  // from communicators_of(); empty: the job's
  std::vector<Repetition> repetitions;

  // True if its communicators have to be made, where those of the batch before it are there; null: it is the first.
  bool forms_after(const CommunicatorBatch* before) const {
    return !communicators.empty() && (!before || before->communicators != communicators);
  }
};

// All rounds of all cases, in their order but for those that need the communicators of earlier ones.
std::vector<CommunicatorBatch> batches_of(const std::vector<Case>& cases, int ranks);
// The order of a launch: batches shuffled, and repetitions within each, differently in each launch. All arms share the
// order, so that the effect of a repetition's predecessor is the same.
std::vector<CommunicatorBatch> shuffled(std::vector<CommunicatorBatch> batches, std::uint64_t seed, int launch);

// A repetition of a case with its predicted cost.
struct CostedRepetition {
  std::size_t at = 0;
  double cost = 0;
  bool ran = true;  // false: it was deferred or skipped, which takes no time
};

// True if repetition `next` is a further round of its case and has to give way, because `left` suffices only for the
// first rounds of other cases, at the pace of those before it that ran, which took `spent`. A case without some of its
// pairs is better than a case without any. `repeated`: by case.
bool is_deferred(const std::vector<CostedRepetition>& repetitions, std::size_t next, std::vector<bool> repeated,
                 Seconds spent, Seconds left);

// Budget for the cases of one launch, with `left` for it and `others` after it. Each launch takes `start` to join, and
// is useful only if its cases get `least`; launches that do not fit get no share.
Seconds launch_budget(Seconds left, Seconds start, Seconds least, int others);

// Medians of one launch, in seconds.
struct LaunchMedians {
  int launch = 0;
  std::optional<double> latency, throughput;
};

class CombinedLaunches {
 public:
  // Adds a launch. Launches may come in any order: a run that continues another measures what that one had skipped.
  void add(const Measurement& m);

  // The combination of the launches added, at least one, of `planned`. The headline is the median of the launches'
  // medians with the interval of these medians, so there is none below 6; the extremes are those of all samples. Failed
  // if any launch failed, with the figures of the others; p2p: each launch's slowest pair.
  Measurement combined(int planned);

  int count() const { return count_; }
  const Case& of() const { return first_.measured_case; }
  // By number of the launch.
  const std::vector<LaunchMedians>& medians() const { return medians_; }

 private:
  // Numbers of values kept exactly; there are many groups. The second is even.
  static constexpr std::size_t most_samples = 4096, most_of_a_group = 128;

  struct Quantity {
    std::optional<Series> first;
    int operations_per_sample = 1;
    std::vector<double> medians;  // sorted
    Distribution samples{most_samples};

    void add(const Series& series);
    std::optional<Series> combined();
  };
  // Every k-th of a group's samples, counted over all launches; k doubles when there are most_of_a_group, so that no
  // launch counts for more than its samples.
  struct EverySoMany {
    std::vector<float> kept;
    std::size_t seen = 0, step = 1;
    void add(float sample);
  };
  // The most frequent value; the first among equally frequent ones.
  template <class Value>
  struct MostFrequent {
    std::map<Value, int> counts;
    std::vector<Value> in_order;
    void add(const Value& value) {
      if (++counts[value] == 1) in_order.push_back(value);
    }
    Value get() const {
      return *std::ranges::max_element(in_order, {}, [&](const Value& value) { return counts.at(value); });
    }
  };
  void add_groups(const std::vector<GroupResult>& groups);
  void add_concurrency(const Concurrency& concurrency);
  std::optional<Concurrency> combined_concurrency();

  Measurement first_, all_;
  int count_ = 0, measured_ = 0;
  Quantity latency_, throughput_;
  std::optional<Concurrency> first_concurrency_;
  std::vector<Quantity> concurrent_series_;  // in the order of for_each_series()
  std::vector<LaunchMedians> medians_;
  std::vector<Group> groups_;
  std::vector<Distribution> medians_of_groups_;
  std::vector<EverySoMany> samples_of_groups_;
  std::map<Group, std::size_t> place_of_group_;
  MostFrequent<Group> slowest_group_;
  MostFrequent<std::optional<int>> slowest_rank_;
  std::map<std::string, std::vector<double>> communicator_costs_;  // of each launch
  std::map<int, std::vector<double>> medians_of_roots_;            // of each launch
  std::vector<double> host_times_;                                 // of each launch
  std::optional<Measurement> first_failed_;
  std::set<int> failed_;  // launch numbers, from 1
};

}  // namespace p5
