// Baselines keep runs that agree, name excluded runs with the reason, and refuse ambiguous sets.
#include "reports/baseline.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "bench/base/error.hpp"
#include "comparison_sides.hpp"
#include "reports/journal.hpp"

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
  run.report.exit_code = ExitCode::ok;
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
    make_baseline(runs, "2026-11-30T00:00:00Z");
  } catch (const UsageError& problem) {
    return problem.what();
  }
  return "made";
}

// Journal line of the first case with this median and six samples.
Result line_of(const reports::Run& run, int launch, double median_s) {
  Result line;
  line.measurement.measured_case = run.report.results.front().measurement.measured_case;
  line.measurement.launch = launch;
  line.measurement.throughput.emplace().samples = std::vector<double>(6, median_s);
  line.measurement.throughput->summary = summarize(line.measurement.throughput->samples);
  return line;
}

std::vector<reports::Run> ten_runs() {
  std::vector<reports::Run> runs;
  for (int i = 0; i < 10; ++i) runs.push_back(run_of("day" + std::to_string(i), 1));
  return runs;
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
  EXPECT_THAT(baseline.excluded, SizeIs(0));
}

TEST(Baseline, leaves_out_what_is_off_one_after_the_other) {
  const std::vector<reports::Run> runs{run_of("day0", 1),    run_of("day1", 1.3),  run_of("day2", 1.003),
                                       run_of("day3", 1.06), run_of("day4", 0.99), run_of("day5", 1.001)};
  const Baseline baseline = make_baseline(runs, "2026-11-30T00:00:00Z");
  ASSERT_THAT(baseline.excluded, SizeIs(2));
  EXPECT_EQ(baseline.excluded[0].name, "day1");
  EXPECT_THAT(baseline.excluded[0].because, HasSubstr("all_reduce, throughput, bandwidth is"));
  EXPECT_THAT(baseline.excluded[0].because, HasSubstr("slower"));
  EXPECT_EQ(baseline.excluded[1].name, "day3");
  EXPECT_THAT(baseline.kept, ElementsAre("day0", "day2", "day4", "day5"));
}

TEST(Baseline, keeps_what_differs_less_than_matters) {
  const std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1), run_of("day2", 1), run_of("day3", 1.02)};
  EXPECT_THAT(make_baseline(runs, "2026-11-30T00:00:00Z").excluded, SizeIs(0));
}

TEST(Baseline, keeps_all_where_all_scatter) {
  const std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1.1), run_of("day2", 1.2),
                                       run_of("day3", 1.3)};
  EXPECT_THAT(make_baseline(runs, "2026-11-30T00:00:00Z").excluded, SizeIs(0));
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
  const Baseline baseline = make_baseline(runs, "2026-11-30T00:00:00Z");
  EXPECT_THAT(baseline.kept, ElementsAre("day3"));
  ASSERT_THAT(baseline.excluded, SizeIs(4));
  EXPECT_THAT(baseline.excluded[0].because, HasSubstr("did not finish"));
  EXPECT_THAT(baseline.excluded[1].because, HasSubstr("wrong data"));
  EXPECT_THAT(baseline.excluded[2].because, HasSubstr("was slow"));
  EXPECT_THAT(baseline.excluded[3].because, HasSubstr("faulty: 3 links are down"));
}

TEST(Baseline, is_no_run_with_an_open_question) {
  Report report = run_of("day0", 1).report;
  EXPECT_EQ(why_no_baseline(report), "");
  OpenQuestion question;
  question.candidates = {"node n0", "node n1"};
  report.open_questions = {question};
  report.arms = {{.name = "default", .settings = {}, .context = {}, .problem = {}}};  // its exit code is of the arms
  EXPECT_EQ(why_no_baseline(report), "it found node n0 or node n1 at fault");
}

TEST(Baseline, refuses_when_nothing_is_sound) {
  std::vector<reports::Run> runs{run_of("day0", 1)};
  runs[0].report.status = "partial";
  EXPECT_THAT(problem_of(runs), HasSubstr("0 are left"));
  runs[0].report.status = "complete";
  for (Result& each : runs[0].report.results) each.measurement.outcome = Outcome::skipped;
  EXPECT_THAT(problem_of(runs), HasSubstr("nothing was measured in it"));
}

TEST(Baseline, leaves_out_runs_of_other_arms_and_tunings) {
  std::vector<reports::Run> runs = ten_runs();
  for (Result& each : runs[4].report.results) each.measurement.measured_case.arm = "a";
  runs[4].report.arms = {{.name = "a", .settings = {}, .context = {}, .problem = {}}};
  runs[7].report.results.clear();
  const Baseline baseline = make_baseline(runs, "2026-11-30T00:00:00Z");
  EXPECT_THAT(baseline.kept, SizeIs(8));
  ASSERT_THAT(baseline.excluded, SizeIs(2));
  EXPECT_EQ(baseline.excluded[0].because, "nothing of the arm 'default' was measured in it");
  EXPECT_EQ(baseline.excluded[1].because, "nothing was measured in it");
}

TEST(Baseline, has_cases_that_the_newest_run_skipped_or_measured_again_beside_the_plan) {
  std::vector<reports::Run> runs{run_of("day1", 1), run_of("day2", 1.001), run_of("day3", 1.002)};
  std::vector<Result>& newest = runs[2].report.results;
  Measurement& skipped = newest[0].measurement;
  skipped.outcome = Outcome::skipped;
  skipped.because = "budget";
  skipped.throughput.reset();
  skipped.launches_s.clear();
  Result again = newest[1];
  again.measurement.measured_case.for_parts = true;
  newest.push_back(again);
  const Baseline baseline = make_baseline(runs, "2026-11-30T00:00:00Z");
  const reports::Run made{.name = "baseline", .report = baseline.report, .journal = baseline.journal};
  const Side side = make_side("BASE", {&made, 1});
  ASSERT_THAT(side.observations, SizeIs(3));
  EXPECT_EQ(side.observations[0].skipped, "");
  EXPECT_THAT(side.observations[0].throughput, SizeIs(2));
  EXPECT_THAT(side.observations[1].throughput, SizeIs(3));
}

TEST(Baseline, of_latency_alone_says_how_many_launches_it_has) {
  std::vector<reports::Run> runs{run_of("day1", 1), run_of("day2", 1), run_of("day3", 1)};
  for (reports::Run& run : runs)
    for (Result& each : run.report.results) {
      Measurement& m = each.measurement;
      m.latency.swap(m.throughput);
      m.latency_launches_s.swap(m.launches_s);
    }
  EXPECT_EQ(make_baseline(runs, "2026-11-30T00:00:00Z").report.run.launches, 3);
}

TEST(Samples, of_a_case_that_was_measured_again_beside_the_plan_are_its_own) {
  reports::Run run = run_of("day1", 1);
  run.report.results.resize(1);
  Result beside = run.report.results[0];
  beside.measurement.measured_case.for_parts = true;
  run.report.results.push_back(beside);
  std::vector<Result> journal{line_of(run, 0, 1e-3), line_of(run, 0, 2e-3)};
  journal[1].measurement.measured_case.for_parts = true;
  add_samples(journal, run.report);
  EXPECT_THAT(run.report.results[0].measurement.throughput->samples, testing::Each(1e-3));
  EXPECT_THAT(run.report.results[1].measurement.throughput->samples, testing::Each(2e-3));
}

TEST(Baseline, refuses_different_hardware) {
  std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1)};
  runs[0].report.topology.platform = "p5.48xlarge";
  runs[1].report.topology.platform = "p5en.48xlarge";
  EXPECT_THAT(problem_of(runs), HasSubstr("p5en.48xlarge"));
}

TEST(Baseline, has_a_run_once_that_another_healthy_one_continues) {
  std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1), run_of("day2", 1)};
  runs[2].report.run.remarks = {
      fmt::format("continues the run of {} (out/c/1); 3 results are of that run", runs[1].report.run.started)};
  const Baseline baseline = make_baseline(runs, "2026-11-30T00:00:00Z");
  EXPECT_THAT(baseline.kept, ElementsAre("day0", "day2"));
  ASSERT_THAT(baseline.excluded, SizeIs(1));
  EXPECT_EQ(baseline.excluded[0].because, "day2 continues it, and has its launches");
  runs[2].report.status = "partial";
  EXPECT_THAT(make_baseline(runs, "2026-11-30T00:00:00Z").kept, ElementsAre("day0", "day1"));
}

// One night on fewer nodes in a folder of all.
TEST(Baseline, leaves_out_runs_of_other_hardware_than_the_newest) {
  std::vector<reports::Run> runs{run_of("day2", 1), run_of("day0", 1), run_of("day1", 1)};
  for (reports::Run& run : runs) run.report.run.nodes = 4;
  runs[2].report.run.nodes = 3;
  const Baseline baseline = make_baseline(runs, "2026-11-30T00:00:00Z");
  EXPECT_THAT(baseline.kept, ElementsAre("day2", "day0"));
  ASSERT_THAT(baseline.excluded, SizeIs(1));
  EXPECT_EQ(baseline.excluded[0].because, "it is of other hardware than the newest, day2 (nodes: 3 and 4)");
  runs[1].report.run.nodes = 3;
  EXPECT_THAT(problem_of(runs), HasSubstr("no majority")) << "the newest is the odd one";
}

std::size_t launches_of_first_case(const Baseline& baseline) {
  const reports::Run made{.name = "baseline", .report = baseline.report, .journal = baseline.journal};
  return make_side("BASE", {&made, 1}).observations.front().throughput.size();
}

TEST(Baseline, counts_no_launches_that_only_a_journal_claims) {
  std::vector<reports::Run> runs = ten_runs();
  for (int i = 0; i < 25; ++i) runs[3].journal.push_back(line_of(runs[3], i, 1.2 * ideal_time(MiB(64))));
  EXPECT_EQ(launches_of_first_case(make_baseline(runs, "2026-11-30T00:00:00Z")), 10U);
  const Side side = make_side("BASE", runs);
  EXPECT_NEAR(side.observations.front().throughput[3].median_s, ideal_time(MiB(64)), 1e-12);
}

TEST(Baseline, has_the_launches_of_runs_without_a_journal_too) {
  std::vector<reports::Run> runs = ten_runs();
  runs[4].journal.push_back(line_of(runs[4], 0, ideal_time(MiB(64))));
  const Baseline baseline = make_baseline(runs, "2026-11-30T00:00:00Z");
  EXPECT_EQ(launches_of_first_case(baseline), 10U);
}

TEST(Baseline, has_the_smallest_and_the_largest_of_launches_with_and_without_samples) {
  std::vector<reports::Run> runs = ten_runs();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Measurement& m = runs[i].report.results.front().measurement;
    m.throughput->summary.median = ideal_time(MiB(64)) * (1 + 1e-3 * static_cast<double>(i));
    m.launches_s = {m.throughput->summary.median};
  }
  runs[9].journal.push_back(line_of(runs[9], 0, runs[9].report.results.front().measurement.launches_s.front()));
  const Summary summary =
      make_baseline(runs, "2026-11-30T00:00:00Z").report.results.front().measurement.throughput->summary;
  EXPECT_LE(summary.min, ideal_time(MiB(64)));
  EXPECT_GT(summary.median, summary.min);
  EXPECT_LT(summary.median, summary.max);
}

// A baseline as its files have it.
reports::Run read_again(const Baseline& baseline, const std::string& started) {
  std::string journal;
  for (const Result& line : baseline.journal) journal += to_json(line, true).dump() + "\n";
  reports::Run made{.name = "baseline", .report = baseline.report, .journal = journal_in(journal, "journal")};
  made.report.run.started = started;
  return made;
}

// Differences between runs widen intervals, so a baseline's file keeps them apart, also one made of a baseline.
TEST(Baseline, says_of_which_run_a_launch_is) {
  std::vector<reports::Run> runs;
  for (int i = 0; i < 3; ++i) {
    reports::Run& run = runs.emplace_back(run_of("day" + std::to_string(i), 1));
    run.report.results.resize(1);
    run.report.run.launches = 2;
    Measurement& m = run.report.results.front().measurement;
    m.launches_s = {ideal_time(MiB(64)) * (1 + 1e-3 * i), ideal_time(MiB(64)) * (1 + 1e-3 * i + 1e-4)};
    for (int launch = 0; launch < 2; ++launch)
      run.journal.push_back(line_of(run, launch, m.launches_s[static_cast<std::size_t>(launch)]));
  }
  const auto runs_in = [](std::span<const reports::Run> of) {
    std::vector<int> numbers;
    const Side side = make_side("BASE", of);
    for (const Launch& launch : side.observations.front().throughput) numbers.push_back(launch.run);
    return numbers;
  };
  const reports::Run made = read_again(make_baseline(runs, "2026-11-30T00:00:00Z"), "2026-11-28T00:00:00Z");
  EXPECT_THAT(runs_in({{made}}), ElementsAre(0, 0, 1, 1, 2, 2));
  runs.front() = made;
  EXPECT_THAT(runs_in(runs), ElementsAre(0, 1, 3, 3, 4, 4)) << "two launches of each, so that they weigh alike";
}

// Runs whose report alone was kept, and a case whose latency was measured in other launches than its throughput.
TEST(Baseline, says_of_which_run_a_launch_without_samples_is) {
  std::vector<reports::Run> runs;
  for (int i = 0; i < 3; ++i) {
    reports::Run& run = runs.emplace_back(run_of("day" + std::to_string(i), 1));
    run.report.results.resize(2);
    for (Result& each : run.report.results) {
      Measurement& m = each.measurement;
      m.launches_s = {m.throughput->summary.median, m.throughput->summary.median * 1.0001};
    }
  }
  Measurement& first = runs[0].report.results[0].measurement;
  first.throughput.swap(first.latency);
  first.launches_s.swap(first.latency_launches_s);
  runs[1].report.results.pop_back();
  const reports::Run made = read_again(make_baseline(runs, "2026-11-30T00:00:00Z"), "2026-11-28T00:00:00Z");
  const Side side = make_side("BASE", {&made, 1});
  const auto told = [](const std::vector<Launch>& launches) {
    std::vector<std::pair<int, int>> all;
    for (const Launch& launch : launches) all.emplace_back(launch.run, launch.number);
    return all;
  };
  using testing::Pair;
  ASSERT_THAT(side.observations, SizeIs(2));
  EXPECT_THAT(told(side.observations[0].latency), ElementsAre(Pair(0, 0), Pair(0, 1)));
  EXPECT_THAT(told(side.observations[0].throughput), ElementsAre(Pair(1, 2), Pair(1, 3), Pair(2, 4), Pair(2, 5)));
  EXPECT_THAT(told(side.observations[1].throughput), ElementsAre(Pair(0, 0), Pair(0, 1), Pair(2, 4), Pair(2, 5)))
      << "the same numbers are the same launches";
  reports::Run alone = made;
  EXPECT_EQ(to_json(alone.report).at("measurements").at(0).at("launch_runs"), nlohmann::json({1, 1, 2, 2}));
  alone.journal.clear();
  const Side without_journal = make_side("BASE", {&alone, 1});
  EXPECT_THAT(told(without_journal.observations[0].latency), ElementsAre(Pair(0, 0), Pair(0, 1)));
  EXPECT_THAT(told(without_journal.observations[0].throughput),
              ElementsAre(Pair(1, 0), Pair(1, 1), Pair(2, 2), Pair(2, 3)));
}

// Runs of nights whose figures differ, though all may have the start of one.
TEST(Baseline, says_which_runs_it_holds_and_can_be_without_one) {
  std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1.001), run_of("day2", 1.002)};
  const std::string begin =
      fmt::format("continues the run of {} (out/c/1); 3 results are of that run", "2026-11-19T00");
  runs[1].report.run.remarks = {begin};
  runs[1].report.results.pop_back();
  const Baseline baseline = make_baseline(runs, "2026-11-30T00:00:00Z");
  reports::Run made = read_again(baseline, runs[0].report.run.started);
  EXPECT_THAT(to_json(made.report).at("run").at("held"), SizeIs(3));
  const auto held = [&](const reports::Run& run) {
    return held_launches_of(run.report, identity_of(run), made.report);
  };
  for (std::size_t i = 0; i < 3; ++i) EXPECT_THAT(held(runs[i]), ElementsAre(i));
  EXPECT_THAT(held(run_of("day0", 1.0001)), SizeIs(0)) << "other figures";
  reports::Run continued = run_of("day9", 1);
  continued.report.run.started = "2026-11-19T00";
  EXPECT_THAT(held(continued), ElementsAre(1)) << "a run that one of them continues";
  continued.report.run.started = "2026-11-29T00:00:00Z";
  continued.report.run.remarks = {fmt::format("continues the run of {} (out/c/1)", runs[2].report.run.started)};
  EXPECT_THAT(held(continued), ElementsAre(2)) << "a run that continues one of them";
  EXPECT_THAT(held(made), ElementsAre(0, 1, 2));

  const std::vector<reports::Run> more{made, run_of("day3", 1)};
  EXPECT_THAT(make_baseline(more, "2026-11-30T00:00:00Z").report.run.held, SizeIs(4)) << "a baseline made of one";

  const std::vector<std::size_t> first_and_last{0, 2};
  remove_held(first_and_last, made);
  const Side side = make_side("BASE", {&made, 1});
  ASSERT_THAT(side.observations, SizeIs(2)) << "the largest size was in the others only";
  for (const Observation& each : side.observations) {
    ASSERT_THAT(each.throughput, SizeIs(1));
    EXPECT_NEAR(each.throughput[0].median_s, 1.001 * ideal_time(each.measured_case.bytes), 1e-9);
  }
}

TEST(Baseline, numbers_its_launches_without_gaps) {
  std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1)};
  const double ideal = ideal_time(MiB(64));
  for (reports::Run& run : runs) {
    run.report.results.resize(1);
    run.report.results.front().measurement.launches_s = {ideal, ideal, ideal};
    for (const int launch : {0, 1, 3}) run.journal.push_back(line_of(run, launch, ideal));
  }
  std::vector<int> numbers;
  for (const Result& line : make_baseline(runs, "2026-11-30T00:00:00Z").journal)
    numbers.push_back(line.measurement.launch.value());
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(Sides, are_made_of_runs_that_weigh_alike) {
  std::vector<reports::Run> runs = ten_runs();
  for (Result& result : runs[2].report.results)
    result.measurement.launches_s = std::vector<double>(25, result.measurement.throughput->summary.median);
  const Side side = make_side("BASE", runs);
  EXPECT_THAT(side.observations.front().throughput, SizeIs(10));
  EXPECT_THAT(side.remarks, ElementsAre(HasSubstr("1 of the 25 launches of day2 count")));
  std::vector<reports::Run> alike(3, runs[2]);
  for (std::size_t i = 0; i < alike.size(); ++i)
    alike[i].report.run.started = fmt::format("2026-11-20T12:00:0{}Z", i);  // the same start is a copy
  EXPECT_THAT(make_side("BASE", alike).observations.front().throughput, SizeIs(75));
  EXPECT_THAT(make_side("BASE", alike).remarks, SizeIs(0));
}

// A report that is rendered beside its run has no samples. A log that is imported again may have its start since then.
TEST(Sides, count_the_copy_of_a_run_of_which_most_is_known) {
  reports::Run bare = run_of("day1", 1), whole = bare;
  whole.name = "whole";
  whole.journal.push_back(line_of(whole, 0, whole.report.results.front().measurement.launches_s.front()));
  EXPECT_THAT(why_repeated({{bare, whole}}), ElementsAre("it is a copy of whole", ""));
  EXPECT_THAT(why_repeated({{whole, bare}}), ElementsAre("", "it is a copy of whole"));
  reports::Run undated = bare, by_log = bare, stated = bare;
  for (reports::Run* const run : {&undated, &by_log, &stated}) run->report.provenance = "imported";
  undated.report.run.started = "";
  by_log.report.run.remarks = {std::string(started_by_log) + "2026-11-21T00:00:00Z"};
  stated.name = "stated";
  EXPECT_THAT(why_repeated({{undated, by_log, stated}}),
              ElementsAre("it is a copy of day1", "it is a copy of stated", ""));
}

TEST(Sides, keep_the_figures_of_gpus_alone) {
  std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1)};
  runs[0].report.local_checks = {{{"bf16_tflop_per_s", 700}}};
  runs[1].report.local_checks = {{{"bf16_tflop_per_s", 600}}};
  const std::span<const reports::Run> all = runs;
  const auto remarks = [&] { return compare(make_side("BASE", all.first(1)), make_side("NEW", all.last(1))).remarks; };
  EXPECT_THAT(remarks(), testing::Contains(HasSubstr("each GPU, bf16 matrix products: 600 instead of 700")));
  for (const std::size_t i : {0, 1})
    runs[i].report.compute_checks = {{.digests = {{i ? "bf16 256" : "bf16 8192", ""}}}};
  EXPECT_THAT(remarks(), testing::Not(testing::Contains(HasSubstr("each GPU"))));
}

TEST(Sides, count_no_launches_of_runs_without_the_arm) {
  std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1)};
  for (Result& result : runs[0].report.results)
    result.measurement.launches_s = std::vector<double>(7, result.measurement.throughput->summary.median);
  runs[1].report.results.clear();
  const Side side = make_side("BASE", runs);
  EXPECT_THAT(side.observations.front().throughput, SizeIs(7));
  EXPECT_THAT(side.remarks, SizeIs(0));
}

TEST(Sides, without_measurements_name_no_arm_that_they_lack) {
  reports::Run run = run_of("day1", 1);
  for (Result& each : run.report.results) each.measurement.measured_case.for_parts = true;
  try {
    make_side("BASE", {&run, 1});
    FAIL();
  } catch (const UsageError& problem) {
    EXPECT_THAT(problem.what(), HasSubstr("nothing of the arm 'default'; it has: no measurements"));
  }
}

TEST(Sides, count_launches_that_were_made_and_not_those_planned) {
  std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1), run_of("day2", 1)};
  for (reports::Run& run : runs) {
    run.report.run.launches = 4;
    for (Result& result : run.report.results) result.measurement.launches_s = {1, 2, 3, 4};
  }
  runs[0].report.run.launches = 10;  // and time for four
  for (Result& result : runs[2].report.results) {
    result.measurement.outcome = Outcome::skipped;
    result.measurement.throughput.reset();
    result.measurement.launches_s.clear();
  }
  const Side side = make_side("BASE", runs);
  std::vector<double> medians;
  std::vector<int> numbers;
  for (const Launch& launch : side.observations.front().throughput) {
    medians.push_back(launch.median_s);
    numbers.push_back(launch.number);
  }
  EXPECT_THAT(medians, ElementsAre(1, 2, 3, 4, 1, 2, 3, 4));
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(side.remarks, SizeIs(0));
}

TEST(Sides, number_launches_after_a_gap_apart_from_those_of_the_next_run) {
  std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1)};
  for (reports::Run& run : runs) run.report.results.resize(1);
  runs[0].report.results.front().measurement.launches_s = {1e-3, 2e-3, 3e-3};
  runs[1].report.results.front().measurement.launches_s = {1e-3, 2e-3, 3e-3, 4e-3};
  runs[0].journal = {line_of(runs[0], 0, 1e-3), line_of(runs[0], 1, 2e-3), line_of(runs[0], 3, 3e-3)};
  std::vector<int> numbers;
  const Side side = make_side("BASE", runs);
  for (const Launch& launch : side.observations.front().throughput) numbers.push_back(launch.number);
  EXPECT_THAT(numbers, ElementsAre(0, 1, 3, 4, 5, 6, 7));
}

TEST(Sides, take_launches_of_longer_runs_in_even_distances) {
  std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1), run_of("day2", 1)};
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (Result& result : runs[i].report.results) {
      result.measurement.launches_s.clear();
      for (int launch = 0; launch < (i == 1 ? 9 : 3); ++launch) result.measurement.launches_s.push_back(1 + launch);
    }
  std::vector<double> medians;
  const Side side = make_side("BASE", runs);
  for (const Launch& launch : side.observations.front().throughput) medians.push_back(launch.median_s);
  EXPECT_THAT(medians, ElementsAre(1, 2, 3, 1, 4, 7, 1, 2, 3));
}

// The budget of a run of ten launches had time for the largest size in launches 2 to 4 only.
TEST(Sides, have_the_time_of_slow_samples) {
  reports::Run run = run_of("day0", 1);
  Verdict& verdict = run.report.results[1].verdict;
  verdict.fraction = 0.9;
  verdict.mean_fraction = 0.6;
  const Side side = make_side("BASE", {&run, 1});
  EXPECT_THAT(side.observations[0].mean_times_s, SizeIs(0));
  EXPECT_NEAR(side.observations[1].mean_times_s.at(0), 1.5 * ideal_time(MiB(256)), 1e-9);
}

TEST(Sides, keep_cases_that_other_launches_of_a_longer_run_measured) {
  std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1)};
  runs[0].report.results.resize(2);
  runs[0].report.results[0].measurement.launches_s.assign(10, 1e-3);
  runs[0].report.results[1].measurement.launches_s = {2e-3, 3e-3, 4e-3};
  for (int launch = 2; launch < 5; ++launch) {
    Result line = line_of(runs[0], launch, 1e-3 * launch);
    line.measurement.measured_case = runs[0].report.results[1].measurement.measured_case;
    runs[0].journal.push_back(std::move(line));
  }
  runs[1].report.results.resize(1);
  runs[1].report.results[0].measurement.launches_s = {1e-3, 1e-3};
  const auto numbers_of = [&](std::size_t which) {
    std::vector<int> numbers;
    const Side side = make_side("BASE", runs);
    for (const Launch& launch : side.observations[which].throughput) numbers.push_back(launch.number);
    return numbers;
  };
  EXPECT_THAT(numbers_of(0), ElementsAre(0, 5, 10, 11));
  EXPECT_THAT(numbers_of(1), ElementsAre(2, 4)) << "the second run has none of it";
  runs[1].report.status = "partial";
  EXPECT_THAT(numbers_of(0), SizeIs(12)) << "a run that was killed says nothing of how many launches are usual";
  EXPECT_THAT(numbers_of(1), ElementsAre(2, 3, 4));
}

TEST(Runs, of_no_time_or_of_the_future_are_named_and_refused) {
  for (const char* started : {"zzzz", "2026-11-26", "2026-12-02T00:00:00Z", "2026-11-26T00:00:00Zz"}) {
    std::vector<reports::Run> runs{run_of("day0", 1), run_of("day1", 1)};
    runs[1].report.run.started = started;
    EXPECT_THAT(problem_of(runs), testing::AllOf(HasSubstr("'day1'"), HasSubstr(started))) << started;
  }
}

TEST(Runs, are_ordered_by_their_times_and_imports_come_first) {
  std::vector<reports::Run> runs{run_of("day2", 1), run_of("day1", 1), run_of("day3", 1)};
  runs[2].report.run.started = "";
  order_by_launch(runs, "2026-11-30T00:00:00Z");
  EXPECT_EQ(runs[0].name + runs[1].name + runs[2].name, "day3day1day2");
}

}  // namespace
}  // namespace p5::reports
