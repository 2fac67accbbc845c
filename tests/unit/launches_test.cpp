// Launches: order, budget, combination, and failures that cost only their own launch.
#include "bench/measure/launches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "bench/backends/backends.hpp"
#include "bench/base/error.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/plan.hpp"

namespace p5 {
namespace {

TEST(Turns, alternate_so_that_drift_hits_both_arms) {
  EXPECT_EQ(launch_order(2, 3), (std::vector<ArmLaunch>{{0, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {1, 2}}));
  EXPECT_EQ(launch_order(1, 3), (std::vector<ArmLaunch>{{0, 0}, {0, 1}, {0, 2}}));
  // A drift that grows by one from launch to launch affects both arms equally in an even number of launches.
  double drift[2] = {};
  const std::vector<ArmLaunch> turns = launch_order(2, 8);
  for (std::size_t i = 0; i < turns.size(); ++i) drift[turns[i].arm] += static_cast<double>(i);
  EXPECT_DOUBLE_EQ(drift[0], drift[1]);
}

// All-reduces of the whole job, and pairs in rounds that several cases share.
std::vector<Case> cases_of_both_kinds() {
  std::vector<Case> cases(12);
  for (std::size_t at = 0; at < cases.size(); ++at)
    cases[at].rounds = std::make_shared<std::vector<Round>>(
        at < 6 ? std::vector<Round>{{{0, 1, 2, 3}}}
               : std::vector<Round>{{{0, 1}, {2, 3}}, {{1, 0}, {3, 2}}, {{0, 2}, {1, 3}}});
  return cases;
}

TEST(Sittings, are_in_another_order_in_each_launch) {
  const std::vector<Case> cases = cases_of_both_kinds();
  const auto order = [&](std::uint64_t seed, int launch) {
    std::vector<std::pair<std::size_t, int>> repetitions;
    for (const CommunicatorBatch& batch : shuffled(batches_of(cases, 4), seed, launch))
      for (const Repetition& repetition : batch.repetitions) repetitions.emplace_back(repetition.at, repetition.round);
    return repetitions;
  };
  std::set<std::vector<std::pair<std::size_t, int>>> orders;
  for (int launch = 0; launch < 5; ++launch) {
    auto repetitions = order(7, launch);
    EXPECT_EQ(repetitions, order(7, launch));
    orders.insert(repetitions);
    std::ranges::sort(repetitions);
    EXPECT_EQ(std::set(repetitions.begin(), repetitions.end()).size(), 6u + 6 * 3) << "each round of each case once";
  }
  EXPECT_EQ(orders.size(), 5u);
  EXPECT_NE(order(7, 1), order(8, 1));
}

TEST(Sittings, that_are_not_shuffled_keep_the_order_of_rounds) {
  std::vector<int> rounds;
  for (const CommunicatorBatch& batch : batches_of(cases_of_both_kinds(), 4))
    for (const Repetition& repetition : batch.repetitions)
      if (repetition.at == 6) rounds.push_back(repetition.round);
  EXPECT_EQ(rounds, (std::vector<int>{0, 1, 2}));
}

TEST(Sittings, hold_together_what_needs_the_same_communicators_and_nothing_else) {
  std::size_t alone = 0, together = 0;
  for (const CommunicatorBatch& batch : shuffled(batches_of(cases_of_both_kinds(), 4), 7, 0)) {
    if (batch.communicators.empty()) {
      EXPECT_EQ(batch.repetitions.size(), 1u);
      ++alone;
      continue;
    }
    ++together;
    const bool within = batch.communicators == Round{{0, 1}, {2, 3}};
    EXPECT_EQ(batch.repetitions.size(), within ? 12u : 6u) << "both directions have the same communicators";
    for (const Repetition& repetition : batch.repetitions) EXPECT_EQ(repetition.round < 2, within);
  }
  EXPECT_EQ(alone, 6u);
  EXPECT_EQ(together, 2u);
}

// Two cases of pairs of four ranks, in their own communicators or in those of larger groups.
std::size_t times_formed(std::shared_ptr<const Round> communicators) {
  std::vector<Case> cases(2);
  for (Case& c : cases) {
    c.rounds =
        std::make_shared<std::vector<Round>>(std::vector<Round>{{{0, 1}, {2, 3}}, {{0, 2}, {1, 3}}, {{0, 3}, {1, 2}}});
    c.communicators = communicators;
  }
  std::size_t times = 0;
  const std::vector<CommunicatorBatch> batches = batches_of(cases, 4);
  for (std::size_t i = 0; i < batches.size(); ++i) times += batches[i].forms_after(i > 0 ? &batches[i - 1] : nullptr);
  // Where nothing is to be made between them, all pairs come once before any comes again.
  EXPECT_EQ(batches.size(), communicators ? 6u : 3u);
  EXPECT_EQ(batches[1].repetitions.front(), (Repetition{0, 1}));
  return times;
}

TEST(Sittings, that_share_communicators_form_them_once) {
  EXPECT_EQ(times_formed(nullptr), 3u);
  EXPECT_EQ(times_formed(std::make_shared<const Round>(Round{{0, 1, 2, 3}})), 0u) << "the job's";
  EXPECT_EQ(times_formed(std::make_shared<const Round>(Round{{3, 1}, {0, 2}})), 1u);
}

TEST(GivesWay, a_further_round_when_what_is_left_is_only_enough_for_the_first_rounds_of_others) {
  // Cases 0 and 1 were measured, in twice the predicted time; 2 and 3 follow, 2 in two rounds.
  const std::vector<CostedRepetition> repetitions{{0, 1}, {1, 1}, {0, 1}, {2, 3}, {2, 3}, {3, 2}};
  const std::vector<bool> repeated{true, true, false, false};
  EXPECT_TRUE(is_deferred(repetitions, 2, repeated, {4}, {9.9})) << "(3 + 2) x 2 seconds are needed";
  EXPECT_FALSE(is_deferred(repetitions, 2, repeated, {4}, {10.1}));
  EXPECT_FALSE(is_deferred(repetitions, 3, repeated, {4}, {0.1})) << "a first round itself";
  EXPECT_FALSE(is_deferred(repetitions, 2, {true, true, true, true}, {4}, {0.1})) << "there is nothing to give way to";
}

TEST(GivesWay, a_further_round_at_the_pace_of_those_that_ran) {
  // Ten rounds of case 0 took 100 s, thirty gave way, and the first round of case 1 needs 80 s of the 30 s left.
  std::vector<CostedRepetition> repetitions(10, {0, 1});
  repetitions.insert(repetitions.end(), 30, {0, 1, false});
  repetitions.insert(repetitions.end(), {{0, 1, false}, {1, 8, false}});
  EXPECT_TRUE(is_deferred(repetitions, 40, {true, false}, {100}, {30}));
  EXPECT_TRUE(is_deferred(repetitions, 40, {true, false}, {100}, {79.9}));
  EXPECT_FALSE(is_deferred(repetitions, 40, {true, false}, {100}, {80.1}));
}

TEST(ShareOfLaunch, leaves_the_others_their_start_and_their_part) {
  EXPECT_DOUBLE_EQ(launch_budget({100}, {0}, {1}, 0).count, 100);
  // 9 more launches with 2 s to start: 82 s are left for ten times the cases.
  EXPECT_DOUBLE_EQ(launch_budget({100}, {2}, {1}, 9).count, 8.2);
  // Only 3 more fit besides this launch's least: (10 - 1) / 3.
  EXPECT_DOUBLE_EQ(launch_budget({10}, {2}, {1}, 9).count, (10 - 3 * 2.0) / 4);
  // No other launch fits: this one gets all.
  EXPECT_DOUBLE_EQ(launch_budget({2}, {2}, {1}, 9).count, 2);
  EXPECT_LE(launch_budget({-1}, {2}, {1}, 9).count, 0);
}

Series series_of(std::vector<double> samples) {
  Series series;
  series.summary = summarize(samples);
  series.samples = std::move(samples);
  series.stopped_because = "interval within 1 %";
  return series;
}

Measurement launch_of(int launch, std::vector<double> samples) {
  Measurement m;
  m.measured_case.collective = &find_collective("all_reduce");
  m.launch = launch;
  m.throughput = series_of(std::move(samples));
  m.launches_s = {m.throughput->summary.median};
  m.slowest_rank = launch % 2;
  m.wall_s = 1;
  return m;
}

Measurement failed_launch(int launch, const std::string& why) {
  Measurement m = launch_of(launch, {1});
  m.outcome = Outcome::failed;
  m.because = why;
  m.failed_in = Phase::sample;
  m.failed_rank = 3;
  m.throughput.reset();
  m.launches_s.clear();
  return m;
}

Measurement combine(const std::vector<Measurement>& launches, int planned) {
  CombinedLaunches all;
  for (const Measurement& m : launches) all.add(m);
  return all.combined(planned);
}

TEST(Combine, takes_the_median_of_the_launches_medians) {
  // The samples of one launch are many and far off, but must not weigh more than those of any other.
  std::vector<Measurement> launches{launch_of(0, {1, 1, 1}), launch_of(1, {2, 2, 2}),
                                    launch_of(2, std::vector<double>(100, 9.0))};
  const Measurement whole = combine(launches, 3);
  EXPECT_EQ(whole.outcome, Outcome::measured);
  EXPECT_EQ(whole.launch, std::nullopt);
  EXPECT_EQ(whole.launches_s, (std::vector<double>{1, 2, 9}));
  EXPECT_DOUBLE_EQ(whole.throughput->summary.median, 2);
  EXPECT_EQ(whole.throughput->summary.samples, 106);
  EXPECT_DOUBLE_EQ(whole.throughput->summary.min, 1);
  EXPECT_DOUBLE_EQ(whole.throughput->summary.max, 9);
  EXPECT_EQ(whole.throughput->stopped_because, "3 launches");
  EXPECT_EQ(whole.slowest_rank, 0);
  EXPECT_DOUBLE_EQ(whole.wall_s, 3);
}

TEST(Combine, has_an_interval_only_from_launches) {
  std::vector<Measurement> launches;
  for (int i = 0; i < 5; ++i) launches.push_back(launch_of(i, std::vector<double>(50, 1 + 0.01 * i)));
  EXPECT_EQ(combine(launches, 7).throughput->summary.interval, std::nullopt) << "250 samples, but 5 launches";
  for (int i = 5; i < 7; ++i) launches.push_back(launch_of(i, std::vector<double>(50, 1 + 0.01 * i)));
  const std::optional<Interval> interval = combine(launches, 7).throughput->summary.interval;
  ASSERT_TRUE(interval);
  EXPECT_EQ(*interval, *median_interval({1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06}));
}

TEST(Combine, of_results_without_samples_has_the_extremes_that_are_known) {
  std::vector<Measurement> launches{launch_of(0, {1, 2, 3}), launch_of(1, {4, 5, 6})};
  for (Measurement& m : launches) {
    Concurrency& concurrency = m.concurrency.emplace();
    concurrency.operations.resize(2);
    for_each_series(concurrency, [&](Series& series) { series = *m.throughput; });
  }
  EXPECT_EQ(combine(launches, 2).concurrency->together.summary.samples, 6);
  for (Measurement& m : launches) for_each_series(*m.concurrency, [](Series& series) { series.samples.clear(); });
  const Summary together = combine(launches, 2).concurrency->together.summary;
  EXPECT_EQ(together.samples, 3);
  EXPECT_DOUBLE_EQ(together.median, 3.5);
  EXPECT_DOUBLE_EQ(together.min, 1);
  EXPECT_DOUBLE_EQ(together.max, 5);
}

TEST(Combine, of_one_planned_launch_is_that_launch) {
  const Measurement one = combine({launch_of(0, {1, 2, 3, 4, 5, 6})}, 1);
  EXPECT_EQ(one.throughput->stopped_because, "interval within 1 %");
  EXPECT_TRUE(one.throughput->summary.interval);
}

TEST(Combine, fails_with_any_launch_and_keeps_what_the_others_measured) {
  const Measurement whole = combine({launch_of(0, {1}), failed_launch(1, "it died"), launch_of(2, {3})}, 5);
  EXPECT_EQ(whole.outcome, Outcome::failed);
  EXPECT_EQ(whole.because, "in launch 2 of 5: it died");
  EXPECT_EQ(whole.failed_in, Phase::sample);
  EXPECT_EQ(whole.failed_rank, 3);
  EXPECT_EQ(whole.launches_s, (std::vector<double>{1, 3}));
  EXPECT_DOUBLE_EQ(whole.throughput->summary.median, 2);
  EXPECT_EQ(combine({failed_launch(0, "x"), failed_launch(3, "y")}, 5).because, "in launches 1, 4 of 5: x");
}

TEST(Combine, adds_wrong_elements_and_passes_over_what_was_skipped) {
  Measurement skipped = failed_launch(0, "budget"), wrong = launch_of(1, {2});
  skipped.outcome = Outcome::skipped;
  wrong.wrong_elements = 4;
  wrong.first_wrong = WrongElement{.rank = 2, .wanted = "1", .got = "2"};
  const Measurement whole = combine({skipped, wrong, wrong}, 3);
  EXPECT_EQ(whole.outcome, Outcome::measured);
  EXPECT_EQ(whole.wrong_elements, 8u);
  EXPECT_EQ(whole.first_wrong->rank, 2);
  EXPECT_EQ(whole.because, "");
  EXPECT_EQ(combine({skipped, skipped}, 2).outcome, Outcome::skipped);
}

TEST(Combine, adds_wrong_elements_of_launches_that_failed) {
  Measurement failed = failed_launch(1, "it died");
  failed.wrong_elements = 4;
  failed.first_wrong = WrongElement{.rank = 2, .wanted = "1", .got = "2"};
  const Measurement whole = combine({launch_of(0, {1}), failed}, 3);
  EXPECT_EQ(whole.outcome, Outcome::failed);
  EXPECT_EQ(whole.wrong_elements, 4u);
  ASSERT_TRUE(whole.first_wrong);
  EXPECT_EQ(whole.first_wrong->rank, 2);
}

TEST(Combine, comes_to_the_same_whether_looked_at_often_or_once) {
  CombinedLaunches often, once;
  for (int i = 0; i < 40; ++i) {
    std::vector<double> samples;
    for (int j = 0; j < 7; ++j) samples.push_back(1 + (i * 31 + j * 17) % 23);
    Measurement m = launch_of(i, samples);
    m.groups = {{{0, 1}, {samples[0]}}, {{1, 0}, {samples[1]}}};
    if (i % 2 == 1) std::swap(m.groups[0], m.groups[1]);
    if (i == 5) m.groups.push_back({{2, 3}, {1.5}});
    often.add(m);
    once.add(m);
    often.combined(40);
  }
  const Measurement a = often.combined(40), b = once.combined(40);
  EXPECT_EQ(a.launches_s, b.launches_s);
  EXPECT_EQ(a.throughput->summary.samples, 280);
  for (const Measurement* m : {&a, &b}) {
    EXPECT_EQ(m->throughput->summary.p99, b.throughput->summary.p99);
    EXPECT_EQ(m->throughput->summary.interval, median_interval(b.launches_s));
    EXPECT_DOUBLE_EQ(m->throughput->summary.median, median(b.launches_s));
    ASSERT_EQ(m->groups.size(), 3u);
    EXPECT_EQ(m->groups[2].group, (Group{2, 3}));
    EXPECT_DOUBLE_EQ(m->groups[2].median.count, 1.5);
    EXPECT_EQ(m->groups[0].median.count, b.groups[0].median.count);
  }
}

TEST(Combine, lists_launches_by_number_whatever_order_they_came_in) {
  // A continued run measures what the run before skipped in launch 2 after the kept launch 3.
  CombinedLaunches all;
  for (const int launch : {0, 2, 1, 3}) all.add(launch_of(launch, {1.0 + launch}));
  EXPECT_EQ(all.combined(4).launches_s, (std::vector<double>{1, 2, 3, 4}));
  std::vector<int> numbers;
  for (const LaunchMedians& each : all.medians()) numbers.push_back(each.launch);
  EXPECT_EQ(numbers, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(combine({failed_launch(3, "y"), failed_launch(0, "x")}, 5).because, "in launches 1, 4 of 5: y");
}

TEST(Combine, gives_pairs_their_median_over_launches) {
  std::vector<Measurement> launches;
  for (int i = 0; i < 3; ++i) {
    launches.push_back(launch_of(i, {1.0 + i}));
    launches.back().measured_case.collective = &find_collective("p2p");
    launches.back().groups = {{{0, 1}, {1.0 + i}}, {{1, 0}, {5.0 - i}}};
    launches.back().slowest_group = i == 0 ? Group{0, 1} : Group{1, 0};
  }
  const Measurement whole = combine(launches, 3);
  ASSERT_EQ(whole.groups.size(), 2u);
  EXPECT_DOUBLE_EQ(whole.groups[0].median.count, 2);
  EXPECT_DOUBLE_EQ(whole.groups[1].median.count, 4);
  EXPECT_EQ(whole.slowest_group, (Group{1, 0}));
}

// A pair whose launches have `counts` samples, of 2 s from the launch `first_slow` on, before of 1 s.
GroupResult pair_over_launches(const std::vector<std::size_t>& counts, std::size_t first_slow) {
  CombinedLaunches all;
  for (std::size_t launch = 0; launch < counts.size(); ++launch) {
    const double time = launch < first_slow ? 1 : 2;
    Measurement m = launch_of(static_cast<int>(launch), {time});
    m.groups = {{{0, 8}, {time}, std::vector<float>(counts[launch], static_cast<float>(time))}};
    all.add(m);
  }
  return all.combined(static_cast<int>(counts.size())).groups.at(0);
}

TEST(Combine, keeps_samples_of_a_pair_from_all_launches_alike) {
  // Every fourth of 260, of which 143 are slow.
  const GroupResult later = pair_over_launches(std::vector<std::size_t>(20, 13), 9);
  EXPECT_DOUBLE_EQ(later.median.count, 2);
  EXPECT_EQ(later.samples.size(), 65u);
  EXPECT_EQ(std::ranges::count(later.samples, 2.0f), 35);
  // Every second of 156.
  const GroupResult noisy = pair_over_launches({130, 13, 13}, 1);
  EXPECT_EQ(noisy.samples.size(), 78u);
  EXPECT_EQ(std::ranges::count(noisy.samples, 2.0f), 13);
  EXPECT_EQ(pair_over_launches({100, 28}, 1).samples.size(), 128u) << "all";
}

// ---- run_launches, on a scripted backend

// The simulator, with ranks that join and may fail to, and cases that may fail.
class Troubled final : public Backend {
 public:
  explicit Troubled(std::unique_ptr<Backend> model) : model_(std::move(model)) {}
  std::set<int> not_starting, failing;  // launches, from 0
  int launch = 0, opened = 0;

  std::unique_ptr<Session> open(const Case& c, int round) override {
    ++opened;
    if (failing.contains(launch) && c.bytes == Bytes{64}) throw CaseError("told to fail", 1);
    return model_->open(c, round);
  }
  Bytes memory_per_rank(const Case& c) const override { return model_->memory_per_rank(c); }
  CostModel cost() const override { return model_->cost(); }
  bool recovers() const override { return true; }
  bool relaunches() const override { return true; }
  bool joined() const override { return joined_; }
  void join(const RendezvousGroups&, const std::string&) override {
    if (not_starting.contains(launch)) throw CaseError("no library", 0);
    joined_ = true;
  }
  void abandon() override {
    model_->abandon();
    joined_ = false;
    ++launch;
  }
  Environment context() const override { return {{"nccl", "NCCL 1.2"}}; }

 private:
  std::unique_ptr<Backend> model_;
  bool joined_ = false;
};

class CaseMonitor final : public Observer {
 public:
  void repetition_started(const Case&, const RunProgress& standing) override { standings.push_back(standing); }
  void repetition_finished(const Measurement&, bool) override {}
  void case_finished(const Measurement& m, bool) override { finished.push_back(m); }
  void launch_started(const Arm& arm, const std::vector<Environment>&) override { started += arm.name; }
  void launch_failed(const Arm& arm, const std::string& why) override { problems.push_back(arm.name + ": " + why); }
  void remark(const std::string& text) override { remarks.push_back(text); }
  std::vector<RunProgress> standings;
  std::vector<Measurement> finished;
  std::string started;
  std::vector<std::string> problems, remarks;
};

struct Job {
  SimMachine machine{
      .gpus = 2, .link = {100}, .nic = {50}, .link_latency = {1e-6}, .nic_latency = {1e-5}, .faults = {}};
  std::unique_ptr<Backend> model = make_sim_backend(machine);
  Troubled a{model->arm({})}, b{model->arm({})};
  RunnerOptions options{};
  CaseMonitor case_monitor{};
  std::vector<Case> cases{};

  Job() {
    options.launches = 3;
    Options what;
    what.collectives = {"all_reduce"};
    what.sizes = {{8}, {64}, {1024}};
    what.launches = 6;  // one repetition per launch
    cases = make_plan(what, {.node_of_rank = {0, 0}, .memory_of_node = {}}, *model, "sim").cases;
  }
  void run() {
    const auto control = make_solo_control_plane(2);
    run_launches(*control, {{.name = "a", .backend = &a}, {.name = "b", .backend = &b}}, cases, options, case_monitor);
  }
  int count(const std::string& arm, Outcome outcome) const {
    return static_cast<int>(std::ranges::count_if(case_monitor.finished, [&](const Measurement& m) {
      return m.measured_case.arm == arm && m.outcome == outcome;
    }));
  }
};

TEST(RunLaunches, measures_each_case_in_each_launch_of_each_arm) {
  Job job;
  job.run();
  EXPECT_EQ(job.case_monitor.started, "abbaab");
  std::set<std::tuple<std::string, int, std::uint64_t>> seen;
  for (const Measurement& m : job.case_monitor.finished)
    seen.emplace(m.measured_case.arm, m.launch.value(), m.measured_case.bytes.count);
  EXPECT_EQ(seen.size(), 18u);
  EXPECT_EQ(job.case_monitor.finished.size(), 18u);
  std::set<std::size_t> numbers;
  for (const RunProgress& each : job.case_monitor.standings) numbers.insert(each.number);
  EXPECT_EQ(numbers.size(), 6u) << "of three cases in two arms";
  EXPECT_EQ(job.case_monitor.standings.back().index, 17);
}

TEST(RunLaunches, launches_of_the_model_differ_and_arms_are_not_alike) {
  Job job;
  job.run();
  std::set<double> medians;
  for (const Measurement& m : job.case_monitor.finished)
    if (m.measured_case.bytes == Bytes{8}) medians.insert(m.throughput->summary.median);
  EXPECT_EQ(medians.size(), 6u);
}

TEST(RunLaunches, a_case_that_fails_in_one_launch_costs_that_alone) {
  Job job;
  job.b.failing = {1};
  job.run();
  EXPECT_EQ(job.count("a", Outcome::measured), 9);
  EXPECT_EQ(job.count("b", Outcome::measured), 8);
  EXPECT_EQ(job.count("b", Outcome::failed), 1);
}

TEST(RunLaunches, a_case_that_always_fails_is_not_tried_for_ever) {
  Job job;
  job.options.launches = 6;
  job.b.failing = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  job.run();
  EXPECT_EQ(job.count("b", Outcome::failed), 2);
  EXPECT_EQ(job.count("b", Outcome::skipped), 4);
  EXPECT_EQ(job.count("b", Outcome::measured), 12);
}

TEST(RunLaunches, an_arm_that_does_not_start_is_given_up_and_the_others_figures_are_kept) {
  Job job;
  job.b.not_starting = {0, 1, 2, 3, 4, 5};
  job.run();
  EXPECT_EQ(job.count("a", Outcome::measured), 3) << "one launch: there is nothing to compare more with";
  EXPECT_EQ(job.count("b", Outcome::failed), 3);
  EXPECT_EQ(job.b.opened, 0);
  EXPECT_EQ(job.case_monitor.problems, (std::vector<std::string>{"b: it did not start: rank 0: no library"}));
  const auto found = std::ranges::find(job.case_monitor.finished, Outcome::failed, &Measurement::outcome);
  EXPECT_EQ(found->failed_in, Phase::open);
  EXPECT_EQ(found->failed_rank, 0);
}

TEST(RunLaunches, the_first_arm_may_be_the_one_that_does_not_start) {
  Job job;
  job.a.not_starting = {0, 1, 2, 3, 4, 5};
  job.run();
  EXPECT_EQ(job.count("a", Outcome::failed), 3);
  EXPECT_EQ(job.count("b", Outcome::measured), 3);
}

TEST(RunLaunches, one_launch_that_does_not_start_costs_that_launch) {
  Job job;
  job.b.not_starting = {1};
  job.run();
  EXPECT_EQ(job.count("a", Outcome::measured), 9);
  EXPECT_EQ(job.count("b", Outcome::failed), 3);
  EXPECT_EQ(job.count("b", Outcome::measured), 6);
}

TEST(RunLaunches, what_the_leader_objects_to_is_not_measured) {
  Job job;
  job.options.objection = [](const Arm& arm, const std::vector<Environment>& of_ranks) {
    EXPECT_EQ(of_ranks.at(0).at("nccl"), "NCCL 1.2");
    return std::string(arm.name == "a" ? "mixed libraries" : "");
  };
  job.run();
  EXPECT_EQ(job.count("a", Outcome::failed), 3);
  EXPECT_EQ(job.a.opened, 0);
  EXPECT_EQ(job.case_monitor.problems.at(0), "a: it did not start: mixed libraries");
}

TEST(RunLaunches, what_is_hopeless_is_left_out_once_in_each_arm) {
  for (const double soak : {0.0, 60.0}) {
    Job job;
    job.options.skip_all_because = "there is no network";
    job.options.soak = {soak};
    job.run();
    EXPECT_EQ(job.count("a", Outcome::skipped), 3);
    EXPECT_EQ(job.count("b", Outcome::skipped), 3);
    EXPECT_EQ(job.case_monitor.finished.size(), 6u);
    EXPECT_EQ(job.case_monitor.finished.front().because, "there is no network");
    EXPECT_EQ(job.case_monitor.started, "");
    EXPECT_EQ(job.a.opened + job.b.opened, 0);
  }
}

TEST(RunLaunches, without_budget_the_arms_still_have_the_same_number_of_launches) {
  Job job;
  job.options.launches = 1000;
  job.options.budget = {0.05};
  job.run();
  EXPECT_GE(job.count("a", Outcome::measured), 3);
  EXPECT_EQ(job.case_monitor.finished.size() % 6, 0u);
  ASSERT_EQ(job.case_monitor.remarks.size(), 1u);
  EXPECT_NE(job.case_monitor.remarks[0].find("of 1000 launches per arm fit the budget"), std::string::npos);
}

}  // namespace
}  // namespace p5
