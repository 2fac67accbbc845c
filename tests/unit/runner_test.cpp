// The runner with ranks as threads: correct data passes, wrong data is found, and failures affect only their own round
// and are the same on all ranks.
#include "bench/measure/runner.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/control/control_planes.hpp"
#include "bench/model/plan.hpp"
#include "tests/fakes/thread_backend.hpp"

namespace p5 {
namespace {

using fakes::Trouble;
using Kind = Trouble::Kind;

class Recording final : public Observer {
 public:
  void repetition_started(const Case& c, const RunProgress&) override { started.push_back(describe(c)); }
  void repetition_finished(const Measurement& so_far, bool) override { unfinished.push_back(so_far); }
  void case_finished(const Measurement& m, bool) override { finished.push_back(m); }
  std::vector<std::string> started;
  std::vector<Measurement> finished, unfinished;
};

struct RunnerJob {
  int ranks = 2;
  Options options{};
  std::string planned_for = "mpi";
  RunnerOptions runner{};
  Trouble trouble{};
  std::string unavailable{};
  int slots = 4;
  double operation_s = 100e-6, opening_s = 0, spread = 0;
  // Afterwards
  int most_operations = 0, most_samples = 0, opened = 0;
  std::vector<Measurement> unfinished{};
  std::vector<std::string> started{};
  std::vector<std::vector<Outcome>> outcomes_of_rank{};

  RunnerJob() {
    options.sizes = {{8}};
    options.seed = 1;
    options.launches = 6;  // one repetition per launch in such a plan
  }

  std::vector<Measurement> run() {
    fakes::Threads threads(ranks);
    threads.trouble = trouble;
    threads.unavailable = unavailable;
    threads.slots = slots;
    threads.operation_s = operation_s;
    threads.opening_s = opening_s;
    threads.spread = spread;
    const JobFacts facts{.node_of_rank = NodeOfRank(static_cast<std::size_t>(ranks), 0), .memory_of_node = {}};
    const Plan plan = make_plan(options, facts, fakes::ThreadBackend(threads, 0), planned_for);
    Recording observer;
    outcomes_of_rank.assign(static_cast<std::size_t>(ranks), {});
    run_threads(ranks, [&](ControlPlane& control) {
      fakes::ThreadBackend backend(threads, control.participant());
      for (const Measurement& m : run_cases(control, backend, plan.cases, runner, observer))
        outcomes_of_rank[static_cast<std::size_t>(control.participant())].push_back(m.outcome);
    });
    most_operations = threads.most_operations;
    most_samples = threads.most_samples;
    opened = threads.opened;
    unfinished = observer.unfinished;
    started = observer.started;
    return observer.finished;
  }
};

RunnerJob all_types(int ranks, bool every_op) {
  RunnerJob job;
  job.ranks = ranks;
  job.runner.most_samples = 6;  // they are about data
  job.slots = 2;
  job.options.types.clear();
  for (const std::string& name : data_type_names()) job.options.types.push_back(parse_data_type(name));
  job.options.ops = {ReduceOp::sum, ReduceOp::avg};
  if (every_op)
    job.options.ops = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg, ReduceOp::mulsum};
  return job;
}

class Honest : public testing::TestWithParam<int> {};

TEST_P(Honest, is_verified_for_all_types_and_operations) {
  for (bool in_place : {false, true}) {
    RunnerJob job = all_types(GetParam(), GetParam() <= 3);
    job.options.collectives = collective_names();
    std::erase(job.options.collectives, "communicator");  // has no data
    std::erase_if(job.options.collectives, [](const std::string& each) { return find_collective(each).of_tokens; });
    if (!std::has_single_bit(static_cast<unsigned>(GetParam()))) std::erase(job.options.collectives, "hypercube");
    job.options.root = GetParam() - 1;
    job.options.in_place = in_place;
    const std::vector<Measurement> measurements = job.run();
    ASSERT_FALSE(measurements.empty());
    for (const Measurement& m : measurements) {
      EXPECT_EQ(m.outcome, Outcome::measured) << describe(m.measured_case) << ": " << m.because;
      EXPECT_EQ(m.wrong_elements, 0u) << describe(m.measured_case);
      EXPECT_DOUBLE_EQ(m.throughput->summary.median, job.operation_s);
      EXPECT_TRUE(m.latency.has_value());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runner, Honest, testing::Values(1, 2, 3, 4, 7));

TEST(Runner, verifies_traffic_by_a_matrix_for_all_types) {
  for (const char* traffic : {"zipf:1.1", "k-hot:1", "burst"}) {
    RunnerJob job = all_types(4, false);
    job.options.collectives = {"all_to_allv"};
    job.options.traffic = traffic;
    job.options.sizes = {{8}, {1000}, {65536}};
    std::vector<Measurement> measurements = job.run();
    EXPECT_EQ(measurements.size(), 3 * data_type_names().size());
    for (const Measurement& m : measurements) {
      EXPECT_EQ(m.outcome, Outcome::measured) << describe(m.measured_case) << ": " << m.because;
      EXPECT_EQ(m.wrong_elements, 0u) << describe(m.measured_case);
    }
    if (std::string_view(traffic) == "k-hot:1") continue;  // most ranks receive nothing
    for (const Kind kind : {Kind::one_element, Kind::one_bit, Kind::stale, Kind::nothing_written, Kind::guard}) {
      job.trouble = {.kind = kind, .rank = 2};
      for (const Measurement& m : job.run()) {
        ASSERT_TRUE(m.first_wrong) << describe(m.measured_case);
        EXPECT_EQ(m.first_wrong->rank, 2);
      }
    }
  }
}

struct Lie {
  Kind kind;
  bool in_place;
};

class Liar : public testing::TestWithParam<Lie> {};

TEST_P(Liar, is_found_at_every_size_type_and_operation) {
  const auto [kind, in_place] = GetParam();
  RunnerJob job = all_types(3, kind == Kind::one_element || kind == Kind::one_bit);
  // Each rank has at least three elements: in place, a rank's own input may be the minimum of one.
  job.options.sizes = {{72}, {4096}};
  job.options.in_place = in_place;
  job.trouble = {.kind = kind, .rank = 2};
  // The rank with wrong data is one that receives data: the root of a reduction, any other rank of a broadcast.
  job.options.collectives = {"all_reduce", "all_gather",  "reduce_scatter", "broadcast",
                             "all_to_all", "all_to_allv", "scatter",        "send_recv"};
  job.options.root = 1;
  std::vector<Measurement> measurements = job.run();
  job.options.collectives = {"reduce", "gather"};
  job.options.root = 2;
  for (Measurement& m : job.run()) measurements.push_back(std::move(m));
  job.options.collectives = {"hypercube"};
  job.options.sizes = {{96}};
  job.ranks = 4;
  for (Measurement& m : job.run()) measurements.push_back(std::move(m));
  for (const Measurement& m : measurements) {
    const std::string what = describe(m.measured_case);
    ASSERT_GT(m.wrong_elements, 0u) << what;
    ASSERT_TRUE(m.first_wrong) << what;
    EXPECT_EQ(m.first_wrong->rank, 2) << what;
    EXPECT_EQ(m.first_wrong->guard, kind == Kind::guard) << what;
    EXPECT_NE(m.first_wrong->wanted, m.first_wrong->got) << what;
    const std::uint64_t elements = m.measured_case.shape.output_elements;
    if (kind == Kind::one_element) {
      EXPECT_EQ(m.first_wrong->offset, elements / 2) << what;
    } else if (kind == Kind::one_bit) {
      EXPECT_EQ(m.first_wrong->offset, elements - 1) << what;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runner, Liar,
                         testing::Values(Lie{Kind::one_element, false}, Lie{Kind::one_bit, false},
                                         Lie{Kind::stale, false}, Lie{Kind::nothing_written, false},
                                         Lie{Kind::guard, false}, Lie{Kind::one_element, true},
                                         Lie{Kind::one_bit, true}, Lie{Kind::stale, true},
                                         Lie{Kind::nothing_written, true}, Lie{Kind::guard, true}));

TEST(Runner, finds_the_liar_among_pairs) {
  for (Kind kind : {Kind::one_element, Kind::one_bit, Kind::stale, Kind::nothing_written, Kind::guard}) {
    RunnerJob job;
    job.ranks = 3;
    job.options.collectives = {"p2p"};
    job.trouble = {.kind = kind, .rank = 2};
    for (const Measurement& m : job.run()) {
      ASSERT_TRUE(m.first_wrong) << describe(m.measured_case);
      EXPECT_EQ(m.first_wrong->rank, 2);
    }
  }
}

TEST(Runner, visits_small_collectives_of_a_single_launch_again_and_takes_the_interval_over_the_visits) {
  RunnerJob job;
  job.ranks = 3;
  job.options.launches = 1;
  job.options.collectives = {"all_reduce", "p2p"};
  job.options.sizes = {{8}, {1 << 20}, {1 << 21}};
  const std::vector<Measurement> measurements = job.run();
  for (const Measurement& m : measurements) {
    const bool again = !m.measured_case.collective->pairwise && m.measured_case.bytes <= MiB(1);
    const std::string what = describe(m.measured_case);
    EXPECT_EQ(m.outcome, Outcome::measured) << what;
    EXPECT_EQ(m.throughput->stopped_because == "6 repetitions", again) << what;
    if (!again) continue;
    EXPECT_EQ(m.throughput->samples.size(), 6 * 7u) << what;
    EXPECT_EQ(m.latency->samples.size(), 6 * 6u) << what;
    EXPECT_TRUE(m.throughput->summary.interval) << what;
    EXPECT_EQ(m.groups.size(), 1u) << what;
    EXPECT_DOUBLE_EQ(m.throughput->summary.median, job.operation_s);
    EXPECT_FALSE(m.measured_case.pairs_sampled);
  }
}

TEST(Runner, tries_no_more_visits_of_a_collective_that_failed_in_one) {
  RunnerJob job;
  job.ranks = 3;
  job.options.launches = 1;
  job.options.collectives = {"all_reduce"};
  job.trouble = {.kind = Kind::throws, .rank = 2, .phase = Phase::sample, .only_case = 1};
  const std::vector<Measurement> measurements = job.run();
  ASSERT_EQ(measurements.size(), 1u);
  EXPECT_EQ(measurements[0].outcome, Outcome::failed);
  EXPECT_NE(measurements[0].because.find("(in 1 of 6 repetitions)"), std::string::npos) << measurements[0].because;
  EXPECT_TRUE(measurements[0].throughput);  // from the repetition before
  EXPECT_EQ(job.opened, 2);
}

TEST(Runner, fails_one_case_alike_wherever_a_rank_throws_or_stalls) {
  for (Kind kind : {Kind::throws, Kind::stalls})
    for (Phase phase : {Phase::open, Phase::warm_up, Phase::sample, Phase::verify})
      for (int rank : {0, 2}) {
        RunnerJob job;
        job.ranks = 3;
        job.options.collectives = {"all_reduce"};
        job.options.sizes = {{8}, {16}, {32}};
        job.trouble = {.kind = kind, .rank = rank, .phase = phase, .only_case = 1};
        const std::vector<Measurement> measurements = job.run();
        ASSERT_EQ(measurements.size(), 3u);
        for (const std::vector<Outcome>& outcomes : job.outcomes_of_rank)
          EXPECT_EQ(outcomes, (std::vector{Outcome::measured, Outcome::failed, Outcome::measured}));
        const Measurement& failed = measurements[1];
        EXPECT_EQ(failed.failed_in, phase);
        EXPECT_EQ(failed.failed_rank, rank) << name_of(phase);
        EXPECT_NE(failed.because.find(kind == Kind::throws ? "told to throw" : "does not come"), std::string::npos)
            << failed.because;
        EXPECT_FALSE(failed.throughput);
        EXPECT_EQ(measurements[2].wrong_elements, 0u);
      }
}

// The last case has no other behind it that could tell.
TEST(Runner, fails_the_case_that_a_rank_cannot_close_and_keeps_what_was_found_before) {
  for (const auto& [kind, number] : {std::pair(Kind::throws, 1), {Kind::throws, 2}, {Kind::stalls, 2}}) {
    RunnerJob job;
    job.ranks = 3;
    job.options.collectives = {"all_reduce"};
    job.options.sizes = {{8}, {16}, {32}};
    job.trouble = {.kind = kind, .rank = 2, .phase = Phase::close, .only_case = number};
    const std::vector<Measurement> measurements = job.run();
    ASSERT_EQ(measurements.size(), 3u);
    const auto failed = static_cast<std::size_t>(number);
    for (const std::vector<Outcome>& outcomes : job.outcomes_of_rank)
      for (std::size_t at = 0; at < outcomes.size(); ++at)
        EXPECT_EQ(outcomes[at], at == failed ? Outcome::failed : Outcome::measured);
    EXPECT_EQ(measurements[failed].failed_in, Phase::close);
    EXPECT_EQ(measurements[failed].failed_rank, 2);
    EXPECT_TRUE(measurements[failed].because.starts_with(kind == Kind::throws ? "rank 2 in close: told to throw"
                                                                              : "rank 2 in close: does not come"));
    EXPECT_TRUE(measurements[failed].throughput);
    EXPECT_TRUE(measurements[failed].silent_groups.empty()) << "its operations have ended";
  }
}

TEST(Runner, fails_the_case_that_a_rank_cannot_close_though_it_was_skipped) {
  for (const int launches : {1, 6}) {
    RunnerJob job;
    job.ranks = 3;
    job.options.launches = launches;
    job.options.collectives = {"all_reduce"};
    job.unavailable = "no such kernels here";
    EXPECT_EQ(job.run().at(0).outcome, Outcome::skipped);
    job.trouble = {.kind = Kind::throws, .rank = 2, .phase = Phase::close, .only_case = 0};
    const std::vector<Measurement> measurements = job.run();
    ASSERT_EQ(measurements.size(), 1u);
    EXPECT_EQ(measurements[0].outcome, Outcome::failed);
    EXPECT_EQ(measurements[0].failed_in, Phase::close);
    EXPECT_EQ(measurements[0].failed_rank, 2);
    EXPECT_TRUE(measurements[0].because.starts_with("rank 2 in close: told to throw")) << measurements[0].because;
  }
}

TEST(Runner, tells_the_cause_first_of_cases_that_are_not_run_again_for_it) {
  RunnerJob job;
  job.ranks = 3;
  job.options.collectives = {"p2p"};
  job.options.sizes = {{8}, {16}, {32}, {64}};
  job.trouble = {.kind = Kind::throws, .rank = 1, .phase = Phase::sample};
  const std::vector<Measurement> measurements = job.run();
  ASSERT_FALSE(measurements.empty());
  std::size_t not_run = 0;
  for (const Measurement& m : measurements) {
    EXPECT_TRUE(m.because.starts_with("rank 1 in sample: told to throw")) << m.because;
    not_run += m.because.find("not run again") == std::string::npos ? 0 : 1;
  }
  EXPECT_GT(not_run, 0u);
  EXPECT_LT(not_run, measurements.size());
}

TEST(Runner, fails_a_case_whose_time_is_none) {
  for (const double time :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 0.0, -1.0, 1e-300, 1e300}) {
    RunnerJob job;
    job.operation_s = time;
    const std::vector<Measurement> measurements = job.run();
    ASSERT_FALSE(measurements.empty());
    for (const Measurement& m : measurements) {
      EXPECT_EQ(m.outcome, Outcome::failed) << time;
      EXPECT_NE(m.because.find("which is no time"), std::string::npos) << m.because;
      EXPECT_FALSE(m.throughput || m.latency);
    }
  }
}

TEST(Runner, names_the_slowest_rank) {
  for (int rank : {0, 1, 3}) {
    RunnerJob job;
    job.ranks = 4;
    job.options.collectives = {"all_gather"};
    job.trouble = {.kind = Kind::slow, .rank = rank};
    const Measurement m = job.run().front();
    EXPECT_EQ(m.slowest_rank, rank);
    EXPECT_DOUBLE_EQ(m.throughput->summary.median, 2 * job.operation_s);
  }
}

TEST(Runner, gives_a_pairs_case_the_time_of_its_slowest_pair) {
  RunnerJob job;
  job.ranks = 4;
  job.options.collectives = {"p2p"};
  job.trouble = {.kind = Kind::slow, .rank = 3};
  for (const Measurement& m : job.run()) {
    EXPECT_EQ(m.groups.size(), m.measured_case.pattern == "one_way" ? 12u : 6u);
    EXPECT_TRUE(std::ranges::find(m.slowest_group, 3) != m.slowest_group.end());
    for (const GroupResult& pair : m.groups)
      EXPECT_DOUBLE_EQ(pair.median.count, (pair.group[0] == 3 || pair.group[1] == 3 ? 2 : 1) * job.operation_s);
  }
}

// One repetition fails, the eighth that is opened: its round's pairs are lost, those of the others are kept.
TEST(Runner, a_round_that_fails_costs_that_round) {
  RunnerJob job;
  job.ranks = 4;
  job.options.collectives = {"p2p"};
  job.trouble = {.kind = Kind::throws, .rank = 2, .phase = Phase::warm_up, .only_case = 7};
  const std::vector<Measurement> all = job.run();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(std::ranges::count(all, Outcome::failed, &Measurement::outcome), 1);
  for (const Measurement& m : all) {
    const bool directed = m.measured_case.pattern == "one_way", failed = m.outcome == Outcome::failed;
    EXPECT_EQ(m.groups.size(), (directed ? 12u : 6u) - (failed ? 2 : 0));
    EXPECT_TRUE(m.throughput);
    const std::string why = fmt::format("rank 2 in warm_up: told to throw (in 1 of {} rounds)", directed ? 6 : 3);
    EXPECT_EQ(m.because, failed ? why : "");
  }
}

TEST(Runner, takes_no_pair_for_silent_whose_wait_the_time_limit_of_the_command_cut_short) {
  for (const bool cut_short : {true, false}) {
    RunnerJob job;
    job.ranks = 4;
    job.options.collectives = {"p2p"};
    job.trouble = {.kind = Kind::stalls, .rank = 2, .phase = Phase::open, .only_case = 7, .cut_short = cut_short};
    const std::vector<Measurement> all = job.run();
    const auto failed = std::ranges::find(all, Outcome::failed, &Measurement::outcome);
    ASSERT_NE(failed, all.end());
    EXPECT_EQ(failed->silent_groups.empty(), cut_short);
    EXPECT_EQ(failed->finished_groups.empty(), cut_short);
  }
}

TEST(Runner, names_the_only_rank_whose_device_hangs_in_a_wait_that_the_time_limit_of_the_command_cut_short) {
  for (const std::vector<int>& hung : {std::vector{1}, std::vector{1, 2}}) {
    RunnerJob job;
    job.ranks = 3;
    job.options.collectives = {"all_reduce"};
    job.trouble.hung = hung;
    const std::vector<Measurement> measurements = job.run();
    ASSERT_EQ(measurements.size(), 1u);
    EXPECT_EQ(measurements[0].outcome, Outcome::failed);
    EXPECT_EQ(measurements[0].failed_rank, hung.size() == 1 ? std::optional(1) : std::nullopt);
  }
}

TEST(Runner, after_two_failures_the_others_of_a_round_are_not_tried) {
  RunnerJob job;
  job.ranks = 4;
  job.options.collectives = {"p2p"};
  job.trouble = {.kind = Kind::throws, .rank = 2, .phase = Phase::open};
  for (const Measurement& m : job.run()) {
    EXPECT_EQ(m.outcome, Outcome::failed);
    EXPECT_TRUE(m.groups.empty());
  }
  EXPECT_EQ(job.opened, 3 * 2) << "of three rounds with four visits each";
}

TEST(Runner, shows_what_a_case_came_to_before_its_last_round) {
  RunnerJob job;
  job.ranks = 4;
  job.options.collectives = {"p2p"};
  job.run();
  EXPECT_EQ(job.unfinished.size(), (6u - 1) + 2 * (3 - 1));
  for (const Measurement& m : job.unfinished) {
    EXPECT_EQ(m.outcome, Outcome::measured);
    EXPECT_GE(m.groups.size(), 2u);
  }
}

TEST(Runner, skips_what_a_spent_budget_does_not_allow) {
  RunnerJob job;
  job.runner.budget = {0};
  const std::vector<Measurement> measurements = job.run();
  ASSERT_FALSE(measurements.empty());
  for (const Measurement& m : measurements) {
    EXPECT_EQ(m.outcome, Outcome::skipped);
    EXPECT_EQ(m.because, "budget");
    EXPECT_FALSE(m.throughput);
  }
}

// The 28 rounds of pairs, which come first, take longer than the budget.
TEST(Runner, lets_further_rounds_of_pairs_give_way_to_a_collective_that_has_none) {
  RunnerJob job;
  job.ranks = 8;
  job.options.collectives = {"p2p", "all_reduce"};
  job.runner.in_order = true;
  job.runner.budget = {0.7};
  job.opening_s = 0.03;
  for (const Measurement& m : job.run())
    EXPECT_EQ(m.outcome, Outcome::measured) << describe(m.measured_case) << m.because;
}

TEST(Runner, begins_no_pairs_in_the_time_that_they_leave_to_others) {
  RunnerJob job;
  job.options.collectives = {"p2p", "all_reduce"};
  job.runner.kept_from_pairs = job.runner.budget;
  for (const Measurement& m : job.run())
    EXPECT_EQ(m.outcome, m.measured_case.collective->pairwise ? Outcome::skipped : Outcome::measured) << m.because;
}

TEST(Runner, says_why_it_stopped_sampling) {
  RunnerJob job;
  job.options.collectives = {"all_reduce"};
  job.options.sizes = {MiB(1)};
  job.slots = 1;
  job.operation_s = 1e-3;
  EXPECT_EQ(job.run().front().throughput->stopped_because, "interval within 1 %");
  job.options.sizes = {{8}};
  const Measurement small = job.run().front();
  EXPECT_EQ(small.throughput->stopped_because, "interval within 2 %");
  EXPECT_EQ(small.throughput->summary.samples, 13) << "twice the least, and the one that is verified";
  job.spread = 4;
  EXPECT_EQ(job.run().front().throughput->stopped_because, "250 samples");
  job.runner.most_samples = 7;
  const Measurement few = job.run().front();
  EXPECT_EQ(few.throughput->stopped_because, "7 samples");
  EXPECT_EQ(few.throughput->summary.samples, 8) << "and the one that is verified";
  job.operation_s = 1e3;  // no budget suffices for more than a first look
  EXPECT_EQ(job.run().front().throughput->stopped_because, "share of the budget spent");
}

TEST(Runner, a_request_of_slow_operations_ends_within_its_limit) {
  RunnerJob job;
  job.options.collectives = {"all_reduce"};
  job.runner.budget = {1e9};
  job.runner.latency = false;
  job.spread = 1;
  for (const double operation_s : {1.0, 4.0}) {
    job.operation_s = operation_s;
    const Measurement scattered = job.run().front();
    EXPECT_EQ(scattered.throughput->stopped_because, "250 samples");
    EXPECT_GE(job.most_samples, 3) << "of the trial";
    EXPECT_LE(job.most_samples * operation_s, std::max(job.runner.timeout.count, 3 * operation_s));
  }
  // The rule is asked after as many samples as of fast operations, and not in the middle of a batch.
  job.spread = 0;
  const Measurement even = job.run().front();
  EXPECT_EQ(even.throughput->stopped_because, "interval within 2 %");
  EXPECT_EQ(even.throughput->summary.samples, 13) << "twice the least, and the one that is verified";
  job.runner.budget = {600};
  job.operation_s = 1e3;
  const Measurement few = job.run().front();
  EXPECT_EQ(few.throughput->stopped_because, "share of the budget spent");
  EXPECT_EQ(few.throughput->summary.samples, 7) << "the least, and the one that is verified";
}

TEST(Runner, never_times_more_operations_at_once_than_there_are_slots) {
  for (int slots : {1, 3, 16}) {
    RunnerJob job;
    job.slots = slots;
    job.operation_s = 1e-6;
    for (const Measurement& m : job.run()) EXPECT_EQ(m.throughput->operations_per_sample, slots);
    EXPECT_EQ(job.most_operations, slots);
  }
}

TEST(Runner, verifies_unaligned_buffers_and_their_guards) {
  for (const int unalign : {1, 63}) {
    for (const bool in_place : {false, true}) {
      RunnerJob job = all_types(3, false);
      job.options.collectives = {"all_reduce", "all_gather"};
      job.options.calls.unalign = unalign;
      job.options.in_place = in_place;
      for (const Measurement& m : job.run()) EXPECT_EQ(m.wrong_elements, 0u) << describe(m.measured_case);
      for (const Kind kind : {Kind::one_element, Kind::guard}) {
        job.trouble = {.kind = kind, .rank = 2};
        for (const Measurement& m : job.run()) {
          ASSERT_TRUE(m.first_wrong) << describe(m.measured_case);
          EXPECT_EQ(m.first_wrong->guard, kind == Kind::guard);
        }
      }
    }
  }
}

TEST(Runner, measures_and_verifies_each_root) {
  RunnerJob job;
  job.ranks = 3;
  job.options.collectives = {"broadcast", "reduce", "gather", "scatter"};
  job.options.every_root = true;
  job.options.sizes = {{96}};
  for (const Measurement& m : job.run()) {
    EXPECT_EQ(m.wrong_elements, 0u) << describe(m.measured_case);
    ASSERT_EQ(m.roots.size(), 3u);
    for (int root = 0; root < 3; ++root) EXPECT_EQ(m.roots[static_cast<std::size_t>(root)].root, root);
    EXPECT_EQ(m.groups.size(), 1u);
  }
  // Rounds in which rank 2 receives something.
  job.trouble = {.kind = Kind::one_element, .rank = 2};
  const std::map<std::string_view, std::size_t> wrong_rounds{
      {"broadcast", 3}, {"reduce", 1}, {"gather", 1}, {"scatter", 3}};
  for (const Measurement& m : job.run())
    EXPECT_EQ(m.wrong_groups.size(), wrong_rounds.at(m.measured_case.collective->name)) << describe(m.measured_case);
}

TEST(Runner, times_whole_groups_of_operations) {
  for (const auto& [slots, operation_s, wanted] : {std::tuple(8, 1e-6, 6), {3, 1e-6, 3}, {9, 5e-3, 3}}) {
    RunnerJob job;
    job.options.collectives = {"all_reduce"};
    job.options.calls.aggregate = 3;
    job.planned_for = "nccl";
    job.slots = slots;
    job.operation_s = operation_s;
    for (const Measurement& m : job.run()) {
      EXPECT_EQ(m.throughput->operations_per_sample, wanted);
      EXPECT_EQ(m.latency->operations_per_sample, 3);
      EXPECT_DOUBLE_EQ(m.throughput->summary.median, operation_s);
    }
  }
}

std::set<std::pair<std::string, DataType>> operations_in(const std::vector<Measurement>& measurements) {
  std::set<std::pair<std::string, DataType>> found;
  for (const Measurement& m : measurements) found.emplace(m.measured_case.collective->name, m.measured_case.type);
  return found;
}

TEST(Runner, verifies_tokens_for_all_types_that_hold_their_sums) {
  for (const auto& [ranks, routing] : {std::pair{2, "expert:5,6,1"}, {3, "expert:7,9,3@4"}, {4, "expert:6,8,5"}}) {
    RunnerJob job = all_types(ranks, false);
    job.options.collectives = {"dispatch", "combine"};
    job.options.traffic = routing;
    job.options.sizes = {{1}, {3000}};
    const std::vector<Measurement> measurements = job.run();
    for (const Measurement& m : measurements) {
      EXPECT_EQ(m.outcome, Outcome::measured) << describe(m.measured_case) << ": " << m.because;
      EXPECT_EQ(m.wrong_elements, 0u) << describe(m.measured_case);
    }
    // Contributions to a token come from one rank, from two, and from at most four.
    const std::size_t narrow = ranks == 2 ? 0 : 2;
    EXPECT_EQ(operations_in(measurements).size(), 2 * data_type_names().size() - narrow) << routing;
  }
}

TEST(Runner, finds_a_wrong_element_of_a_token) {
  for (const char* collective : {"dispatch", "combine"})
    for (const Trouble::Kind kind : {Trouble::Kind::one_element, Trouble::Kind::one_bit}) {
      RunnerJob job;
      job.ranks = 4;
      job.options.collectives = {collective};
      job.options.traffic = "expert:6,8,3";
      job.options.sizes = {{3000}};
      job.trouble = {.kind = kind, .rank = 2};
      const std::vector<Measurement> measurements = job.run();
      ASSERT_EQ(measurements.size(), 1u);
      EXPECT_GT(measurements.front().wrong_elements, 0u) << collective;
      EXPECT_EQ(measurements.front().first_wrong->rank, 2) << collective;
    }
}

TEST(Runner, measures_latency_of_few_tokens_however_large) {
  RunnerJob job;
  job.options.collectives = {"dispatch"};
  for (const auto& [routing, has_latency] : {std::pair{"expert:128,6,2", true}, {"expert:129,6,2", false}}) {
    job.options.traffic = routing;
    job.options.sizes = {MiB(2)};
    for (const Measurement& m : job.run()) EXPECT_EQ(m.latency.has_value(), has_latency) << routing;
  }
}

TEST(Runner, times_one_operation_where_one_takes_long) {
  RunnerJob job;
  job.operation_s = 5e-3;
  for (const Measurement& m : job.run()) EXPECT_EQ(m.throughput->operations_per_sample, 1);
}

TEST(Runner, measures_latency_up_to_a_mebibyte) {
  RunnerJob job;
  job.options.collectives = {"all_gather"};
  job.options.sizes = {MiB(1), MiB(2)};
  for (const Measurement& m : job.run()) EXPECT_EQ(m.latency.has_value(), m.measured_case.bytes <= MiB(1));
}

}  // namespace
}  // namespace p5
