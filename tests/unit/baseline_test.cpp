// A baseline keeps what agrees, says what it left out and why, and refuses to guess.
#include "reports/baseline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/base/error.hpp"
#include "comparison_sides.hpp"

namespace p5::reports {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// A run of one launch at three sizes, all times multiplied by `factor`.
reports::Run run_of(const std::string& name, double factor, double jitter = 0) {
  reports::Run run;
  run.name = name;
  run.report.status = "complete";
  run.report.run.started = "2026-11-2" + name.substr(name.size() - 1) + "T00:00:00Z";
  for (const Bytes size : {MiB(64), MiB(256), GiB(1)}) {
    Measurement& m = run.report.results.emplace_back().measurement;
    m.measured_case = case_of(all_reduce, size);
    m.throughput = Series{};
    m.throughput->summary = summarize({ideal_time(size) * factor * (1 + jitter)});
    m.launches_s = {m.throughput->summary.median};
  }
  return run;
}

std::string problem_of(const std::vector<reports::Run>& runs) {
  try {
    make_baseline(runs, "");
  } catch (const UsageError& problem) {
    return problem.what();
  }
  return "made";
}

TEST(Baseline, has_the_launches_of_all_runs_in_the_order_of_time) {
  const std::vector<reports::Run> runs{run_of("day2", 1.002), run_of("day1", 1), run_of("day3", 1.001)};
  const Baseline baseline = make_baseline(runs, "2026-11-30T00:00:00Z");
  ASSERT_THAT(baseline.report.results, SizeIs(3));
  const Measurement& m = baseline.report.results[0].measurement;
  const double ideal = ideal_time(MiB(64));
  EXPECT_THAT(m.launches_s, ElementsAre(testing::DoubleNear(ideal, 1e-12), testing::DoubleNear(ideal * 1.002, 1e-12),
                                        testing::DoubleNear(ideal * 1.001, 1e-12)));
  EXPECT_NEAR(m.throughput->summary.median, ideal * 1.001, 1e-12);
  EXPECT_EQ(baseline.report.run.started, "2026-11-21T00:00:00Z");
  EXPECT_THAT(baseline.left_out, SizeIs(0));
}

TEST(Baseline, leaves_out_what_is_off_one_after_the_other) {
  const std::vector<reports::Run> runs{run_of("day0", 1),    run_of("day1", 1.3),  run_of("day2", 1.003),
                                       run_of("day3", 1.06), run_of("day4", 0.99), run_of("day5", 1.001)};
  const Baseline baseline = make_baseline(runs, "");
  ASSERT_THAT(baseline.left_out, SizeIs(2));
  EXPECT_EQ(baseline.left_out[0].name, "day1");
  EXPECT_THAT(baseline.left_out[0].because, HasSubstr("all_reduce, throughput, bandwidth is"));
  EXPECT_THAT(baseline.left_out[0].because, HasSubstr("slower"));
  EXPECT_EQ(baseline.left_out[1].name, "day3");
  EXPECT_THAT(baseline.kept, ElementsAre("day0", "day2", "day4", "day5"));
}

TEST(Baseline, keeps_what_differs_less_than_matters) {
  const std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1), run_of("day2", 1), run_of("day3", 1.02)};
  EXPECT_THAT(make_baseline(runs, "").left_out, SizeIs(0));
}

TEST(Baseline, keeps_all_where_all_scatter) {
  const std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1.1), run_of("day2", 1.2),
                                       run_of("day3", 1.3)};
  EXPECT_THAT(make_baseline(runs, "").left_out, SizeIs(0));
}

TEST(Baseline, leaves_out_what_is_not_whole_not_right_slow_or_of_a_faulty_machine) {
  std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1), run_of("day2", 1), run_of("day3", 1),
                                 run_of("day4", 1)};
  runs[4].report.findings.push_back(
      {"gpu.links", topo::Severity::error, {}, "3 links are down", "", topo::About::fabric});
  runs[0].report.status = "partial";
  runs[1].report.results[1].measurement.wrong_elements = 3;
  runs[2].report.results[0].verdict = {
      .grade = Grade::slow, .level = "", .limit = {}, .fraction = {}, .binding = "", .because = "half"};
  const Baseline baseline = make_baseline(runs, "");
  EXPECT_THAT(baseline.kept, ElementsAre("day3"));
  ASSERT_THAT(baseline.left_out, SizeIs(4));
  EXPECT_THAT(baseline.left_out[0].because, HasSubstr("did not finish"));
  EXPECT_THAT(baseline.left_out[1].because, HasSubstr("wrong data"));
  EXPECT_THAT(baseline.left_out[2].because, HasSubstr("was slow"));
  EXPECT_THAT(baseline.left_out[3].because, HasSubstr("faulty: 3 links are down"));
}

TEST(Baseline, refuses_when_nothing_is_sound) {
  std::vector<reports::Run> runs{run_of("day0", 1)};
  runs[0].report.status = "partial";
  EXPECT_THAT(problem_of(runs), HasSubstr("0 are left"));
}

TEST(Baseline, refuses_different_hardware) {
  std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1)};
  runs[0].report.topology.platform = "p5.48xlarge";
  runs[1].report.topology.platform = "p5en.48xlarge";
  EXPECT_THAT(problem_of(runs), HasSubstr("p5en.48xlarge"));
}

}  // namespace
}  // namespace p5::reports
