// Answers of histories: a level that got worse and still holds for the newest run is a regression; one that got better
// or was mended is none.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "bench/base/error.hpp"
#include "comparison_sides.hpp"

namespace p5::reports {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const std::vector<Bytes> two_sizes{MiB(64), GiB(1)};

// One run per day of one collective at large sizes; each entry is the factor of that day's times. From the day
// `changed_on` on the sizes are others.
std::vector<Run> runs_of(const std::vector<double>& factors, double scatter = 0.005, std::uint64_t seed = 1,
                         std::size_t changed_on = ~std::size_t{0}, const std::vector<Bytes>& others = two_sizes) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, scatter);
  std::vector<Run> runs;
  for (const double factor : factors) {
    Run& run = runs.emplace_back();
    run.name = fmt::format("day{}", runs.size());
    run.report.status = "complete";
    run.report.exit_code = ExitCode::ok;
    run.report.run.started = fmt::format("2026-{:02}-{:02}T06:00:00Z", 1 + runs.size() / 28, 1 + runs.size() % 28);
    const double off = std::exp(normal(random));
    for (const Bytes size : runs.size() > changed_on ? others : two_sizes) {
      Measurement& m = run.report.results.emplace_back().measurement;
      m.measured_case = case_of(all_reduce, size);
      m.throughput = Series{};
      m.throughput->summary = summarize({ideal_time(size) * factor * off});
      m.launches_s = {m.throughput->summary.median};
    }
  }
  return runs;
}

// Same steps as `compare --history`.
Comparison history(const std::vector<Run>& runs) {
  const std::span<const Run> all = runs;
  Comparison c = compare(make_side("BASE", all.first(all.size() - 1)), make_side("NEW", all.last(1)));
  add_trend(c, trend_of(all));
  return c;
}

// Levels as pairs of a number of runs and a factor.
Comparison of_levels(const std::vector<std::pair<std::size_t, double>>& levels) {
  std::vector<double> factors;
  for (const auto& [count, factor] : levels) factors.insert(factors.end(), count, factor);
  return history(runs_of(factors));
}

TEST(History, on_a_level_that_got_worse_is_a_regression) {
  const Comparison c = of_levels({{10, 1}, {8, 1.11}});
  EXPECT_EQ(c.exit_code, ExitCode::slow);
  EXPECT_EQ(c.headline, "REGRESSION: all_reduce >= 64 MiB +11 % since 2026-01-12 (screening)");
  ASSERT_THAT(c.trend->changes, SizeIs(1));
  EXPECT_NEAR(c.trend->changes[0].still.value_or(0), 1.11, 0.01);
  ASSERT_THAT(c.bands, SizeIs(1));
  EXPECT_EQ(c.bands[0].answer, Answer::regression);
  EXPECT_EQ(c.bands[0].change, 0u);
  EXPECT_THAT(c.bands[0].because, HasSubstr("slower than before 2026-01-12"));
}

TEST(History, on_a_worse_level_for_most_of_its_runs_is_a_regression_too) {
  EXPECT_EQ(of_levels({{10, 1}, {40, 1.11}}).exit_code, ExitCode::slow);
}

TEST(History, on_a_level_that_got_better_is_none) {
  const Comparison c = of_levels({{10, 1.11}, {8, 1}});
  EXPECT_THAT(c.trend->changes, SizeIs(1));
  EXPECT_FALSE(c.trend->changes[0].still);
  EXPECT_EQ(c.exit_code, ExitCode::ok) << c.headline;
}

TEST(History, is_answered_by_each_run_after_it_got_better) {
  for (const std::size_t since : {1, 2, 3, 4, 5, 7, 9, 12})
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      std::vector<double> factors(10, 1.25);
      factors.resize(10 + since, 1);
      const Comparison c = history(runs_of(factors, 0.005, seed));
      EXPECT_EQ(c.exit_code, ExitCode::ok) << since << " runs, seed " << seed << ": " << c.bands[0].because;
      if (since < 3) continue;  // one or two runs are no level
      factors.push_back(1.08);
      EXPECT_THAT(history(runs_of(factors, 0.003, seed)).bands[0].because, Not(HasSubstr("slower at most than")))
          << since << " runs, then a slower one, seed " << seed;
    }
}

TEST(History, that_was_mended_since_is_none) {
  const Comparison c = of_levels({{12, 1}, {8, 1.11}, {12, 1}});
  EXPECT_THAT(c.trend->changes, SizeIs(2));
  EXPECT_EQ(c.exit_code, ExitCode::ok) << c.headline;
}

TEST(History, whose_newest_run_alone_is_mended_is_none) {
  const Comparison c = of_levels({{12, 1}, {9, 1.11}, {1, 1}});
  EXPECT_THAT(c.trend->changes, SizeIs(1));
  EXPECT_NE(c.answer, Answer::regression) << c.headline;
}

// Factors of levels, each of a number of runs.
std::vector<double> factors_of(const std::vector<std::pair<std::size_t, double>>& levels) {
  std::vector<double> factors;
  for (const auto& [count, factor] : levels) factors.insert(factors.end(), count, factor);
  return factors;
}

TEST(History, of_runs_whose_sizes_change_is_told_by_the_sizes_in_common) {
  const std::vector<double> factors = factors_of({{12, 1}, {10, 1.06}});
  for (const Bytes other : {MiB(128), GiB(4)}) {
    const Comparison c = history(runs_of(factors, 0.003, 1, 12, {MiB(64), other}));
    ASSERT_THAT(c.trend->changes, SizeIs(1));
    EXPECT_NEAR(c.trend->changes[0].ratio, 1.06, 0.006);
    EXPECT_EQ(c.exit_code, ExitCode::slow) << c.headline;
  }
}

TEST(History, of_runs_whose_sizes_change_when_nothing_else_does_is_no_regression) {
  const Comparison c = history(runs_of(factors_of({{8, 1.08}, {18, 1}}), 0.003, 1, 16, {MiB(64), MiB(128)}));
  ASSERT_THAT(c.trend->changes, SizeIs(1));
  EXPECT_NEAR(c.trend->changes[0].ratio, 1 / 1.08, 0.006);
  EXPECT_NE(c.answer, Answer::regression) << c.headline;
}

TEST(History, without_sizes_in_common_is_that_of_the_newest_runs) {
  const Comparison c = history(runs_of(factors_of({{6, 1.06}, {16, 1}}), 0.003, 1, 12, {MiB(128), GiB(2)}));
  EXPECT_THAT(c.trend->changes, IsEmpty());
  EXPECT_EQ(c.exit_code, ExitCode::ok) << c.headline;
  EXPECT_FALSE(c.trend->points[11].ratios[0]);
  EXPECT_TRUE(c.trend->points[12].ratios[0]);
  EXPECT_THAT(c.remarks, testing::Contains(HasSubstr("12 runs measured other cases than the newest")));
}

// Fewer launches than the exact test needs: the scatter between them is estimated.
TEST(History, with_a_bad_day_judges_the_newest_run_as_without_it) {
  for (const double bad : {1.1, 1.3, 3.0}) {
    EXPECT_EQ(history(runs_of(factors_of({{7, 1}, {1, bad}, {7, 1}}), 0.003)).exit_code, ExitCode::ok) << bad;
    EXPECT_EQ(history(runs_of(factors_of({{7, 1}, {1, bad}, {6, 1}, {1, 1.08}}), 0.003)).exit_code, ExitCode::slow)
        << bad;
  }
}

TEST(History, with_several_bad_days_does_not_take_another_for_news) {
  std::vector<double> factors = factors_of({{20, 1}});
  for (const std::size_t day : {3u, 7u, 8u, 12u, 15u}) factors[day] = 1.1;
  factors.back() = 1.1;
  EXPECT_NE(history(runs_of(factors, 0.003)).answer, Answer::regression);
}

TEST(History, that_was_mended_in_part_is_a_regression_by_what_is_left) {
  const Comparison c = of_levels({{14, 1}, {10, 1.3}, {14, 1.12}});
  EXPECT_EQ(c.exit_code, ExitCode::slow);
  EXPECT_THAT(c.headline, HasSubstr("all_reduce >= 64 MiB +12 %"));
}

TEST(History, that_fell_back_from_a_better_level_is_a_regression) {
  const Comparison c = of_levels({{14, 1}, {12, 0.88}, {12, 1}});
  EXPECT_EQ(c.exit_code, ExitCode::slow);
  EXPECT_THAT(c.headline, HasSubstr("all_reduce >= 64 MiB +14 %"));
}

TEST(History, of_two_steps_for_the_worse_counts_both) {
  const Comparison c = of_levels({{14, 1}, {12, 1.1}, {12, 1.21}});
  EXPECT_EQ(c.exit_code, ExitCode::slow);
  EXPECT_THAT(c.headline, HasSubstr("all_reduce >= 64 MiB +21 %"));
}

TEST(History, with_a_step_that_does_not_matter_is_none) {
  std::vector<double> factors(20, 1);
  factors.insert(factors.end(), 20, 1.013);  // more than is negligible, less than matters
  const Comparison c = history(runs_of(factors, 0.001));
  EXPECT_THAT(c.trend->changes, SizeIs(1));
  EXPECT_EQ(c.exit_code, ExitCode::ok) << c.headline;
}

TEST(History, whose_newest_run_is_wrong_or_cut_off_is_never_well) {
  std::vector<reports::Run> runs = runs_of(std::vector<double>(12, 1));
  EXPECT_EQ(history(runs).exit_code, ExitCode::ok);
  runs.back().report.status = "partial";
  EXPECT_EQ(history(runs).exit_code, ExitCode::unfinished);
  runs.back().report.results.clear();  // killed before its first case was done
  EXPECT_EQ(history(runs).exit_code, ExitCode::unfinished);
  runs = runs_of(std::vector<double>(12, 1));
  for (reports::Run* run : {&runs[3], &runs.back()}) {
    run->report.exit_code = ExitCode::wrong_data;
    run->report.results[0].measurement.wrong_elements = 3;
  }
  const Comparison c = history(runs);
  EXPECT_EQ(c.exit_code, ExitCode::wrong_data);
  EXPECT_THAT(c.headline, testing::StartsWith("WRONG DATA in 1 case of NEW, as of BASE; "));
}

TEST(History, leaves_out_runs_of_other_arms_tunings_and_copies) {
  std::vector<reports::Run> runs = runs_of(std::vector<double>(10, 1));
  runs[4].report.results.clear();
  for (Result& each : runs[6].report.results) each.measurement.measured_case.arm = "a";
  runs.push_back(runs.back());
  runs.back().name = "day10-copy";
  EXPECT_THAT(leave_out_others(runs),
              testing::ElementsAre("day5 is left out: it holds nothing of the arm 'default'; it has: no measurements",
                                   "day7 is left out: it holds nothing of the arm 'default'; it has: a",
                                   "day10-copy is left out: it is a copy of day10"));
  EXPECT_THAT(runs, SizeIs(8));
  EXPECT_THAT(history(runs).trend->points, SizeIs(8));
  runs.back().report.results.clear();
  runs.back().report.status = "partial";  // killed before its first case was done
  EXPECT_THAT(leave_out_others(runs), IsEmpty());
  runs.pop_back();
  for (reports::Run& run : runs)
    for (Result& each : run.report.results) each.measurement.measured_case.arm = "a";
  EXPECT_THAT(trend_of(runs, "a").rows, SizeIs(1));
}

// --resume copies the results of the run that it goes on with into a folder of its own.
TEST(History, counts_a_run_once_that_another_one_continues) {
  std::vector<reports::Run> runs = runs_of({1, 1, 1});
  runs[1].report.status = "partial";
  runs[2].report.run.remarks = {
      fmt::format("continues the run of {} (out/c/20260103T060000Z), which was ended: it was "
                  "killed; 2 results are of that run",
                  runs[1].report.run.started)};
  const Side side = make_side("BASE", runs);
  EXPECT_THAT(side.observations[0].throughput, SizeIs(2));
  EXPECT_THAT(side.remarks, testing::ElementsAre("BASE: day2 does not count: day3 continues it, and has its launches"));
  runs[2].report.run.cluster = "another";
  EXPECT_THAT(leave_out_others(runs), IsEmpty());
  runs[2].report.run.cluster = "";
  EXPECT_THAT(leave_out_others(runs),
              testing::ElementsAre("day2 is left out: day3 continues it, and has its launches"));
  EXPECT_THAT(runs, SizeIs(2));
}

TEST(History, leaves_out_runs_of_other_hardware_and_keeps_those_with_parts_missing) {
  std::vector<reports::Run> runs = runs_of(std::vector<double>(6, 1));
  for (reports::Run& run : runs) {
    topo::Gpu& gpu = run.report.topology.hosts.emplace_back().gpu_devices.emplace_back();
    gpu.name = "H100";
    gpu.links = gpu.links_possible = 18;
    run.report.run.nodes = 1;
  }
  runs[1].report.run.nodes = 2;
  runs[2].report.topology.hosts[0].gpu_devices[0].links = 17;
  runs[3].report.topology.hosts[0].gpu_devices.clear();
  runs[3].report.topology.hosts[0].gpus = 7;
  topo::Finding finding;
  finding.id = "gpu.lost";
  finding.severity = topo::Severity::error;
  finding.about = topo::About::hardware;
  runs[3].report.findings = {finding};
  runs[4].report.topology.hosts[0].gpu_devices[0].name = "H200";
  EXPECT_THAT(
      leave_out_other_hardware(runs),
      testing::ElementsAre(
          "day2 is left out: it is of other hardware (nodes: 2, now 1); --across-hardware keeps it",
          "day5 is left out: it is of other hardware (GPUs: 1 x H200, now 1 x H100); --across-hardware keeps it"));
  EXPECT_THAT(runs, SizeIs(4));
  EXPECT_NO_THROW(history(runs));
}

TEST(Sides, do_not_take_times_of_wrong_data) {
  std::vector<reports::Run> runs = runs_of({1, 1});
  runs[0].report.exit_code = ExitCode::wrong_data;
  runs[0].report.results[0].measurement.wrong_elements = 3;
  Side side = make_side("BASE", runs);
  EXPECT_THAT(side.observations[0].throughput, SizeIs(1));
  EXPECT_THAT(side.observations[1].throughput, SizeIs(2));
  EXPECT_TRUE(side.observations[0].wrong_data);
  runs[0].report.results[0].measurement.wrong_elements = 0;  // wrong, but without a location
  side = make_side("BASE", runs);
  EXPECT_THAT(side.observations[1].throughput, SizeIs(1));
}

// In 5 % of histories without changes a change is found, half of them for the worse; more than 8 of 100 happen once in
// 300 times.
TEST(History, in_which_nothing_changed_is_seldom_a_regression_by_a_level) {
  const int times = std::getenv("P5BENCH_NIGHTLY") ? 1000 : 100;
  int alarms = 0;
  for (int i = 0; i < times; ++i) {
    const Comparison c = history(runs_of(std::vector<double>(25, 1), 0.01, static_cast<std::uint64_t>(i) + 1));
    alarms += std::ranges::any_of(c.bands, [](const BandRow& row) { return row.change.has_value(); });
  }
  RecordProperty("alarms", alarms);
  EXPECT_LE(alarms, times == 1000 ? 50 : 8);
}

}  // namespace
}  // namespace p5::reports
