// Error rates of comparisons: false alarms, and slowdowns that are found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "comparison_sides.hpp"
#include "reports/compare/comparison.hpp"

namespace p5::reports {
namespace {

// Error rates. The full counts are in reports/RESULTS.md; every day a part of them is tested.
class ComparisonRates : public testing::Test {
 protected:
  static int times(int all) { return std::getenv("P5BENCH_NIGHTLY") ? all : all / 20; }
};

TEST_F(ComparisonRates, of_false_alarms_at_most_35_in_500) {
  int alarms = 0, undecided = 0;
  for (int i = 0; i < times(500); ++i) {
    const auto seed = static_cast<std::uint64_t>(2 * i);
    const Comparison c = compare(make_up_side("BASE", {}, 1000 + seed), make_up_side("NEW", {}, 1001 + seed));
    alarms += c.answer == Answer::regression;
    undecided += c.answer == Answer::inconclusive;
  }
  RecordProperty("alarms", alarms);
  RecordProperty("undecided", undecided);
  EXPECT_LE(alarms, times(500) * 35 / 500);
  EXPECT_LE(undecided, times(500) / 4) << "it never says that nothing happened";
}

TEST_F(ComparisonRates, of_false_alarms_of_one_launch_a_side_at_most_35_in_500) {
  SideRecipe one;
  one.launches = 1;
  int alarms = 0, by_mean = 0;
  for (int i = 0; i < times(500); ++i) {
    const auto seed = static_cast<std::uint64_t>(2 * i);
    const Comparison c = compare(make_up_side("BASE", one, 3000 + seed), make_up_side("NEW", one, 3001 + seed));
    alarms += c.answer == Answer::regression;
    by_mean += std::ranges::any_of(c.bands, &BandRow::mean_rose);
  }
  RecordProperty("alarms", alarms);
  RecordProperty("by_mean", by_mean);
  EXPECT_LE(alarms, times(500) * 35 / 500) << by_mean << " by the mean";
}

// Launches of one run share its hosts, its day and its start. The tests have one row for each band.
SideRecipe several_runs(int runs, double differ) {
  SideRecipe recipe;
  recipe.launches = 3 * runs;
  recipe.runs = runs;
  recipe.runs_differ = differ;
  recipe.factor = 16;
  return recipe;
}

TEST_F(ComparisonRates, of_false_alarms_where_runs_differ_by_3_percent_at_most_4_in_100) {
  int alarms = 0, told = 0;
  for (int i = 0; i < times(100); ++i) {
    const auto seed = static_cast<std::uint64_t>(2 * i);
    const Comparison c = compare(make_up_side("BASE", several_runs(6, 0.03), 7000 + seed),
                                 make_up_side("NEW", several_runs(1, 0.03), 7001 + seed));
    alarms += c.answer == Answer::regression;
    told += std::ranges::any_of(
        c.remarks, [](const std::string& remark) { return remark.starts_with("runs of a side differ by"); });
  }
  RecordProperty("alarms", alarms);
  EXPECT_LE(alarms, times(100) * 4 / 100);
  EXPECT_GE(told, times(100) * 9 / 10);
}

// One new run may be as much faster than usual: what is not found then is not said to be as it was either.
TEST_F(ComparisonRates, of_finding_10_percent_where_runs_are_alike_or_differ_by_2_percent) {
  for (const auto& [differ, least] : {std::pair(0.0, 90), std::pair(0.02, 60)}) {
    int found = 0, denied = 0;
    for (int i = 0; i < times(50); ++i) {
      SideRecipe slower = several_runs(1, differ);
      slower.slowdown = [](const Case& c, int) { return c.bytes >= MiB(64) ? 1.1 : 1; };
      const auto seed = static_cast<std::uint64_t>(2 * i);
      const Comparison c =
          compare(make_up_side("BASE", several_runs(6, differ), 8000 + seed), make_up_side("NEW", slower, 8001 + seed));
      const Answer answer = row_of(c, "all_reduce", "bandwidth").answer;
      found += answer == Answer::regression;
      denied += answer == Answer::no_regression;
    }
    RecordProperty(differ > 0 ? "found_where_runs_differ" : "found_where_runs_are_alike", found);
    EXPECT_GE(found, times(50) * least / 100) << differ;
    EXPECT_EQ(denied, 0) << differ;
  }
}

int found(int times, const std::string& band, double factor) {
  int found = 0;
  for (int i = 0; i < times; ++i) {
    SideRecipe slower;
    slower.slowdown = [&](const Case& c, int) {
      const bool here = band == "bandwidth" ? c.bytes >= MiB(64) : c.bytes > KiB(64) && c.bytes < MiB(64);
      return c.collective == &all_reduce && here ? factor : 1;
    };
    const auto seed = static_cast<std::uint64_t>(2 * i);
    const Comparison c = compare(make_up_side("BASE", {}, 5000 + seed), make_up_side("NEW", slower, 5001 + seed));
    found += row_of(c, "all_reduce", band).answer == Answer::regression;
  }
  return found;
}

TEST_F(ComparisonRates, of_finding_3_percent_of_large_messages) {
  const int count = found(times(100), "bandwidth", 1.03);
  RecordProperty("found", count);
  EXPECT_GE(count, times(100) * 9 / 10);
}

TEST_F(ComparisonRates, of_finding_5_percent_of_middle_messages) {
  const int count = found(times(100), "mid", 1.05);
  RecordProperty("found", count);
  EXPECT_GE(count, times(100) * 9 / 10);
}

}  // namespace
}  // namespace p5::reports
