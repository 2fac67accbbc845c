// Statistics of repeated times: medians with distribution-free intervals, quantiles that need enough samples, the
// stopping rule, and tests and corrections for comparing two samples. Plain numbers in and out; units are the caller's.
// Nothing assumes a distribution of the times, except student_*.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace p5 {

struct Interval {
  double low = 0, high = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

// Median of a non-empty sample; of an even number the mean of the two middle values.
double median(std::vector<double> samples);

// The rate of a piece of work, which took this long and ended at this time.
struct TimedRate {
  double end = 0, length = 0, rate = 0;
};
// The lowest rate of any whole window of this length from time 0 on: the median of those that end in it, or that of one
// that is as long as a window, in which then none may end. 0 without rates; these are in the order of their ends.
double slowest_window(const std::vector<TimedRate>& rates, double window);

// Mean of the middle half of a non-empty sample, by weight: outliers do not count, and of values that alternate between
// two it is their mean, where the median would be one of them.
double interquartile_mean(std::vector<double> samples);

// Standard deviation of normal noise, as a multiple of the median absolute deviation.
inline constexpr double standard_deviation_per_mad = 1.4826;

// Sum of squared distances from the mean of a non-empty sample.
double sum_of_squared_deviations(const std::vector<double>& values);

// Standard deviation estimated from the median absolute deviation, robust against outliers. 0 below two samples.
double robust_deviation(const std::vector<double>& samples);

// 95 % confidence interval of the median from order statistics, interpolated between the two nearest attainable levels
// (Hettmansperger and Sheather, Statistics & Probability Letters 4, 1986). Null below 6 samples, where even the whole
// range covers less than 95 %.
std::optional<Interval> median_interval(std::vector<double> samples);

// Quantile q of `count` values, of which at(k) is the k-th smallest, from 0: by linear interpolation between order
// statistics (type 7 of Hyndman and Fan, The American Statistician 50, 1996). Null with fewer than 2/(1-q) values, at
// which two are expected beyond it.
template <class At>
std::optional<double> quantile_by_order(std::size_t count, double q, const At& at) {
  // 1 - q is seldom exact, and 20 samples are enough for the 90 % quantile.
  constexpr double rounding = 1e-9;
  const auto n = static_cast<double>(count);
  if (count == 0 || n * (1 - q) < 2 - rounding) return std::nullopt;
  const double position = (n - 1) * q;
  const auto below = static_cast<std::size_t>(position);
  const double low = at(below), high = at(below + 1 < count ? below + 1 : below);
  return low + (position - static_cast<double>(below)) * (high - low);
}

struct Summary {
  int samples = 0;
  double median = 0;
  std::optional<Interval> interval;
  double min = 0, max = 0;
  // Mean without the slowest twentieth, at least two: what slow samples cost while they are fewer than half, which the
  // median hides. Of 7 samples of a healthy part, one in a hundred of which is slow, two are in one series of 500,
  // which many pairs reach, and three in one of 30,000. Null below 6 samples.
  std::optional<double> trimmed_mean = {};
  std::optional<double> p95, p99;
};

// Number of the smallest samples, of `count`, that Summary::trimmed_mean is the mean of; 0: too few.
std::size_t number_in_trimmed_mean(std::size_t count);

// Weights of `count` sorted samples, whose weighted mean is what Summary::trimmed_mean is on average of `fewer` samples
// drawn from them. Trimmed means of unequal numbers of samples leave out unequal shares, and do not compare. Requires
// number_in_trimmed_mean(fewer) > 0 and fewer <= count.
std::vector<double> weights_in_trimmed_mean(std::size_t count, std::size_t fewer);

// Correlation of neighbours among samples in the order in which they were taken: of their distances from the median, of
// which those beyond three robust deviations count as three, corrected for few samples. 0 where it is negative or there
// are fewer than 6 samples; at most 0.95.
double correlation_of_neighbours(const std::vector<double>& samples);

// The same for values in ascending order.
double median_of_sorted(const std::vector<double>& sorted);
std::optional<Interval> median_interval_of_sorted(const std::vector<double>& sorted);

// Summary of a non-empty sample.
Summary summarize(const std::vector<double>& samples);

// A series has enough samples when the half-width of its interval is within `relative` of the median, at this look and
// at the previous one. Looks are at `least` samples, twice, four times that, and so on, up to `most`.
//
// Two looks, because stopping at the first narrow interval prefers intervals that are narrow by chance, which miss the
// median more often. In simulations (normal, lognormal and exponential noise of 0.3 to 10 % against 1 %, 20 000 series
// each) stopping at the first look left 91.5 % coverage of the nominal 95 in the worst case, with noise of two or three
// times `relative`; a larger `least` moves the loss to other noise (24: 92.8 %). With two looks the worst case is 93.3
// %, at the price of twice the samples: 12 instead of 6 without noise.
struct StoppingRule {
  double relative = 0.01;
  int least = 6;
  int most = 250;
};

// True when `samples`, in the order in which they were taken, fulfil the rule. False also at `most` samples that do
// not: the end of a series is decided by next_batch().
bool interval_converged(const StoppingRule& rule, const std::vector<double>& samples);

// Number of samples to take next after `taken`: doubling, so that few agreements between ranks are needed; 0 at `most`.
int next_batch(const StoppingRule& rule, int taken);

// Order statistics of a stream of values that may exceed memory. Up to `exact` values are kept and give exact results.
// Beyond that only counts in bins of 0.1 % are kept: minimum and maximum stay exact, other quantiles are right to 0.05
// %.
class Distribution {
 public:
  explicit Distribution(std::size_t exact) : exact_(exact) {}
  void add(double value);

  std::size_t count() const { return count_; }
  // Requires at least one value.
  double median();
  // A summary without median and interval.
  Summary extremes();

 private:
  double at(std::size_t k);  // the k-th smallest, from 0
  double sum_of_smallest(std::size_t count);
  void sort();
  void count_in_bin(double value);

  std::size_t exact_;
  std::size_t count_ = 0;
  std::vector<double> values_;  // sorted up to `sorted_`; empty once values are counted in bins
  std::size_t sorted_ = 0;
  std::vector<std::pair<std::int32_t, std::uint32_t>> bins_;  // bin and number of values, ascending
  double min_ = 0, max_ = 0;
};

// The Mann-Whitney test (Wilcoxon's rank sum) that two samples have one distribution. Exact where all choices of ranks
// are counted; ties get their mean ranks, and the permutation distribution of these ranks keeps the error rate at the
// cost of power. Beyond, the normal approximation with corrections for ties and continuity.
class RankTest {
 public:
  // True if counting takes no longer than for two samples of 30: a few values are tested exactly against many.
  static bool is_exact(std::size_t a, std::size_t b) { return (a + b) * std::min(a, b) <= 60 * 30; }
  // The smallest one_sided_p() without ties.
  static double least_p(std::size_t a, std::size_t b);
  // Probability of a rank sum of `b` as large or larger. Both samples non-empty.
  double one_sided_p(std::span<const double> a, std::span<const double> b);
  // Probability of a rank sum as far from the expected one, on either side.
  double two_sided_p(std::span<const double> a, std::span<const double> b);

 private:
  using Table = std::vector<double>;  // the number of choices of ranks, by sum of doubled ranks
  struct Position {
    Table ways;
    double sum = 0, expected = 0;  // doubled, of the smaller sample
    double deviation = 0;          // used where `ways` is empty
  };
  Position position(std::span<const double> a, std::span<const double> b);
  std::map<std::pair<std::size_t, std::size_t>, Table> untied_;  // by sample sizes
};

// The smallest p of an exact test without ties: 1 / binomial(a + b, a).
double smallest_p(std::size_t a, std::size_t b);

// Adjusted p-values, comparable with the family-wise error rate (Holm, Scandinavian Journal of Statistics 6, 1979) and
// with the false discovery rate (Benjamini and Hochberg, Journal of the Royal Statistical Society B 57, 1995).
std::vector<double> holm_adjusted(std::span<const double> p);
std::vector<double> false_discovery_adjusted(std::span<const double> p);

double normal_cdf(double z);
// Two-sided probability of |t| or more with whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).
double student_two_sided_p(double t, int degrees);
// The t for which student_two_sided_p() is `chance`.
double student_quantile(double chance, int degrees);

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same numbers on every machine, and cheap.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  // 0 to count - 1; count below 2^32.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(((next() >> 32) * count) >> 32); }

 private:
  std::uint64_t state_;
};

}  // namespace p5
