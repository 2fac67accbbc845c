// Steps of communicators: their plan, the fit of their growth, what they take, and their sentences in a report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "bench/backends/backends.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/measure/effect.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/communicator_steps.hpp"
#include "bench/model/plan.hpp"
#include "reports/communicators.hpp"
#include "reports/judge.hpp"

namespace p5 {
namespace {

using ::testing::HasSubstr;

constexpr int node_count = 4, gpus_per_node = 8;

SimMachine machine() {
  SimMachine here;
  here.nodes = node_count;
  here.gpus = gpus_per_node;
  here.link = {400};
  here.nic = {50};
  here.link_latency = {1e-6};
  here.nic_latency = {1e-5};
  here.outliers = 0;  // a process joins once: nothing outvotes a disturbance
  return here;
}

JobFacts job() {
  NodeOfRank node_of_rank;
  for (int rank = 0; rank < node_count * gpus_per_node; ++rank) node_of_rank.push_back(rank / gpus_per_node);
  return {.node_of_rank = node_of_rank, .memory_of_node = {}};
}

std::vector<Case> planned(const Options& options) {
  std::vector<Case> cases = make_plan(options, job(), *make_sim_backend(machine()), "sim").cases;
  std::erase_if(cases, [](const Case& c) { return c.collective != &communicator; });
  return cases;
}

Options asked_for() {
  Options options;
  options.collectives = {"communicator"};
  return options;
}

class Silent final : public Observer {
  void repetition_started(const Case&, const RunProgress&) override {}
  void repetition_finished(const Measurement&, bool) override {}
  void case_finished(const Measurement&, bool) override {}
};

// All steps on the simulator, as a report.
reports::Report simulated(const std::vector<std::string>& faults = {}) {
  SimMachine here = machine();
  for (const std::string& fault : faults) here.faults.push_back(parse_fault(fault, here));
  const auto control = make_solo_control_plane(node_count * gpus_per_node);
  const auto backend = make_sim_backend(here);
  Silent observer;
  reports::Report report;
  for (Measurement& m : run_cases(*control, *backend, planned(asked_for()), {}, observer))
    report.results.push_back({std::move(m), {}});
  return report;
}

const Measurement& measured(const reports::Report& report, const std::string& step) {
  return std::ranges::find_if(report.results,
                              [&](const reports::Result& each) {
                                return each.measurement.measured_case.pattern == step &&
                                       each.measurement.measured_case.group == "world";
                              })
      ->measurement;
}

TEST(Communicators, have_the_steps_of_their_collective) {
  std::vector<std::string> names;
  for (const CommunicatorStep& step : communicator_steps()) names.emplace_back(step.name);
  EXPECT_EQ(names, communicator.patterns);
}

TEST(Communicators, are_measured_only_where_asked_for_and_by_number_of_ranks) {
  EXPECT_TRUE(planned({}).empty());
  std::vector<int> split_by;
  for (const Case& c : planned(asked_for())) {
    if (step_of(c)->while_joining) {
      EXPECT_LT(predict_round(c, cost_on_gpus({1e-5}, {300}, 8)).count, 0.1) << "each launch joins anyway";
    }
    if (c.pattern == "split") split_by.push_back(c.ranks);
  }
  EXPECT_EQ(split_by, (std::vector<int>{32, 16, 8, 4, 2}));
}

TEST(Communicators, have_a_time_of_the_slowest_rank_and_costs_but_no_rate_and_no_verdict) {
  const reports::Report report = simulated();
  for (const reports::Result& result : report.results) {
    const Measurement& m = result.measurement;
    ASSERT_EQ(m.outcome, Outcome::measured) << describe(m.measured_case) << m.because;
    const CommunicatorStep& step = *step_of(m.measured_case);
    EXPECT_FALSE(m.throughput);
    ASSERT_TRUE(m.latency);
    EXPECT_EQ(m.latency->summary.samples == 1, step.while_joining) << "a process joins once";
    const double expected = model_of(step, m.measured_case.ranks).count;
    EXPECT_NEAR(m.latency->summary.median / expected, 1, 0.05) << describe(m.measured_case);
    EXPECT_TRUE(m.slowest_rank);
    EXPECT_GT(m.communicator_costs.at("gpu_memory_bytes"), 0);
    EXPECT_EQ(reports::judge(m, {}, {}, {}).grade, reports::Grade::unknown);
  }
}

TEST(Communicators, count_as_hung_after_ten_times_the_time_of_one_sample) {
  const CostModel cost = cost_on_gpus({1e-5}, {300}, gpus_per_node);
  for (const Case& c : planned(asked_for())) {
    const double sample = cost.repetition.count + model_of_sample(*step_of(c), c.ranks).count;
    EXPECT_DOUBLE_EQ(limit_of_request(c, cost, {4}).count, std::max(4.0, 10 * sample)) << describe(c);
    EXPECT_LT(limit_of_request(c, cost, {4}).count, 15) << describe(c);
  }
}

// A rank that makes communicators in `each_s`, and keeps the numbers of samples of the requests.
struct StepSession final : Session {
  StepSession(std::vector<int>& samples_, double each_s_) : samples(samples_), each_s(each_s_) {}
  int slots() const override { return 1; }
  void warm_up(int, const std::string&) override {}
  Times sample(const SampleRequest& request) override {
    samples.push_back(request.samples);
    return {std::vector<double>(static_cast<std::size_t>(request.samples), each_s)};
  }
  Verification verify() override { return {}; }
  std::vector<int>& samples;
  double each_s;
};

struct StepBackend final : Backend {
  explicit StepBackend(double each_s_) : each_s(each_s_) {}
  std::unique_ptr<Session> open(const Case&, int) override { return std::make_unique<StepSession>(samples, each_s); }
  Bytes memory_per_rank(const Case&) const override { return {1}; }
  CostModel cost() const override { return cost_on_gpus({1e-5}, {300}, 1); }
  bool recovers() const override { return true; }
  double each_s;
  std::vector<int> samples;
};

TEST(Communicators, are_made_once_before_a_request_for_several_samples) {
  const auto control = make_solo_control_plane(1);
  Case c;
  c.collective = &communicator;
  c.pattern = "split";
  c.rounds = std::make_shared<const std::vector<Round>>(std::vector<Round>{{{0}}});
  RunnerOptions options;
  options.timeout = {4};
  for (const double each_s : {0.01, 2.0}) {
    StepBackend backend(each_s);
    Silent observer;
    ASSERT_EQ(run_cases(*control, backend, {c}, options, observer).at(0).outcome, Outcome::measured);
    ASSERT_GE(backend.samples.size(), 2u);
    EXPECT_EQ(backend.samples[0], 1) << "the time of a sample is not known";
    const double limit = limit_of_request(c, backend.cost(), options.timeout).count;
    for (const int samples : backend.samples) EXPECT_LE(samples * each_s, 0.5 * limit);
    if (each_s < 1) {
      EXPECT_GT(backend.samples[1], 1);
    }
  }
}

TEST(Communicators, are_slow_where_one_rank_is) {
  const double healthy = measured(simulated(), "split").latency->summary.median;
  const double slow = measured(simulated({"gpu:n1g3:0.5:communicators"}), "split").latency->summary.median;
  EXPECT_NEAR(slow / healthy, 2, 0.1);
}

TEST(Communicators, grow_by_a_line_that_is_found_again) {
  const GrowthByRanks exact = fit_growth({{2, 0.104}, {4, 0.108}, {32, 0.164}});
  EXPECT_NEAR(exact.fixed_s, 0.1, 1e-9);
  EXPECT_NEAR(exact.per_rank_s, 2e-3, 1e-12);
  const std::vector<reports::StepGrowth> growth = reports::growth_of_steps(simulated());
  ASSERT_EQ(growth.size(), 3u) << "joining again, splitting, the first operation after it";
  for (const reports::StepGrowth& each : growth) {
    EXPECT_EQ(std::pair(each.least_ranks, each.most_ranks), std::pair(2, 32));
    EXPECT_NEAR(each.fit.per_rank_s, each.step->per_rank_s, 0.3 * each.step->per_rank_s) << each.step->name;
  }
}

TEST(Communicators, are_told_in_sentences) {
  reports::Report report = simulated();
  for (reports::Result& result : report.results)
    if (result.measurement.measured_case.pattern == "init")
      result.measurement.communicator_costs["init_bootstrap_s"] = 0.04;
  const std::vector<std::string> sentences = reports::communicator_sentences(report);
  ASSERT_EQ(sentences.size(), 4u);
  EXPECT_THAT(sentences[0], HasSubstr("Communicators: joining 7"));
  EXPECT_THAT(sentences[0], HasSubstr("463 MiB of GPU memory"));
  EXPECT_THAT(sentences[0], HasSubstr("bootstrap 40"));
  EXPECT_THAT(sentences[1], HasSubstr("from 2 to 32 ranks"));
  EXPECT_TRUE(reports::communicator_sentences({}).empty());
}

TEST(Communicators, have_a_band_of_their_own_in_comparisons) {
  Case c;
  c.collective = &communicator;
  EXPECT_EQ(band_of(c).name, "steps");
  c.collective = &all_reduce;
  EXPECT_EQ(band_of(c).name, "latency");
  c.bytes = GiB(1);
  EXPECT_EQ(band_of(c).name, "bandwidth");
}

TEST(Footprint, counts_descriptors_sockets_and_memory_of_this_process) {
  const CommunicatorCosts before = footprint();
  std::array<int, 2> pair{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  std::vector<char> memory(64 << 20, 'x');
  const CommunicatorCosts more = grown(before, footprint());
  EXPECT_EQ(more.at("connections"), 2);
  EXPECT_EQ(more.at("file_descriptors"), 4);
  EXPECT_GT(more.at("host_memory_bytes"), 0.9 * static_cast<double>(memory.size()));
  for (const int each : {pair[0], pair[1], pipe_ends[0], pipe_ends[1]}) close(each);
  EXPECT_EQ(grown(footprint(), before).at("connections"), 0) << "less is not negative";
}

}  // namespace
}  // namespace p5
