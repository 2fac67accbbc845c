// Steps in series of runs: how many are found, where, and how often one is found where there is none.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "bench/measure/change_points.hpp"

namespace p5 {
namespace {

using RunTimes = std::vector<double>;

// Normal scatter; `outliers` of the values are up to 30 % slower.
RunTimes scattered(std::size_t count, double scatter, std::uint64_t seed, double outliers = 0) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, scatter);
  std::uniform_real_distribution<double> uniform;
  RunTimes values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(normal(random) + (uniform(random) < outliers ? 0.3 * uniform(random) : 0));
  return values;
}

RunTimes with_step(RunTimes values, std::size_t first, double size) {
  for (std::size_t i = first; i < values.size(); ++i) values[i] += size;
  return values;
}

// With the probability of ten rows, the test of a step's sides finds another step by chance once in a hundred times.
constexpr ChangeRules strict{.chance = 0.005};

TEST(ChangePoints, a_step_is_found_where_it_is_with_its_size) {
  for (const double size : {0.1, -0.1}) {
    const auto found = find_changes(with_step(scattered(40, 0.01, 1), 25, size), strict);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].first, 25U);
    EXPECT_NEAR(found[0].after - found[0].before, size, 0.01);
    EXPECT_LE(found[0].p, 0.005);
  }
}

TEST(ChangePoints, of_several_each_is_found_also_a_rise_that_went_away) {
  const auto found =
      find_changes(with_step(with_step(with_step(scattered(90, 0.01, 2), 20, 0.08), 28, -0.08), 60, 0.05), strict);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].first, 20U);
  EXPECT_EQ(found[1].first, 28U);
  EXPECT_EQ(found[2].first, 60U);
  EXPECT_NEAR(found[1].after - found[1].before, -0.08, 0.02);
}

TEST(ChangePoints, outliers_are_no_change) {
  RunTimes values = scattered(40, 0.01, 3);
  for (const std::size_t at : {5U, 17U, 38U, 39U}) values[at] += 0.5;
  EXPECT_TRUE(find_changes(values).empty());
}

TEST(ChangePoints, the_same_series_gives_the_same_changes) {
  const RunTimes values = with_step(scattered(60, 0.02, 4), 40, 0.04);
  const auto one = find_changes(values), other = find_changes(values);
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].first, other[i].first);
    EXPECT_EQ(one[i].p, other[i].p);
  }
}

TEST(ChangePoints, what_is_negligible_is_not_told) {
  const RunTimes values = with_step(scattered(40, 0.0005, 5), 20, 0.005);
  EXPECT_EQ(find_changes(values).size(), 1U);
  EXPECT_TRUE(find_changes(values, {.negligible = 0.01}).empty());
}

TEST(ChangePoints, too_few_or_equal_values_show_none) {
  EXPECT_TRUE(find_changes({}).empty());
  EXPECT_TRUE(find_changes(RunTimes{1, 2}).empty());
  EXPECT_TRUE(find_changes(RunTimes(50, 1.0)).empty());
  EXPECT_FALSE(can_show_changes(6, 0.05));  // 2 of 20 ways
  EXPECT_TRUE(can_show_changes(8, 0.05));   // 2 of 70
  EXPECT_TRUE(find_changes(RunTimes{0, 0, 0, 1, 1, 1}).empty());
  EXPECT_EQ(find_changes(RunTimes{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}).size(), 1U);
}

// Histories of 10 rows, as `compare --history` judges them: 5 % for all rows together.
class ChangeRates : public testing::Test {
 protected:
  static constexpr int rows = 10;
  static constexpr ChangeRules rules{.chance = 0.05 / rows, .negligible = 0.015, .seed = 1};
  static constexpr double scatter = 0.02;
  static int times(int all) { return std::getenv("P5BENCH_NIGHTLY") ? all : all / 20; }

  // Number of `histories` with a change in any row.
  int alarms(int count, std::size_t runs, double outliers) {
    int found = 0;
    for (int i = 0; i < count; ++i) {
      bool any = false;
      for (int row = 0; row < rows; ++row)
        any =
            any || !find_changes(scattered(runs, scatter, static_cast<std::uint64_t>(1000 * i + row), outliers), rules)
                        .empty();
      found += any;
    }
    RecordProperty("alarms_" + std::to_string(runs) + (outliers > 0 ? "_outliers" : ""), found);
    return found;
  }
  // Number of series in which a step after 20 runs is found, within one run of its place, and nothing else.
  int found(int count, std::size_t after, double size, double outliers) {
    int found = 0;
    for (int i = 0; i < count; ++i) {
      const auto seed = static_cast<std::uint64_t>(i) + 900000;
      const auto changes = find_changes(with_step(scattered(20 + after, scatter, seed, outliers), 20, size), rules);
      found += changes.size() == 1 && changes[0].first >= 19 && changes[0].first <= 21;
    }
    RecordProperty("found_" + std::to_string(static_cast<int>(100 * size + 0.5)) + "_percent_after_" +
                       std::to_string(after) + (outliers > 0 ? "_outliers" : ""),
                   found);
    return found;
  }
};

// The expectation is 5 of 100 histories: more than 13 occur once in 2,000 times.
TEST_F(ChangeRates, of_false_alarms_at_most_13_in_100_or_140_in_2000) {
  for (const std::size_t runs : {25U, 60U, 200U})
    for (const double outliers : {0.0, 0.05}) {
      const int count = times(2000);
      EXPECT_LE(alarms(count, runs, outliers), count == 2000 ? 140 : 13) << runs << " runs, outliers " << outliers;
    }
}

TEST_F(ChangeRates, of_finding_5_percent_in_2_percent_of_noise) {
  const int count = times(2000);
  EXPECT_GE(found(count, 5, 0.05, 0), count * 60 / 100);
  EXPECT_GE(found(count, 5, 0.05, 0.05), count * 38 / 100);
  EXPECT_GE(found(count, 10, 0.05, 0), count * 80 / 100);
  EXPECT_GE(found(count, 20, 0.05, 0), count * 85 / 100);
  EXPECT_GE(found(count, 5, 0.1, 0), count * 90 / 100);
}

}  // namespace
}  // namespace p5
