#include "bench/base/statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

namespace p5 {

namespace {

constexpr double confidence = 0.95;

// Where the interval ends lie: between the depth-th and the next order statistic from either end, `weight` of the way.
struct Depth {
  std::size_t depth = 1;  // counted from 1
  double weight = 0;
};

// The interval between the depth-th order statistics from both ends covers the median unless fewer than `depth` samples
// fall on one side of it, which is binomial with one half. The terms are built from the largest one outwards, each from
// its neighbour, and divided by their sum: nothing overflows, what underflows at the far end is too small to matter,
// and no logarithm loses digits.
Depth interval_depth(std::size_t samples) {
  const std::size_t half = samples / 2;
  const auto n = static_cast<double>(samples);
  std::vector<double> terms(half + 1);  // binomial(samples, k) up to a common factor
  terms[half] = 1;
  for (std::size_t k = half; k > 0; --k)
    terms[k - 1] = terms[k] * static_cast<double>(k) / (n - static_cast<double>(k) + 1);
  double sum = 0;
  for (std::size_t k = 0; k <= half; ++k) sum += terms[k] * (2 * k == samples ? 1 : 2);

  std::size_t depth = 0;
  double outside = 0, coverage = 1, next_coverage = 1;
  do {
    coverage = next_coverage;
    outside += terms[depth++];
    next_coverage = 1 - 2 * outside / sum;
  } while (next_coverage >= confidence);
  --depth;

  const auto d = static_cast<double>(depth);
  const double share = (coverage - confidence) / (coverage - next_coverage);
  return {depth, (n - d) * share / (d + (n - 2 * d) * share)};
}

std::optional<double> quantile_of_sorted(const std::vector<double>& sorted, double q) {
  assert(q >= 0 && q <= 1);
  return quantile_by_order(sorted.size(), q, [&](std::size_t k) { return sorted[k]; });
}

bool narrow(const StoppingRule& rule, std::vector<double> samples) {
  std::ranges::sort(samples);
  const std::optional<Interval> interval = median_interval_of_sorted(samples);
  return interval && (interval->high - interval->low) / 2 <= rule.relative * median_of_sorted(samples);
}

// The samples that there were at the look before: those of the largest total of next_batch below `taken`; 0 at the
// first.
std::size_t previous_look(const StoppingRule& rule, std::size_t taken) {
  std::size_t look = 0;
  for (auto next = static_cast<std::size_t>(rule.least); next < taken; next *= 2) look = next;
  return look;
}

}  // namespace

double median_of_sorted(const std::vector<double>& sorted) {
  assert(!sorted.empty());
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : sorted[half - 1] + (sorted[half] - sorted[half - 1]) / 2;
}

double median(std::vector<double> samples) {
  assert(!samples.empty());
  std::ranges::sort(samples);
  return median_of_sorted(samples);
}

double squares_about_mean(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return std::accumulate(values.begin(), values.end(), 0.0,
                         [&](double sum, double value) { return sum + (value - mean) * (value - mean); });
}

double robust_deviation(const std::vector<double>& samples) {
  if (samples.size() < 2) return 0;
  const double middle = median(samples);
  std::vector<double> distances;
  for (const double sample : samples) distances.push_back(std::abs(sample - middle));
  return deviation_of_median_distance * median(std::move(distances));
}

std::optional<Interval> median_interval_of_sorted(const std::vector<double>& sorted) {
  if (sorted.size() < 6) return std::nullopt;
  const auto [depth, weight] = interval_depth(sorted.size());
  const auto from_low = sorted.begin() + static_cast<std::ptrdiff_t>(depth) - 1;
  const auto from_high = sorted.rbegin() + static_cast<std::ptrdiff_t>(depth) - 1;
  return Interval{from_low[0] + weight * (from_low[1] - from_low[0]),
                  from_high[0] - weight * (from_high[0] - from_high[1])};
}

std::optional<Interval> median_interval(std::vector<double> samples) {
  std::ranges::sort(samples);
  return median_interval_of_sorted(samples);
}

std::optional<double> quantile(std::vector<double> samples, double q) {
  std::ranges::sort(samples);
  return quantile_of_sorted(samples, q);
}

Summary summarize(const std::vector<double>& samples) {
  assert(!samples.empty());
  std::vector<double> sorted = samples;
  std::ranges::sort(sorted);
  return {.samples = static_cast<int>(sorted.size()),
          .median = median_of_sorted(sorted),
          .interval = median_interval_of_sorted(sorted),
          .min = sorted.front(),
          .max = sorted.back(),
          .p95 = quantile_of_sorted(sorted, 0.95),
          .p99 = quantile_of_sorted(sorted, 0.99)};
}

bool enough(const StoppingRule& rule, const std::vector<double>& samples) {
  assert(rule.least > 0);
  const std::size_t look = previous_look(rule, samples.size());
  if (look == 0) return false;
  const auto end_of_look = samples.begin() + static_cast<std::ptrdiff_t>(look);
  return narrow(rule, samples) && narrow(rule, {samples.begin(), end_of_look});
}

int next_batch(const StoppingRule& rule, int taken) {
  const int wanted = taken == 0 ? rule.least : taken;
  return std::clamp(rule.most - taken, 0, wanted);
}

}  // namespace p5
