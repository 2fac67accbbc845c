// The statistics against values from exact arithmetic, and the coverage of the median by its intervals.
#include "bench/base/statistics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numbers>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

namespace p5 {
namespace {

std::vector<double> squares(int count) {
  std::vector<double> samples;
  for (int i = 1; i <= count; ++i) samples.push_back(static_cast<double>(i) * i);
  std::ranges::shuffle(samples, std::mt19937_64(static_cast<std::uint64_t>(count)));
  return samples;
}

// Uniform in (0, 1), normal and exponential numbers, the same for a seed with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  double uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53; }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }
  double exponential() { return -std::log(uniform()); }

 private:
  std::mt19937_64 engine_;
};

struct Noise {
  std::string name;
  std::function<double(Random&)> draw;
  double median = 0;
};

bool covers(const Interval& interval, double value) { return interval.low <= value && value <= interval.high; }

// Bursts of 0.03 s at rate 700 from one time to another.
void add_bursts(std::vector<TimedRate>& rates, double from, double to) {
  for (double end = from + 0.03; end <= to; end += 0.03) rates.push_back({end, 0.03, 700});
}

TEST(Statistics, the_slowest_window_has_the_rate_of_work_that_stands_still) {
  EXPECT_EQ(slowest_window({}, 1), 0);
  EXPECT_EQ(slowest_window({{0.5, 0.5, 3}}, 1), 3) << "no window is whole";
  std::vector<TimedRate> rates;
  add_bursts(rates, 0, 10.2);
  EXPECT_EQ(slowest_window(rates, 1), 700);
  std::vector<TimedRate> stalls = rates, short_stall = rates, dip = rates;
  stalls.push_back({15.2, 5, 4.2});
  add_bursts(stalls, 15.2, 20);
  EXPECT_EQ(slowest_window(stalls, 1), 4.2) << "no burst ends within it, and one of many at its end";
  short_stall.push_back({10.7, 0.5, 42});
  add_bursts(short_stall, 10.7, 20);
  EXPECT_EQ(slowest_window(short_stall, 1), 700) << "half a second";
  for (double end = 11.04; end < 11.99; end += 0.05) dip.push_back({end, 0.05, 420});
  EXPECT_EQ(slowest_window(dip, 1), 700) << "the last window is not whole";
  add_bursts(dip, 12, 14);
  EXPECT_EQ(slowest_window(dip, 1), 420);
  EXPECT_EQ(slowest_window({{0.4, 0.4, 6}, {1, 0.6, 4}, {2, 1, 8}}, 1), 5) << "windows that end with a burst are whole";
}

TEST(Statistics, means_without_what_is_rare) {
  EXPECT_DOUBLE_EQ(interquartile_mean({5}), 5);
  EXPECT_DOUBLE_EQ(interquartile_mean({1, 3}), 2);
  EXPECT_DOUBLE_EQ(interquartile_mean({1, 3, 1, 3, 1000, 1, 3, 0}), 2);  // of eight the middle four
  EXPECT_DOUBLE_EQ(interquartile_mean({1, 2, 6}), (0.25 * 1 + 1 * 2 + 0.25 * 6) / 1.5);
  EXPECT_FALSE(summarize({1, 1, 1, 1, 1}).trimmed_mean);
  EXPECT_DOUBLE_EQ(*summarize({1, 1, 1, 1, 6, 50}).trimmed_mean, 1);
  EXPECT_DOUBLE_EQ(*summarize({1, 1, 1, 5, 6, 50}).trimmed_mean, 2);
  std::vector<double> samples(100, 1);
  for (std::size_t i = 0; i < 10; ++i) samples[i * 7] = 20;
  EXPECT_DOUBLE_EQ(*summarize(samples).trimmed_mean, (90 + 5 * 20) / 95.0);
  for (const std::size_t exact : {100, 10}) {
    Distribution all(exact);
    for (const double each : samples) all.add(each);
    EXPECT_NEAR(*all.extremes().trimmed_mean, 2, 0.002);
  }
}

TEST(Median, is_the_middle_of_an_odd_number_of_samples) { EXPECT_EQ(median({9, 1, 5}), 5); }

TEST(Median, is_the_mean_of_the_middle_two_of_an_even_number) { EXPECT_EQ(median({9, 1, 5, 2}), 3.5); }

TEST(RobustDeviation, is_that_of_normal_noise_and_ignores_a_few_samples) {
  EXPECT_NEAR(robust_deviation({9, 10, 11, 8, 12, 10, 1000}), 1.4826, 1e-9);
  EXPECT_EQ(robust_deviation({7}), 0);
  EXPECT_EQ(robust_deviation({}), 0);
  EXPECT_EQ(robust_deviation({3, 3, 3}), 0);
}

TEST(Median, of_one_sample_is_that_sample) { EXPECT_EQ(median({7}), 7); }

// Expected values come from tests/fixtures/order_statistics.py.
TEST(MedianInterval, agrees_with_exact_arithmetic) {
  struct Row {
    int count;
    double low, high;
  };
  const std::vector<Row> rows{
      {6, 2.0714285714285716, 32.07142857142857},     {7, 3.2, 39.46666666666667},
      {8, 3.8069306930693068, 49.96534653465346},     {9, 5.1395348837209305, 60.58139534883721},
      {10, 7.288288288288288, 69.81981981981981},     {15, 19.361554786105216, 135.40935999106443},
      {20, 39.05804480651731, 218.17820773930754},    {25, 67.36805049425783, 317.065778394175},
      {30, 104.80294147290763, 431.62282855289465},   {50, 348.85428803139985, 1045.3370615664599},
      {100, 1661.8192499235479, 3628.6527254228486},  {1000, 220461.56831899742, 282457.3289423916},
      {1075, 255917.42370360825, 325033.82349572994},  // 2^-1075 underflows
      {2001, 916182.6583847563, 1091661.024874279},   {100000, 2469156195.805249, 2531135875.3653216}};
  for (const Row& row : rows) {
    const auto interval = median_interval(squares(row.count));
    ASSERT_TRUE(interval) << row.count;
    EXPECT_NEAR(interval->low / row.low, 1, 1e-10) << row.count;
    EXPECT_NEAR(interval->high / row.high, 1, 1e-10) << row.count;
  }
}

// n = 6 by hand: the range covers 1 - 2/64 = 0.96875, the next pair 1 - 14/64 = 0.78125, so the share is 0.1 and the
// weight 5 * 0.1 / (1 + 4 * 0.1) = 5/14.
TEST(MedianInterval, of_six_samples_is_what_a_hand_computes) {
  const auto interval = median_interval({0, 14, 28, 42, 56, 70});
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->low, 5, 1e-12);
  EXPECT_NEAR(interval->high, 65, 1e-12);
}

TEST(MedianInterval, is_refused_below_six_samples) {
  for (int count = 0; count < 6; ++count) EXPECT_FALSE(median_interval(squares(count))) << count;
}

TEST(MedianInterval, of_equal_samples_has_no_width) {
  const auto interval = median_interval(std::vector<double>(17, 0.1));
  ASSERT_TRUE(interval);
  EXPECT_EQ(*interval, (Interval{0.1, 0.1}));
}

TEST(MedianInterval, contains_the_median_and_ignores_outliers) {
  auto samples = squares(30);
  *std::ranges::max_element(samples) = 1e30;
  const auto interval = median_interval(samples);
  ASSERT_TRUE(interval);
  EXPECT_TRUE(covers(*interval, median(samples)));
  EXPECT_LT(interval->high, 1000);
}

// 8 000 series: the standard error of a coverage of 95 % is 0.24 points, and the bounds are eight of them away.
TEST(MedianInterval, covers_the_median_in_95_of_100_series) {
  const std::vector<Noise> noises{{"normal", [](Random& r) { return r.normal(); }, 0},
                                  {"exponential", [](Random& r) { return r.exponential(); }, std::numbers::ln2},
                                  {"lognormal", [](Random& r) { return std::exp(r.normal()); }, 1}};
  constexpr int series = 8000;
  for (const Noise& noise : noises) {
    for (const int count : {6, 7, 8, 10, 15, 20, 30, 50, 100}) {
      Random random(static_cast<std::uint64_t>(count));
      int covered = 0;
      for (int i = 0; i < series; ++i) {
        std::vector<double> samples(static_cast<std::size_t>(count));
        for (double& sample : samples) sample = noise.draw(random);
        covered += covers(median_interval(std::move(samples)).value(), noise.median);
      }
      EXPECT_GE(covered, 0.93 * series) << noise.name << " " << count;
      EXPECT_LE(covered, 0.97 * series) << noise.name << " " << count;
    }
  }
}

std::optional<double> quantile(std::vector<double> samples, double q) {
  std::ranges::sort(samples);
  return quantile_by_order(samples.size(), q, [&](std::size_t k) { return samples[k]; });
}

// Expected values come from tests/fixtures/order_statistics.py.
TEST(Quantile, agrees_with_another_implementation) {
  struct Row {
    int count;
    double p95, p99;
  };
  for (const Row& row : {Row{40, 1447.85, 0}, Row{41, 1521.0, 0}, Row{100, 9034.55, 0}, Row{200, 36119.05, 39207.97},
                         Row{250, 56430.25, 61261.45}}) {
    EXPECT_NEAR(quantile(squares(row.count), 0.95).value(), row.p95, 1e-8) << row.count;
    if (row.p99 > 0) {
      EXPECT_NEAR(quantile(squares(row.count), 0.99).value(), row.p99, 1e-8) << row.count;
    }
  }
}

TEST(Quantile, is_refused_when_fewer_than_two_samples_lie_beyond_it) {
  EXPECT_FALSE(quantile(squares(39), 0.95));
  EXPECT_TRUE(quantile(squares(40), 0.95));
  EXPECT_FALSE(quantile(squares(199), 0.99));
  EXPECT_TRUE(quantile(squares(200), 0.99));
  EXPECT_FALSE(quantile(squares(19), 0.9));
  EXPECT_TRUE(quantile(squares(20), 0.9));
  EXPECT_FALSE(quantile({}, 0.5));
  EXPECT_FALSE(quantile(squares(1000), 1));
}

TEST(Quantile, one_half_is_the_median) {
  for (const int count : {4, 5, 60, 61}) EXPECT_EQ(quantile(squares(count), 0.5), median(squares(count))) << count;
}

TEST(Summarize, says_only_what_the_samples_support) {
  const Summary few = summarize({3, 1, 2});
  EXPECT_EQ(few.samples, 3);
  EXPECT_EQ(few.median, 2);
  EXPECT_EQ(few.min, 1);
  EXPECT_EQ(few.max, 3);
  EXPECT_FALSE(few.interval);
  EXPECT_FALSE(few.p95);
  EXPECT_FALSE(few.p99);
  const Summary many = summarize(squares(200));
  EXPECT_EQ(many.interval, median_interval(squares(200)));
  EXPECT_EQ(many.p95, quantile(squares(200), 0.95));
  EXPECT_EQ(many.p99, quantile(squares(200), 0.99));
  EXPECT_EQ(many.max, 40000);
}

// Each of seven samples is left out of a seventh of all draws of six: the first four are kept in 6/7 of them, the fifth
// where one below it is left out.
TEST(TrimmedMean, of_fewer_samples_is_expected_by_these_weights) {
  const std::vector<double> of_seven = weights_in_trimmed_mean(7, 6);
  const std::vector<double> wanted{3.0 / 14, 3.0 / 14, 3.0 / 14, 3.0 / 14, 1.0 / 7, 0, 0};
  ASSERT_EQ(of_seven.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(of_seven[i], wanted[i], 1e-12) << i;
  const std::vector<double> of_all = weights_in_trimmed_mean(100, 100);
  for (std::size_t i = 0; i < of_all.size(); ++i) EXPECT_NEAR(of_all[i], i < 95 ? 1 / 95.0 : 0, 1e-12) << i;
  double sum = 0;
  for (const double weight : weights_in_trimmed_mean(250, 42)) sum += weight;
  EXPECT_NEAR(sum, 1, 1e-9);
}

TEST(StoppingRule, doubles_the_samples_up_to_the_most) {
  const StoppingRule rule;
  std::vector<int> batches;
  int taken = 0;
  while (const int batch = next_batch(rule, taken)) {
    batches.push_back(batch);
    taken += batch;
  }
  EXPECT_EQ(batches, (std::vector<int>{6, 6, 12, 24, 48, 96, 58}));
  EXPECT_EQ(taken, rule.most);
}

TEST(StoppingRule, asks_for_no_samples_beyond_the_most) {
  EXPECT_EQ(next_batch({.least = 6, .most = 4}, 0), 4);
  EXPECT_EQ(next_batch({.least = 6, .most = 250}, 250), 0);
  EXPECT_EQ(next_batch({.least = 6, .most = 250}, 300), 0);
}

TEST(StoppingRule, stops_at_the_second_look_when_all_samples_agree) {
  const StoppingRule rule;
  EXPECT_FALSE(interval_converged(rule, {}));
  EXPECT_FALSE(interval_converged(rule, std::vector<double>(6, 1.0)));
  EXPECT_TRUE(interval_converged(rule, std::vector<double>(12, 1.0)));
}

TEST(StoppingRule, does_not_trust_the_first_narrow_look) {
  std::vector<double> samples{1, 1.1, 0.9, 1.2, 0.8, 1};  // wide
  samples.resize(24, 1.0);                                // narrow from 12 on
  EXPECT_FALSE(interval_converged({}, {samples.begin(), samples.begin() + 12}));
  EXPECT_TRUE(interval_converged({}, samples));
}

TEST(StoppingRule, goes_on_while_the_interval_is_wide) {
  std::vector<double> samples;
  for (int i = 0; i < 250; ++i) samples.push_back(i % 2 == 0 ? 1.0 : 1.5);
  EXPECT_FALSE(interval_converged({}, samples));
  EXPECT_TRUE(interval_converged({.relative = 0.5}, samples));
}

// The rule prefers intervals that are narrow by accident; two looks limit that to two points. 10 000 series: the
// standard error is 0.22 points, and 0.5 with the fifth of them that runs by day. Noise of two and three times the
// rule's 1 % is the worst.
TEST(StoppingRule, leaves_the_intervals_at_least_93_percent_coverage) {
  const auto normal = [](double size) { return [size](Random& r) { return 1 + size * r.normal(); }; };
  const auto lognormal = [](double size) { return [size](Random& r) { return std::exp(size * r.normal()); }; };
  const std::vector<Noise> noises{
      {"normal 0.5 %", normal(0.005), 1},
      {"normal 1 %", normal(0.01), 1},
      {"normal 2 %", normal(0.02), 1},
      {"normal 3 %", normal(0.03), 1},
      {"lognormal 2 %", lognormal(0.02), 1},
      {"lognormal 5 %", lognormal(0.05), 1},
      {"exponential 3 %", [](Random& r) { return 1 + 0.03 * r.exponential(); }, 1 + 0.03 * std::numbers::ln2}};
  const int series = std::getenv("P5BENCH_NIGHTLY") ? 10000 : 2000;
  const StoppingRule rule;
  for (const Noise& noise : noises) {
    Random random(1);
    int covered = 0;
    for (int i = 0; i < series; ++i) {
      std::vector<double> samples;
      while (!interval_converged(rule, samples)) {
        const int batch = next_batch(rule, static_cast<int>(samples.size()));
        if (batch == 0) break;
        for (int j = 0; j < batch; ++j) samples.push_back(noise.draw(random));
      }
      covered += covers(median_interval(std::move(samples)).value(), noise.median);
    }
    EXPECT_GE(covered, 0.93 * series) << noise.name;
    EXPECT_LE(covered, 0.97 * series) << noise.name;
  }
}

}  // namespace
}  // namespace p5
