// Values of which there may be more than memory holds: order statistics of all that were added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "bench/base/statistics.hpp"

namespace p5 {

// Up to `exact` values are kept, and what is asked is what they say. Beyond that only their counts in steps of 0.1 %
// are: the smallest and the largest stay exact, all between is right to 0.05 %. Not in order of time.
class Distribution {
 public:
  explicit Distribution(std::size_t exact) : exact_(exact) {}
  void add(double value);

  std::size_t count() const { return count_; }
  // Of at least one value.
  double median();
  // A summary without median and interval.
  Summary extremes();

 private:
  double at(std::size_t k);  // the k-th smallest, from 0
  void sort();
  void count_in(double value);

  std::size_t exact_;
  std::size_t count_ = 0;
  std::vector<double> values_;  // sorted up to `sorted_`; none once they are counted
  std::size_t sorted_ = 0;
  std::vector<std::pair<std::int32_t, std::uint32_t>> steps_;  // by step, with the number of values
  double min_ = 0, max_ = 0;
};

}  // namespace p5
