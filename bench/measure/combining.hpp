// What the launches of one case come to together. It grows with each launch by that launch's median and nothing else,
// so that a run of a day fits in memory, can be summed up at any time, and at its end at once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/statistics.hpp"
#include "bench/model/measurement.hpp"

namespace p5 {

// Of one launch that was measured, in seconds.
struct LaunchMedians {
  int launch = 0;
  std::optional<double> latency, throughput;
};

class CombinedLaunches {
 public:
  // In the order of the launches.
  void add(const Measurement& m);

  // At least one was added; `planned` of them. The headline is the median of the launches' medians, and its interval
  // stands on them, so that below 6 there is none; the extremes are those of all samples, which it does not hold.
  // Failed where any launch failed, with the figures of those that did not; p2p: each launch's slowest pair.
  Measurement whole(int planned);

  int count() const { return count_; }
  const Case& of() const { return first_.measured_case; }
  const std::vector<LaunchMedians>& medians() const { return medians_; }

 private:
  // What is kept as it is; there are many groups.
  static constexpr std::size_t most_samples = 4096, most_of_a_group = 128;

  // Both in the order of the launches and sorted.
  struct Medians {
    std::vector<double> in_order, sorted;
    void add(double value);
  };
  struct Quantity {
    std::optional<Series> first;
    int operations_per_sample = 1;
    Medians medians;
    Distribution samples{most_samples};

    void add(const Series& series);
    std::optional<Series> together();
  };
  // The value that most launches have; of those that are as frequent the first.
  template <class Value>
  struct MostFrequent {
    std::map<Value, int> counts;
    std::vector<Value> in_order;
    void add(const Value& value);
    Value get() const;
  };
  void add_groups(const std::vector<GroupResult>& groups);

  Measurement first_, all_;
  int count_ = 0, measured_ = 0;
  Quantity latency_, throughput_;
  std::vector<LaunchMedians> medians_;
  std::vector<Group> groups_;
  std::vector<Distribution> medians_of_groups_;
  std::vector<std::vector<float>> samples_of_groups_;  // at most most_of_a_group each
  std::map<Group, std::size_t> place_of_group_;
  MostFrequent<Group> slowest_group_;
  MostFrequent<std::optional<int>> slowest_rank_;
  std::optional<Measurement> first_failed_;
  std::vector<std::string> failed_;  // their numbers, from 1
};

}  // namespace p5
