// Work beside a case: its text, its place in a plan, and the figures of operations that run at the same time, from
// times of a machine with known rates.
#include "bench/measure/concurrent.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/base/error.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/measure/trials.hpp"
#include "bench/model/plan.hpp"
#include "bench/model/progress.hpp"
#include "tests/fakes/thread_backend.hpp"

namespace p5 {
namespace {

TEST(Work, has_one_text_whatever_was_left_out) {
  EXPECT_EQ(name_of(parse_work("gemm")), "gemm:8192,8192,bf16");
  EXPECT_EQ(name_of(parse_work("gemm:4096")), "gemm:4096,4096,bf16");
  EXPECT_EQ(name_of(parse_work("gemm:4096,1024,fp8")), "gemm:4096,1024,fp8");
  EXPECT_EQ(name_of(parse_work("d2h")), "d2h");
  EXPECT_EQ(name_of(parse_work("all_gather@node:64M")), "all_gather@node:64MiB");
  EXPECT_EQ(name_of(parse_work("all_gather@world:8")), "all_gather:8");
  for (const char* text : {"gemm:4096,1024,fp8", "d2h", "all_gather@node:64MiB", "all_reduce:1000"})
    EXPECT_EQ(name_of(parse_work(name_of(parse_work(text)))), name_of(parse_work(text)));
}

TEST(Work, is_refused_where_it_means_nothing) {
  for (const char* text : {"", "gem", "gemm:", "gemm:0", "gemm:17", "gemm:8192,8192,int8", "gemm:16,16,bf16,1", "d2h:1",
                           "all_gather", "all_gather:", "all_gather@:8", "all_gather:-1", "p2p:8", "COLLECTIVE:8"})
    EXPECT_THROW(parse_work(text), UsageError) << text;
}

TEST(SteadySeconds, are_those_behind_the_beginning_until_the_first_work_has_ended) {
  // 0.5 s an operation at first and 1 s later; the other one takes 2 s, and 1 s once it is alone.
  const WorkProgress first{{0.5, 1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6, 7}}, second{{2, 4, 6, 7, 8}, {1, 2, 3, 4, 5}};
  EXPECT_THAT(steady_seconds({first, {}, second}),
              testing::ElementsAre(testing::DoubleNear(1, 1e-9), testing::IsNan(), testing::DoubleNear(2, 1e-9)));
}

TEST(SteadySeconds, of_a_work_that_waits_for_the_others_are_at_least_as_long_as_they_run) {
  const std::vector<double> each = steady_seconds({{{11, 12}, {1, 2}}, {{1, 2, 10}, {1, 2, 10}}});
  EXPECT_GE(each[0], 10);
}

// Times of operations on a machine whose works take `alone` and slow each other by what `ends` says.
using Ends = std::vector<double> (*)(const std::vector<double>& alone, const std::vector<int>& operations);

// Each has a part of its own.
std::vector<double> independent(const std::vector<double>& alone, const std::vector<int>& operations) {
  std::vector<double> ends;
  for (std::size_t i = 0; i < alone.size(); ++i) ends.push_back(alone[i] * operations[i]);
  return ends;
}

// All share one part in equal halves while they run.
std::vector<double> shared(const std::vector<double>& alone, const std::vector<int>& operations) {
  std::vector<double> left = independent(alone, operations), ends(alone.size(), 0);
  double now = 0;
  for (;;) {
    const auto running = std::ranges::count_if(left, [](double each) { return each > 0; });
    if (running == 0) return ends;
    double least = std::numeric_limits<double>::infinity();
    for (const double each : left)
      if (each > 0) least = std::min(least, each);
    now += least * static_cast<double>(running);
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (left[i] <= 0) continue;
      left[i] = left[i] - least < 1e-12 ? 0 : left[i] - least;
      if (left[i] == 0) ends[i] = now;
    }
  }
}

// The first one gets nothing until the others have ended.
std::vector<double> waiting(const std::vector<double>& alone, const std::vector<int>& operations) {
  std::vector<double> ends = independent(alone, operations);
  double others = 0;
  for (std::size_t i = 1; i < ends.size(); ++i) others = std::max(others, ends[i]);
  ends[0] += others;
  return ends;
}

// Seconds of an operation of each while all run, as a backend finds them that sees each operation end.
std::vector<double> steady(Ends ends, const std::vector<double>& alone, const std::vector<int>& operations) {
  std::vector<WorkProgress> works(alone.size());
  for (std::size_t w = 0; w < alone.size(); ++w)
    for (int done = 1; done <= operations[w]; ++done) {
      // The others have all of theirs, and this one stops after so many.
      std::vector<int> fewer = operations;
      fewer[w] = done;
      works[w].seconds.push_back(ends(alone, fewer)[w]);
      works[w].operations.push_back(done);
    }
  return steady_seconds(works);
}

struct Sampled {
  Concurrency figures;
  ConcurrentRequest last;
  int requests = 0;
  double longest_request = 0;
};

constexpr Seconds without_limit{1e9};

// jitter: every other four requests, a turn of two works, take this much longer, in relation.
Sampled sampled(Ends ends, const std::vector<double>& alone, Seconds share = {1e9}, Seconds limit = without_limit,
                double jitter = 0) {
  Case c;
  c.collective = &find_collective("all_reduce");
  for (std::size_t i = 1; i < alone.size(); ++i) c.beside.push_back(parse_work(i == 1 ? "gemm" : "d2h"));
  ConcurrentSampling sampling(c, {1e-3}, {}, share, limit);
  Sampled all;
  double spent = 0;
  for (ConcurrentRequest request = sampling.first(); !request.operations.empty();) {
    all.last = request;
    ++all.requests;
    std::vector<double> times = ends(alone, request.operations);
    if (all.requests % 8 < 4)
      for (double& each : times) each *= 1 + jitter;
    const double took = request.samples * *std::ranges::max_element(times);
    all.longest_request = std::max(all.longest_request, took);
    spent += took;
    if (request.steady) times = steady(ends, alone, request.operations);
    for (std::size_t i = 0; i < times.size(); ++i)
      if (request.operations[i] == 0) times[i] = std::numeric_limits<double>::quiet_NaN();
    // Two ranks, of which the slower one counts.
    std::vector<double> faster = times;
    for (double& each : faster) each *= 0.5;
    std::vector<ConcurrentTimes> parts;
    for (const std::vector<double>& each : {faster, times})
      parts.push_back({std::vector<std::vector<double>>(static_cast<std::size_t>(request.samples), each)});
    request = sampling.next(parts, {spent});
  }
  all.figures = sampling.result();
  return all;
}

TEST(Concurrent, operations_that_share_nothing_overlap_wholly) {
  const Sampled all = sampled(independent, {1e-3, 3e-3});
  ASSERT_EQ(all.figures.operations.size(), 2u);
  for (const ConcurrentOperation& each : all.figures.operations) {
    EXPECT_NEAR(slowdown(each.alone, each.beside), 1, 1e-9);
    EXPECT_TRUE(each.covered);
    EXPECT_TRUE(each.beside_each.empty());
  }
  EXPECT_NEAR(overlap(all.figures), 1, 1e-9);
  // As many as take the same time alone.
  EXPECT_EQ(all.figures.operations[0].operations, 3 * all.figures.operations[1].operations);
  EXPECT_TRUE(all.last.poison_last) << "what was timed together is verified";
  EXPECT_EQ(all.last.samples, 1);
  EXPECT_FALSE(all.last.steady) << "the time of all together is wanted";
}

TEST(Concurrent, operations_that_share_one_part_slow_each_other_by_their_number) {
  const Sampled two = sampled(shared, {1e-3, 3e-3});
  for (const ConcurrentOperation& each : two.figures.operations)
    EXPECT_NEAR(slowdown(each.alone, each.beside), 2, 1e-9);
  EXPECT_NEAR(overlap(two.figures), 0, 1e-9);
  const Sampled three = sampled(shared, {1e-3, 2e-3, 4e-3});
  ASSERT_EQ(three.figures.operations.size(), 3u);
  for (const ConcurrentOperation& each : three.figures.operations) {
    EXPECT_NEAR(slowdown(each.alone, each.beside), 3, 1e-9);
    ASSERT_EQ(each.beside_each.size(), 2u);
    for (const auto& one : each.beside_each) EXPECT_NEAR(slowdown(each.alone, one.times), 2, 1e-9);
  }
  EXPECT_EQ(three.figures.operations[0].beside_each[1].name, "d2h");
}

TEST(Concurrent, an_operation_that_waits_for_the_others_is_told) {
  const Sampled all = sampled(waiting, {1e-3, 1e-3});
  EXPECT_FALSE(all.figures.operations[0].covered);
  EXPECT_TRUE(all.figures.operations[1].covered);
  EXPECT_GT(slowdown(all.figures.operations[0].alone, all.figures.operations[0].beside), 8);
  EXPECT_NEAR(overlap(all.figures), 0, 1e-9);
}

TEST(Concurrent, the_fewest_samples_are_taken_when_no_time_is_left) {
  const Sampled all = sampled(shared, {1e-3, 1e-3}, {0});
  EXPECT_EQ(all.figures.operations[0].alone.summary.samples, StoppingRule{}.least);
  EXPECT_EQ(all.figures.operations[0].alone.stopped_because, "share of the budget spent");
}

TEST(Concurrent, a_request_of_slow_operations_ends_within_its_limit) {
  // A steady sample lasts 40 s, 5 times 4 operations of each.
  const Sampled slow = sampled(shared, {1, 1}, {1e9}, {1000}, 0.1);
  EXPECT_LE(slow.longest_request, 1000);
  EXPECT_EQ(slow.figures.operations[0].alone.summary.samples, StoppingRule{}.most);
  EXPECT_EQ(slow.figures.operations[0].beside.summary.samples, StoppingRule{}.most);
  // The rule is asked after as many samples as without a limit, and not in the middle of a batch.
  const Sampled even = sampled(shared, {1, 1}, {1e9}, {100}), free = sampled(shared, {1, 1});
  EXPECT_LE(even.longest_request, 100);
  EXPECT_GT(free.longest_request, 100);
  EXPECT_EQ(even.figures.operations[0].beside.summary.samples, free.figures.operations[0].beside.summary.samples);
}

// Messages and products of ranks that share one part of their device, with Detail::ranks. alone: of each rank.
struct OfRanks {
  std::vector<double> left;  // what the messages leave of the rate of the products, on each rank; NaN: not known
  double longest = 0;        // time of the longest sample
};

OfRanks sampled_by_rank(const std::vector<std::vector<double>>& alone, Seconds share) {
  Case c;
  c.collective = &find_collective("send_recv");
  c.beside.push_back(parse_work("gemm"));
  ConcurrentSampling sampling(c, {1e-3}, {}, share, without_limit, ConcurrentSampling::Detail::ranks);
  OfRanks all;
  double spent = 0;
  for (ConcurrentRequest request = sampling.first(); !request.operations.empty();) {
    std::vector<ConcurrentTimes> parts;
    double last = 0;
    for (const std::vector<double>& own : alone) {
      std::vector<double> ends = shared(own, request.operations);
      last = std::max(last, *std::ranges::max_element(ends));
      for (std::size_t i = 0; i < ends.size(); ++i)
        if (request.operations[i] == 0) ends[i] = std::numeric_limits<double>::quiet_NaN();
      parts.push_back({std::vector<std::vector<double>>(static_cast<std::size_t>(request.samples), ends)});
    }
    all.longest = std::max(all.longest, last);
    spent += request.samples * last;
    request = sampling.next(parts, {spent});
  }
  for (const ConcurrentSampling::OfRank& each : sampling.of_ranks(1)) all.left.push_back(each.alone / each.beside);
  return all;
}

TEST(Concurrent, ranks_whose_messages_are_fast_lose_as_much_as_those_whose_messages_are_slow) {
  const std::vector<double> fast{1e-3, 1e-3};
  EXPECT_THAT(sampled_by_rank({fast, fast, {4e-3, 1e-3}}, {1e9}).left, testing::Each(testing::DoubleNear(0.5, 1e-9)));
  // Messages of 30 times the length cannot be covered: nothing is known of the others, and all is of alike ones.
  const std::vector<double> apart = sampled_by_rank({fast, fast, {30e-3, 1e-3}}, {1e9}).left;
  EXPECT_THAT(apart, testing::ElementsAre(testing::IsNan(), testing::IsNan(), testing::DoubleNear(0.5, 1e-9)));
}

TEST(Concurrent, a_slow_rank_makes_no_sample_of_ranks_longer_than_half_of_all_time) {
  const std::vector<double> fast{1e-3, 1e-3};
  const OfRanks all = sampled_by_rank({fast, fast, {20e-3, 1e-3}}, {0.35});
  EXPECT_LT(all.longest, 0.35);
  EXPECT_TRUE(std::isnan(all.left.front()));
}

Options beside(const std::string& work) {
  Options options;
  options.collectives = {"all_reduce"};
  options.sizes = {MiB(1)};
  options.beside = {parse_work(work)};
  return options;
}

Plan plan_of(const Options& options, const std::string& backend = "sim") {
  fakes::Threads threads(1);
  return make_plan(options, {.node_of_rank = {0, 0, 1, 1}, .memory_of_node = {}}, fakes::ThreadBackend(threads, 0),
                   backend);
}

TEST(Plan, has_the_case_of_a_collective_beside_another) {
  const Plan plan = plan_of(beside("all_gather@node:64MiB"));
  ASSERT_EQ(plan.cases.size(), 1u);
  const Case& c = plan.cases.front();
  ASSERT_EQ(c.beside.size(), 1u);
  ASSERT_TRUE(c.beside[0].planned);
  EXPECT_EQ(c.beside[0].planned->rounds->front(), (Round{{0, 1}, {2, 3}}));
  EXPECT_EQ(c.beside[0].planned->ranks, 2);
  EXPECT_EQ(c.rounds->size(), 1u) << "small messages too: their turns are its repetitions";
  EXPECT_EQ(describe(c), "all_reduce 1 MiB float32 sum beside all_gather@node:64MiB");
  EXPECT_GT(plan.memory_per_rank, plan_of([] {
                                    Options alone = beside("d2h");
                                    alone.beside.clear();
                                    return alone;
                                  }())
                                      .memory_per_rank);
}

TEST(Plan, has_a_collective_of_strides_beside_another) {
  const Plan plan = plan_of(beside("all_gather@stride:2:8MiB"));
  ASSERT_EQ(plan.cases.size(), 1u);
  const Work& work = plan.cases.front().beside.at(0);
  EXPECT_EQ(work.planned->rounds->front(), (Round{{0, 2}, {1, 3}}));
  EXPECT_EQ(name_of(work), "all_gather@stride:2:8MiB");
  EXPECT_EQ(name_of(parse_work(name_of(work))), name_of(work));
}

// The text of the refusal, or "".
std::string refusal_of_work(const std::string& work) {
  try {
    plan_of(beside(work));
  } catch (const UsageError& problem) {
    return problem.what();
  }
  return "";
}

TEST(Plan, refuses_work_that_this_job_cannot_do) {
  EXPECT_THAT(refusal_of_work("all_gather@stride:4:8"), testing::HasSubstr("a single rank"));
  EXPECT_THAT(refusal_of_work("all_gather@stride:9:8"), testing::HasSubstr("stride"));
  EXPECT_THAT(refusal_of_work("all_gather@stride:2"), testing::HasSubstr("write all_gather@stride:2:64MiB"));
  EXPECT_THROW(plan_of(beside("all_gather@nodes:8")), UsageError);
  EXPECT_THROW(plan_of(beside("gemm"), "ofi"), UsageError);
  EXPECT_THROW(plan_of(beside("gemm"), "mpi"), UsageError);
}

// ---- Trials of a case beside work

// A rank whose operation and work share nothing; "fast" makes the operation twice as fast. Keeps the requests.
struct WorkSession final : Session {
  explicit WorkSession(std::vector<ConcurrentRequest>& requests_) : requests(requests_) {}
  int slots() const override { return 100; }
  void warm_up(int, const std::string&) override {}
  Times sample(const SampleRequest&) override { throw CaseError("not with works beside it"); }
  ConcurrentTimes sample_concurrently(const ConcurrentRequest& request) override {
    requests.push_back(request);
    const double own_s = request.setting == "fast" ? 1e-3 : 2e-3, work_s = 0.5e-3, none = std::nan("");
    const std::vector<double> ends{request.operations[0] > 0 ? request.operations[0] * own_s : none,
                                   request.operations[1] > 0 ? request.operations[1] * work_s : none};
    return {std::vector<std::vector<double>>(static_cast<std::size_t>(request.samples), ends)};
  }
  Verification verify() override { return {}; }
  std::vector<ConcurrentRequest>& requests;
};

struct WorkBackend final : Backend {
  std::unique_ptr<Session> open(const Case&, int) override { return std::make_unique<WorkSession>(requests); }
  Bytes memory_per_rank(const Case&) const override { return {1}; }
  CostModel cost() const override { return {}; }
  bool recovers() const override { return true; }
  std::vector<ConcurrentRequest> requests;
};

TEST(TrialsBesideWork, let_all_settings_and_arms_do_the_same_amount_of_work) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  WorkBackend first, second;
  Case c;
  c.collective = &find_collective("all_reduce");
  c.bytes = MiB(1);
  c.beside = {parse_work("gemm")};
  c.rounds = std::make_shared<const std::vector<Round>>(std::vector<Round>{{{0}}});
  Case called_otherwise = c;
  called_otherwise.calls.registration = "local";
  Trials trials(*control, {&first, &second}, {c, called_otherwise}, {});
  EXPECT_TRUE(trials.operations_together(0).empty());
  const Burst together{{1e-3}, Quantity::together}, alone{{1e-3}, Quantity::device};
  const std::vector<Trial> measured = trials.block({0, 0}, {"fast", ""}, together);
  EXPECT_EQ(trials.operations_together(0), (std::vector<int>{4, 16})) << "by the time of the default";
  EXPECT_NEAR(measured[0].time.count, 2e-3, 1e-9) << "the work takes longer: 8 ms for 4 operations";
  EXPECT_NEAR(measured[1].time.count, 2e-3, 1e-9);
  EXPECT_NEAR(trials.block({0, 0}, {"fast"}, alone)[0].time.count, 1e-3, 1e-9);
  trials.block({1, 1}, {""}, together);
  for (const WorkBackend* each : {&first, &second})
    for (const ConcurrentRequest& request : each->requests)
      if (request.operations[0] > 0 && request.operations[1] > 0) {
        EXPECT_EQ(request.operations, trials.operations_together(0));
      }
  EXPECT_TRUE(std::ranges::any_of(first.requests, [](const ConcurrentRequest& request) {
    return request.poison_last && request.setting == "fast" && request.operations[1] > 0;
  })) << "results of all are verified with each setting";
}

}  // namespace
}  // namespace p5
