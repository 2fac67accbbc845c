// Comparisons of sides that hold several jobs, as imports of a scaling test do: each job has rows of its own.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "comparison_sides.hpp"

namespace p5::reports {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Side side_on(int ranks, int nodes, const std::string& name, double slower, std::uint64_t seed) {
  SideRecipe recipe;
  recipe.collectives = {&all_reduce};
  recipe.from = MiB(64);
  recipe.to = GiB(1);
  recipe.slowdown = [slower](const Case&, int) { return slower; };
  Side side = make_up_side(name, recipe, seed);
  for (Observation& each : side.observations) {
    each.measured_case.ranks = ranks;
    each.measured_case.nodes = nodes;
  }
  return side;
}

// 8 ranks on a node, and 16 on two, where times are longer by the factor.
Side side_of_two_jobs(const std::string& name, double slower, std::uint64_t seed) {
  Side side = side_on(8, 1, name, 1, seed);
  const Side large = side_on(16, 2, name, slower, seed + 10);
  side.observations.insert(side.observations.end(), large.observations.begin(), large.observations.end());
  return side;
}

TEST(ComparisonOfJobs, that_are_slower_on_two_nodes_alone_is_a_regression_there) {
  const Comparison c = compare(side_of_two_jobs("BASE", 1, 1), side_of_two_jobs("NEW", 1.045, 2));
  ASSERT_EQ(c.bands.size(), 2u);
  EXPECT_EQ(c.bands[0].collective, "all_reduce, 16 ranks on 2 nodes");
  EXPECT_EQ(c.bands[0].answer, Answer::regression) << c.bands[0].because;
  EXPECT_EQ(c.bands[0].sizes, 5);
  EXPECT_EQ(c.bands[1].collective, "all_reduce, 8 ranks on 1 node");
  EXPECT_EQ(c.bands[1].answer, Answer::no_regression) << c.bands[1].because;
  EXPECT_THAT(c.headline, HasSubstr("all_reduce, 16 ranks on 2 nodes >= 64 MiB +"));
}

TEST(ComparisonOfJobs, of_one_job_on_each_side_has_the_names_of_its_operations_alone) {
  for (const int nodes : {1, 2}) {
    const Comparison c =
        compare(side_on(8, 1, "BASE", 1, 1), side_on(8 * nodes, nodes, "NEW", 1, 2), {.across_hardware = nodes > 1});
    ASSERT_EQ(c.bands.size(), 1u);
    EXPECT_EQ(c.bands[0].collective, "all_reduce");
  }
}

TEST(ComparisonOfJobs, over_a_history_finds_the_change_of_one_of_them) {
  constexpr int before = 10, all = 18;
  std::vector<reports::Run> runs;
  for (int i = 0; i < all; ++i) {
    reports::Run& run = runs.emplace_back();
    run.name = fmt::format("day{}", i);
    run.report.status = "complete";
    run.report.exit_code = ExitCode::ok;
    run.report.run.started = fmt::format("2026-01-{:02}T06:00:00Z", i + 1);
    for (const int nodes : {1, 2})
      for (const Bytes size : {MiB(64), GiB(1)}) {
        Measurement& m = run.report.results.emplace_back().measurement;
        m.measured_case = case_of(all_reduce, size);
        m.measured_case.ranks = 8 * nodes;
        m.measured_case.nodes = nodes;
        const double scatter = 1 + 0.001 * (i * 7 % 5 - 2), slower = nodes == 2 && i >= before ? 1.11 : 1;
        m.throughput = Series{};
        m.throughput->summary = summarize({ideal_time(size) * scatter * slower});
        m.launches_s = {m.throughput->summary.median};
      }
  }
  const std::span<const reports::Run> history = runs;
  Comparison c = compare(make_side("BASE", history.first(all - 1)), make_side("NEW", history.last(1)));
  add_trend(c, trend_of(history));
  EXPECT_THAT(c.trend->rows, ElementsAre("all_reduce, 16 ranks on 2 nodes, throughput, bandwidth",
                                         "all_reduce, 8 ranks on 1 node, throughput, bandwidth"));
  ASSERT_EQ(c.trend->changes.size(), 1u);
  EXPECT_EQ(c.trend->changes[0].row, 0u);
  ASSERT_EQ(c.bands.size(), 2u);
  EXPECT_EQ(c.bands[0].collective, "all_reduce, 16 ranks on 2 nodes");
  EXPECT_EQ(c.bands[0].change, 0u);
  EXPECT_FALSE(c.bands[1].change);
}

}  // namespace
}  // namespace p5::reports
