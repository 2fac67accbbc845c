#include "bench/base/statistics.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

namespace p5 {

namespace {

constexpr double confidence = 0.95;

// Interval ends lie between the depth-th and the next order statistic from either end, at fraction `weight`.
struct Depth {
  std::size_t depth = 1;  // counted from 1
  double weight = 0;
};

// The interval between the depth-th order statistics from both ends covers the median unless fewer than `depth` samples
// fall on one side of it, a binomial probability with p = 1/2. The terms are built from the largest one outwards, each
// from its neighbour, and divided by their sum: nothing overflows, and underflow at the far end is negligible.
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

// Number of samples at the previous look: the largest total of next_batch below `taken`; 0 at the first look.
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

double slowest_window(const std::vector<TimedRate>& rates, double window) {
  if (rates.empty()) return 0;
  std::vector<double> in_window;
  for (const TimedRate& each : rates) in_window.push_back(each.rate);
  double least = median(std::move(in_window));
  in_window.clear();
  double end_of_window = window;
  for (const TimedRate& each : rates) {
    if (each.end > end_of_window) {
      if (!in_window.empty()) least = std::min(least, median(std::exchange(in_window, {})));
      end_of_window = window * std::ceil(each.end / window);
    }
    in_window.push_back(each.rate);
    if (each.length >= window) least = std::min(least, each.rate);
  }
  // The last window is left out unless it is whole.
  if (rates.back().end == end_of_window) least = std::min(least, median(std::move(in_window)));
  return least;
}

double interquartile_mean(std::vector<double> samples) {
  std::ranges::sort(samples);
  const auto n = static_cast<double>(samples.size());
  double sum = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto at = static_cast<double>(i);
    const double inside = std::min(at + 1, 0.75 * n) - std::max(at, 0.25 * n);
    if (inside > 0) sum += inside * samples[i];
  }
  return sum / (0.5 * n);
}

double sum_of_squared_deviations(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return std::accumulate(values.begin(), values.end(), 0.0,
                         [&](double sum, double value) { return sum + (value - mean) * (value - mean); });
}

double robust_deviation(const std::vector<double>& samples) {
  if (samples.size() < 2) return 0;
  const double middle = median(samples);
  std::vector<double> distances;
  for (const double sample : samples) distances.push_back(std::abs(sample - middle));
  return standard_deviation_per_mad * median(std::move(distances));
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

std::size_t number_in_trimmed_mean(std::size_t count) {
  constexpr std::size_t fewest = 6, part = 20, least_left_out = 2;
  return count < fewest ? 0 : count - std::max(count / part, least_left_out);
}

std::vector<double> weights_in_trimmed_mean(std::size_t count, std::size_t fewer) {
  const std::size_t most = number_in_trimmed_mean(fewer), left_out = fewer - most;
  assert(most > 0 && fewer <= count);
  const auto log_of_ways = [](std::size_t all, std::size_t chosen) {
    const auto n = static_cast<double>(all), k = static_cast<double>(chosen);
    return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
  };
  const double share = static_cast<double>(fewer) / static_cast<double>(count);
  const double log_of_all = log_of_ways(count - 1, fewer - 1);
  std::vector<double> weights;
  for (std::size_t below = 0; below < count; ++below) {
    // A sample is left out where fewer than `left_out` of those drawn with it are above it: a hypergeometric chance.
    const std::size_t above = count - 1 - below;
    double out = 0;
    for (std::size_t drawn = 0; drawn < left_out; ++drawn)
      if (drawn <= above && fewer - 1 - drawn <= below)
        out += std::exp(log_of_ways(below, fewer - 1 - drawn) + log_of_ways(above, drawn) - log_of_all);
    weights.push_back(share * std::max(0.0, 1 - out) / static_cast<double>(most));
  }
  return weights;
}

double correlation_of_neighbours(const std::vector<double>& samples) {
  constexpr std::size_t fewest = 6;
  constexpr double most = 0.95;
  if (samples.size() < fewest) return 0;
  const double middle = median(samples), bound = 3 * robust_deviation(samples);
  if (bound <= 0) return 0;
  double of_neighbours = 0, of_each = 0, before = 0;
  for (const double sample : samples) {
    const double distance = std::clamp(sample - middle, -bound, bound);
    of_neighbours += before * distance;
    of_each += distance * distance;
    before = distance;
  }
  const double seen = of_neighbours / of_each;
  // Few samples show less than there is (Marriott and Pope, Biometrika 41, 1954).
  return seen <= 0 ? 0 : std::min(most, seen + (1 + 3 * seen) / static_cast<double>(samples.size()));
}

static std::optional<double> trimmed_mean(std::size_t count, const auto& sum_of_smallest) {
  const std::size_t most = number_in_trimmed_mean(count);
  return most == 0 ? std::nullopt : std::optional(sum_of_smallest(most) / static_cast<double>(most));
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
          .trimmed_mean = trimmed_mean(sorted.size(),
                                       [&](std::size_t most) {
                                         return std::accumulate(
                                             sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(most), 0.0);
                                       }),
          .p95 = quantile_of_sorted(sorted, 0.95),
          .p99 = quantile_of_sorted(sorted, 0.99)};
}

bool interval_converged(const StoppingRule& rule, const std::vector<double>& samples) {
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

namespace {

constexpr double bin_width = 1.001;
// Bin for values that are not positive, which times never are.
constexpr std::int32_t not_positive = std::numeric_limits<std::int32_t>::min();

std::int32_t bin_of(double value) {
  return value > 0 ? static_cast<std::int32_t>(std::floor(std::log(value) / std::log(bin_width))) : not_positive;
}

double bin_centre(std::int32_t number) { return number == not_positive ? 0 : std::pow(bin_width, number + 0.5); }

}  // namespace

void Distribution::add(double value) {
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = count_ == 0 ? value : std::max(max_, value);
  ++count_;
  if (count_ <= exact_) {
    values_.push_back(value);
    return;
  }
  for (const double each : values_) count_in_bin(each);
  std::vector<double>().swap(values_);
  count_in_bin(value);
}

void Distribution::count_in_bin(double value) {
  const std::int32_t number = bin_of(value);
  const auto found = std::ranges::lower_bound(bins_, number, {}, [](const auto& each) { return each.first; });
  if (found != bins_.end() && found->first == number)
    ++found->second;
  else
    bins_.insert(found, {number, 1});
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
  for (const auto& [number, values] : bins_) {
    below += values;
    if (below > k) return std::clamp(bin_centre(number), min_, max_);
  }
  return max_;
}

double Distribution::sum_of_smallest(std::size_t count) {
  if (count_ <= exact_) {
    sort();
    return std::accumulate(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
  }
  double sum = 0;
  for (const auto& [number, values] : bins_) {
    const std::size_t taken = std::min<std::size_t>(values, count);
    sum += static_cast<double>(taken) * std::clamp(bin_centre(number), min_, max_);
    count -= taken;
  }
  return sum;
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
          .trimmed_mean = trimmed_mean(count_, [&](std::size_t most) { return sum_of_smallest(most); }),
          .p95 = quantile(0.95),
          .p99 = quantile(0.99)};
}

namespace {

struct Ranks {
  std::vector<unsigned> doubled;  // twice the mean rank, so whole; those of the first sample first
  bool tied = false;
  double tie_term = 0;  // sum of t^3 - t over the groups of ties
};

Ranks rank(std::span<const double> a, std::span<const double> b) {
  std::vector<double> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return all[i]; });
  Ranks ranks;
  ranks.doubled.resize(all.size());
  for (std::size_t from = 0, to = 0; from < order.size(); from = to) {
    while (to < order.size() && all[order[to]] == all[order[from]]) ++to;
    for (std::size_t i = from; i < to; ++i) ranks.doubled[order[i]] = static_cast<unsigned>(from + to + 1);
    const auto ties = static_cast<double>(to - from);
    ranks.tied = ranks.tied || to - from > 1;
    ranks.tie_term += ties * ties * ties - ties;
  }
  return ranks;
}

// The number of choices of `chosen` doubled ranks that have each sum. Counts are doubles because they exceed
// 2^64; the rounding is far below any p that matters.
std::vector<double> rank_sum_counts(std::span<const unsigned> doubled, std::size_t chosen) {
  const unsigned most = static_cast<unsigned>(chosen) * std::ranges::max(doubled);
  std::vector<std::vector<double>> ways(chosen + 1, std::vector<double>(most + 1));
  ways[0][0] = 1;
  unsigned reached = 0;
  std::size_t taken = 0;
  for (const unsigned rank : doubled) {
    reached = std::min(reached + rank, most);
    taken = std::min(taken + 1, chosen);
    for (std::size_t k = taken; k > 0; --k)
      for (unsigned sum = reached; sum >= rank; --sum) ways[k][sum] += ways[k - 1][sum - rank];
  }
  return ways[chosen];
}

// Fraction of the choices whose sum satisfies `counts`.
template <class Predicate>
double share_of(const std::vector<double>& ways, const Predicate& counts) {
  double all = 0, those = 0;
  for (std::size_t sum = 0; sum < ways.size(); ++sum) {
    all += ways[sum];
    if (counts(static_cast<double>(sum))) those += ways[sum];
  }
  return those / all;
}

std::vector<std::size_t> ascending(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p[i]; });
  return order;
}

}  // namespace

RankTest::Position RankTest::position(std::span<const double> a, std::span<const double> b) {
  assert(!a.empty() && !b.empty());
  const bool of_b = b.size() <= a.size();
  const std::span<const double> smaller = of_b ? b : a, larger = of_b ? a : b;
  const std::size_t all = a.size() + b.size();
  Ranks ranks = rank(smaller, larger);
  // Ranks of `a` that are counted from the largest value have a large sum where those of `b` have one.
  if (!of_b)
    for (unsigned& each : ranks.doubled) each = static_cast<unsigned>(2 * (all + 1)) - each;
  const auto n = static_cast<double>(all);
  Position out;
  out.sum =
      std::accumulate(ranks.doubled.begin(), ranks.doubled.begin() + static_cast<std::ptrdiff_t>(smaller.size()), 0u);
  out.expected = static_cast<double>(smaller.size()) * (n + 1);
  if (!is_exact(a.size(), b.size())) {
    const double product = static_cast<double>(a.size()) * static_cast<double>(b.size());
    out.deviation = 2 * std::sqrt(product / 12 * (n + 1 - ranks.tie_term / (n * (n - 1))));
  } else if (ranks.tied) {
    out.ways = rank_sum_counts(ranks.doubled, smaller.size());
  } else {
    Table& table = untied_[{larger.size(), smaller.size()}];
    if (table.empty()) table = rank_sum_counts(ranks.doubled, smaller.size());
    out.ways = table;
  }
  return out;
}

double RankTest::least_p(std::size_t a, std::size_t b) {
  if (is_exact(a, b)) return smallest_p(a, b);
  // No values of one sample are among those of the other: the doubled sum is a * b from what is expected.
  const double product = static_cast<double>(a) * static_cast<double>(b);
  return normal_cdf((1 - product) / (2 * std::sqrt(product / 12 * static_cast<double>(a + b + 1))));
}

double RankTest::one_sided_p(std::span<const double> a, std::span<const double> b) {
  const Position at = position(a, b);
  if (!at.ways.empty()) return share_of(at.ways, [&](double sum) { return sum >= at.sum; });
  return at.deviation > 0 ? normal_cdf((at.expected - at.sum + 1) / at.deviation) : 1;
}

double RankTest::two_sided_p(std::span<const double> a, std::span<const double> b) {
  const Position at = position(a, b);
  const double distance = std::abs(at.sum - at.expected);
  if (!at.ways.empty()) return share_of(at.ways, [&](double sum) { return std::abs(sum - at.expected) >= distance; });
  return at.deviation > 0 ? std::min(1.0, 2 * normal_cdf((1 - distance) / at.deviation)) : 1;
}

double smallest_p(std::size_t a, std::size_t b) {
  double ways = 1;
  for (std::size_t i = 1; i <= a; ++i) ways *= static_cast<double>(b + i) / static_cast<double>(i);
  return 1 / ways;
}

std::vector<double> holm_adjusted(std::span<const double> p) {
  const std::vector<std::size_t> order = ascending(p);
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, p[order[i]] * static_cast<double>(order.size() - i));
    adjusted[order[i]] = std::min(1.0, largest);
  }
  return adjusted;
}

std::vector<double> false_discovery_adjusted(std::span<const double> p) {
  const std::vector<std::size_t> order = ascending(p);
  std::vector<double> adjusted(p.size());
  double smallest = 1;
  for (std::size_t i = order.size(); i > 0; --i) {
    smallest = std::min(smallest, p[order[i - 1]] * static_cast<double>(order.size()) / static_cast<double>(i));
    adjusted[order[i - 1]] = smallest;
  }
  return adjusted;
}

double normal_cdf(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

double student_two_sided_p(double t, int degrees) {
  assert(degrees >= 1);
  const double angle = std::atan(std::abs(t) / std::sqrt(static_cast<double>(degrees)));
  const double cosine = std::cos(angle), square = cosine * cosine;
  const bool odd = degrees % 2 == 1;
  double term = odd ? cosine : 1, sum = degrees == 1 ? 0 : term;
  for (int k = odd ? 3 : 2; k <= degrees - 2; k += 2) {
    term *= square * static_cast<double>(k - 1) / k;
    sum += term;
  }
  const double within = odd ? 2 / std::numbers::pi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
  return std::clamp(1 - within, 0.0, 1.0);
}

double student_quantile(double chance, int degrees) {
  double low = 0, high = 1;
  while (student_two_sided_p(high, degrees) > chance) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (student_two_sided_p(middle, degrees) > chance ? low : high) = middle;
  }
  return high;
}

std::uint64_t Random::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace p5
