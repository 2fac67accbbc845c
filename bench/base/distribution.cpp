#include "bench/base/distribution.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace p5 {

namespace {

constexpr double width_of_step = 1.001;
// Times are more than 0; what is not has a step of its own.
constexpr std::int32_t not_positive = std::numeric_limits<std::int32_t>::min();

std::int32_t step_of(double value) {
  return value > 0 ? static_cast<std::int32_t>(std::floor(std::log(value) / std::log(width_of_step))) : not_positive;
}

double middle_of(std::int32_t number) { return number == not_positive ? 0 : std::pow(width_of_step, number + 0.5); }

}  // namespace

void Distribution::add(double value) {
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = count_ == 0 ? value : std::max(max_, value);
  ++count_;
  if (count_ <= exact_) {
    values_.push_back(value);
    return;
  }
  for (const double each : values_) count_in(each);
  std::vector<double>().swap(values_);
  count_in(value);
}

void Distribution::count_in(double value) {
  const std::int32_t number = step_of(value);
  const auto found = std::ranges::lower_bound(steps_, number, {}, [](const auto& each) { return each.first; });
  if (found != steps_.end() && found->first == number)
    ++found->second;
  else
    steps_.insert(found, {number, 1});
}

void Distribution::sort() {
  if (sorted_ == values_.size()) return;
  const auto fresh = values_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  std::sort(fresh, values_.end());
  std::inplace_merge(values_.begin(), fresh, values_.end());
  sorted_ = values_.size();
}

double Distribution::at(std::size_t k) {
  assert(k < count_);
  if (count_ <= exact_) {
    sort();
    return values_[k];
  }
  if (k == 0) return min_;
  if (k == count_ - 1) return max_;
  std::size_t below = 0;
  for (const auto& [number, values] : steps_) {
    below += values;
    if (below > k) return std::clamp(middle_of(number), min_, max_);
  }
  return max_;
}

double Distribution::median() {
  const double low = at((count_ - 1) / 2);
  return low + (at(count_ / 2) - low) / 2;
}

Summary Distribution::extremes() {
  const auto quantile = [&](double q) { return quantile_by_order(count_, q, [&](std::size_t k) { return at(k); }); };
  return {.samples = static_cast<int>(count_),
          .median = 0,
          .interval = {},
          .min = min_,
          .max = max_,
          .p95 = quantile(0.95),
          .p99 = quantile(0.99)};
}

}  // namespace p5
