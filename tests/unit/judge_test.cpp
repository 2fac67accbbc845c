// Grades of measurements by their limits, and exit codes by grades.
#include "reports/judge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "topo/platform.hpp"

namespace p5::reports {
namespace {

constexpr double link_rate = 360, nic_rate = 50, nics_rate = 388, copy_one = 10, copy_all = 16;

topo::Limits gpu_limits() {
  return {{std::string(topo::gpu_link), topo::Level::achievable, {link_rate}, "nvlink", "made up"},
          {std::string(topo::gpu_nics), topo::Level::achievable, {nic_rate}, "nic", "made up"},
          {std::string(topo::node_nics), topo::Level::achievable, {nics_rate}, "nic", "made up"}};
}

topo::Limits host_limits() {
  return {{std::string(topo::host_copy_one), topo::Level::wire, {copy_one}, "host memory", "made up"},
          {std::string(topo::host_copy_all), topo::Level::wire, {copy_all}, "host memory", "made up"}};
}

topo::Topology one_host(int ranks) {
  topo::Topology topology;
  topology.hosts.resize(1);
  topology.host_of_rank.assign(static_cast<std::size_t>(ranks), 0);
  return topology;
}

// A measurement for which bars exist, by its number of nodes.
topo::Topology machine(int nodes) {
  topo::Topology topology;
  topology.platform = nodes > 1 ? "p5.48xlarge" : "hgx-h200";
  return topology;
}

// A measurement with this bus bandwidth.
Measurement measured(const Collective& collective, Bytes bytes, double busbw, int ranks, int nodes,
                     const std::string& backend) {
  Measurement m;
  Case& c = m.measured_case;
  c.backend = backend;
  c.collective = &collective;
  if (collective.pairwise) c.pattern = "one_way";
  c.bytes = bytes;
  c.ranks = ranks;
  c.nodes = nodes;
  const double factor = collective.bus_factor(collective.pairwise ? 2 : ranks);
  m.throughput = Series{.operations_per_sample = 1, .samples = {}, .summary = {}, .stopped_because = ""};
  m.throughput->summary.median = static_cast<double>(bytes.count) * factor / (busbw * 1e9);
  return m;
}

Grade grade_of(const Collective& collective, Bytes bytes, double busbw, int ranks = 8, int nodes = 1) {
  return judge(measured(collective, bytes, busbw, ranks, nodes, "sim"), gpu_limits(), machine(nodes), {}).grade;
}

TEST(Judge, holds_single_nics_against_each_other_and_says_where_the_data_was) {
  Measurement m = measured(find_collective("p2p"), MiB(1), 6.9, 2, 2, "ofi");
  m.measured_case.nic = 0;
  const topo::Limits limits{{std::string(topo::one_nic), topo::Level::wire, {12.5}, "nic", "made up"}};
  const auto because = [&] { return judge(m, limits, machine(2), {}).because; };
  EXPECT_EQ(judge(m, limits, machine(2), {}).grade, Grade::unknown);
  EXPECT_NE(because().find("data in host memory"), std::string::npos) << because();
  m.selection = Selection{"write", "", 0, "the worker", "host memory"};
  EXPECT_EQ(because().find("moved by"), std::string::npos) << because();
  m.selection = Selection{"write", "device read", 0, "counters of the NICs", std::string(memory_of_gpus)};
  EXPECT_NE(because().find("data in GPU memory, moved by device read"), std::string::npos) << because();
  m.measured_case.nic.reset();
  EXPECT_EQ(because().find("host memory"), std::string::npos) << because();
  m.measured_case.nic = 0;
  m.selection->memory = "host memory";
  m.selection->protocol = packets_protocol;
  EXPECT_NE(because().find("without device RDMA"), std::string::npos) << because();
  m.measured_case.nic.reset();
  EXPECT_NE(because().find("host memory, which feeds 63 of the 400 GB/s"), std::string::npos) << because();
}

TEST(Judge, has_a_bar_for_each_share_of_a_rank_against_nvlink) {
  EXPECT_EQ(grade_of(all_reduce, MiB(8 * 15), link_rate), Grade::unknown);
  EXPECT_EQ(grade_of(all_reduce, MiB(8 * 16), 0.66 * link_rate), Grade::ok);
  EXPECT_EQ(grade_of(all_reduce, MiB(8 * 16), 0.64 * link_rate), Grade::slow);
  EXPECT_EQ(grade_of(all_gather, MiB(8 * 256), 0.84 * link_rate), Grade::ok);
  EXPECT_EQ(grade_of(all_gather, MiB(8 * 256), 0.82 * link_rate), Grade::slow);
}

// 2 x H200 (18 NVLinks, NVLS off, NCCL 2.28.3) reach 0.50 to 0.77 in gather where four reach 0.88, and are healthy.
TEST(Judge, does_not_hold_two_ranks_against_what_four_reach) {
  for (const Collective* each : {&all_reduce, &all_gather, &reduce_scatter, &all_to_all, &broadcast}) {
    EXPECT_EQ(grade_of(*each, GiB(4), 0.6 * link_rate, 2), Grade::unknown) << each->name;
    EXPECT_EQ(grade_of(*each, GiB(4), 0.6 * link_rate, 4), Grade::slow) << each->name;
  }
}

TEST(Judge, has_pairs_own_bars_against_nvlink) {
  EXPECT_EQ(grade_of(p2p, MiB(256), 0.6 * link_rate, 2), Grade::unknown);
  EXPECT_EQ(grade_of(p2p, MiB(512), 0.86 * link_rate, 2), Grade::ok);
  EXPECT_EQ(grade_of(p2p, MiB(512), 0.84 * link_rate, 2), Grade::slow);
}

// Four GPUs on a board without NVSwitch: 6 of the 18 NVLinks of each lead to each other one.
TEST(Judge, holds_a_pair_against_the_links_that_join_it) {
  const topo::Limits limits{{std::string(topo::gpu_pair), topo::Level::achievable, {123.6}, "nvlink", "made up"}};
  const auto grade = [&](const Collective& collective, double busbw, int ranks) {
    return judge(measured(collective, GiB(4), busbw, ranks, 1, "nccl"), limits, machine(1), {}).grade;
  };
  EXPECT_EQ(grade(p2p, 120, 2), Grade::ok);
  EXPECT_EQ(grade(p2p, 80, 2), Grade::slow);
  EXPECT_EQ(grade(all_gather, 350, 4), Grade::ok);
  EXPECT_EQ(grade(all_gather, 120, 4), Grade::slow);
  EXPECT_EQ(grade(all_to_all, 120, 4), Grade::unknown);
}

TEST(Judge, judges_other_collectives_within_a_node_by_what_was_measured_of_them) {
  for (const Collective* each : {&reduce_scatter, &all_to_all, &broadcast}) {
    EXPECT_EQ(grade_of(*each, MiB(8 * 15), link_rate), Grade::unknown) << each->name;
    EXPECT_EQ(grade_of(*each, MiB(8 * 16), 0.66 * link_rate), Grade::ok) << each->name;
    EXPECT_EQ(grade_of(*each, MiB(8 * 16), 0.64 * link_rate), Grade::slow) << each->name;
    EXPECT_EQ(grade_of(*each, MiB(8 * 256), 0.82 * link_rate), Grade::slow) << each->name;
  }
  EXPECT_EQ(grade_of(send_recv, MiB(256), 0.6 * link_rate), Grade::unknown);
  EXPECT_EQ(grade_of(send_recv, MiB(512), 0.86 * link_rate), Grade::ok);
  EXPECT_EQ(grade_of(send_recv, MiB(512), 0.84 * link_rate), Grade::slow);
}

// Four of twelve samples are five times as slow: the median does not change.
TEST(Judge, tells_a_share_from_the_one_that_it_is_compared_with) {
  EXPECT_EQ(percent_beside(0.758046, 0.76), "75.8 %");
  EXPECT_EQ(percent_beside(0.76, 0.758046), "76 %");
  EXPECT_EQ(percent_beside(0.762936, 0.76), "76.3 %");
  EXPECT_EQ(percent_beside(0.7599, 0.76), "75.99 %");
  EXPECT_EQ(percent_beside(0.76, 0.76), "76 %");
  EXPECT_EQ(percent_beside(0.516, 0.517), "51.6 %");
  EXPECT_EQ(percent_beside(0.9961, 0.76), "100 %");
  EXPECT_EQ(percent_beside(0.5, {}), "50 %");
  for (const double off : {-0.004, -0.001, -0.0001, 0.001, 0.004}) {
    const Measurement m = measured(all_gather, MiB(8 * 256), (0.83 + off) * link_rate, 8, 1, "sim");
    const Verdict verdict = judge(m, gpu_limits(), machine(1), {});
    EXPECT_EQ(verdict.grade, off < 0 ? Grade::slow : Grade::ok);
    EXPECT_DOUBLE_EQ(*verdict.least_fraction, 0.83);
    EXPECT_NE(verdict.because.find("; good from 83 %: "), std::string::npos) << verdict.because;
    EXPECT_NE(verdict.because.substr(0, 5), "83 % ") << verdict.because;
  }
}

TEST(Judge, does_not_let_the_median_hide_slow_samples) {
  const auto grade = [](const topo::Topology& topology, int slow, double times) {
    Measurement m = measured(all_reduce, GiB(4), 0.97 * link_rate, 8, 1, "nccl");
    std::vector<double> samples(12, m.throughput->summary.median);
    for (int i = 0; i < slow; ++i) samples[static_cast<std::size_t>(i)] *= times;
    m.throughput->summary = summarize(samples);
    return judge(m, gpu_limits(), topology, {});
  };
  topo::Topology without_bar;
  for (const topo::Topology& topology : {machine(1), without_bar}) {
    EXPECT_NE(grade(topology, 2, 50).grade, Grade::slow);  // two delays
    const Verdict verdict = grade(topology, 4, 5);
    EXPECT_EQ(verdict.grade, Grade::slow) << verdict.because;
    EXPECT_NEAR(*verdict.fraction, 0.97, 0.001);
    EXPECT_NEAR(*verdict.mean_fraction, 0.97 * 10 / 18, 0.001);
    EXPECT_NE(verdict.because.find("1.8 times the median"), std::string::npos) << verdict.because;
  }
  EXPECT_EQ(grade(machine(1), 4, 1.2).grade, Grade::ok);  // the mean is above the bar
}

// A rank that waits for a processor core makes a sample longer, never shorter.
TEST(Judge, withdraws_slow_where_ranks_waited_and_the_fastest_sample_is_not) {
  Report report;
  report.limits = gpu_limits();
  report.topology = machine(2);
  report.topology.host_of_rank = {0, 0, 1, 1};
  const auto verdict = [&](double median_busbw, double fastest_busbw, const Group& slowest, const std::set<int>& busy) {
    Measurement m = measured(all_reduce, GiB(4), median_busbw, 16, 2, "nccl");
    m.slowest_group = slowest;
    m.throughput->summary.min = m.throughput->summary.median * median_busbw / fastest_busbw;
    report.results = {{m, judge(m, report.limits, report.topology, {})}};
    EXPECT_EQ(report.results[0].verdict.grade, Grade::slow);
    const std::map<int, std::size_t> withdrawn = withdraw_slow_by_waiting(report, busy);
    EXPECT_EQ(withdrawn.empty(), report.results[0].verdict.grade == Grade::slow);
    return report.results[0].verdict;
  };
  const double slow = 0.4 * nics_rate, fast = 1.2 * nics_rate;
  EXPECT_EQ(verdict(slow, fast, {}, {}).grade, Grade::slow) << "nobody waited";
  EXPECT_EQ(verdict(slow, slow, {}, {1}).grade, Grade::slow) << "slow throughout";
  EXPECT_EQ(verdict(slow, fast, {0, 1}, {1}).grade, Grade::slow) << "others waited";
  for (const Group& slowest : {Group{}, Group{1, 2}}) {
    const Verdict withdrawn = verdict(slow, fast, slowest, {1});
    EXPECT_EQ(withdrawn.grade, Grade::unknown);
    EXPECT_NE(withdrawn.because.find("not judged: ranks waited for processor cores"), std::string::npos);
  }
  // The report keeps no slowest group of collectives, but the groups.
  for (const int busy : {0, 1}) {
    Measurement m = measured(all_reduce, GiB(4), slow, 16, 2, "nccl");
    m.groups = {{{0, 1}, {1e-3}}, {{2, 3}, {2e-3}}};
    m.throughput->summary.min = m.throughput->summary.median * slow / fast;
    report.results = {{m, judge(m, report.limits, report.topology, {})}};
    EXPECT_EQ(withdraw_slow_by_waiting(report, {busy}).size(), busy == 1 ? 1u : 0u)
        << "the group of node 1 is the slowest";
  }
}

// Each node alone: node 0, whose ranks waited, is the slowest, and fast in one sample.
TEST(Judge, keeps_slow_where_another_group_is_steadily_slow_and_counts_by_nodes_of_the_slowest) {
  Report report;
  report.limits = gpu_limits();
  report.topology = machine(1);
  report.topology.hosts.resize(2);
  report.topology.host_of_rank = {0, 0, 0, 0, 1, 1, 1, 1};
  Measurement m = measured(all_gather, GiB(4), 0.4 * link_rate, 4, 1, "nccl");
  const double slow = m.throughput->summary.median, fast = 0.4 * slow;
  const auto f = [](double time) { return static_cast<float>(time); };
  m.throughput->summary.min = fast;
  const GroupResult of_node_0{{0, 1, 2, 3}, {slow}, {f(slow), f(fast), f(slow)}};
  using Counts = std::map<int, std::size_t>;
  const auto withdrawn = [&](std::vector<GroupResult> groups, const std::set<int>& busy) {
    m.groups = std::move(groups);
    report.results = {{m, judge(m, report.limits, report.topology, {})}};
    EXPECT_EQ(report.results[0].verdict.grade, Grade::slow);
    return withdraw_slow_by_waiting(report, busy);
  };
  const auto of_node_1 = [&](double median, std::vector<float> samples) {
    return GroupResult{{4, 5, 6, 7}, {median}, std::move(samples)};
  };
  const std::vector<float> steady(3, f(0.9 * slow)), unsteady{f(0.9 * slow), f(fast), f(0.9 * slow)};
  EXPECT_EQ(withdrawn({of_node_0, of_node_1(0.9 * slow, steady)}, {0}), Counts()) << "node 1 is slow, and did not wait";
  EXPECT_EQ(withdrawn({of_node_0, of_node_1(0.9 * slow, {})}, {0}), Counts()) << "the same without samples";
  EXPECT_EQ(report.results[0].verdict.grade, Grade::slow);
  EXPECT_EQ(withdrawn({of_node_0, of_node_1(fast, {})}, {0}), (Counts{{0, 1}}));
  EXPECT_EQ(withdrawn({of_node_0, of_node_1(0.9 * slow, steady)}, {0, 1}), Counts()) << "node 1 is slow throughout";
  EXPECT_EQ(withdrawn({of_node_0, of_node_1(0.9 * slow, unsteady)}, {0, 1}), (Counts{{0, 1}}));
  EXPECT_EQ(withdrawn({of_node_0, of_node_1(fast, {})}, {0, 1}), (Counts{{0, 1}})) << "node 1 waited, and is not slow";
  EXPECT_EQ(withdrawn({}, {0, 1}), (Counts{{0, 1}, {1, 1}})) << "the group is unknown";
}

TEST(Judge, is_unknown_and_never_ok_where_a_collective_has_no_bar) {
  topo::Limits limits = gpu_limits();
  limits[2].rate = {200};  // a node's NICs: less than a GPU's link
  const auto at_full_speed = [&](const Collective& each, int nodes) {
    return judge(measured(each, GiB(64), nodes > 1 ? 200 : link_rate, 8 * nodes, nodes, "sim"), limits, machine(nodes),
                 {});
  };
  EXPECT_EQ(at_full_speed(reduce, 1).grade, Grade::unknown);
  for (const Collective* each : {&reduce_scatter, &broadcast, &reduce, &send_recv})
    EXPECT_EQ(at_full_speed(*each, 2).grade, Grade::unknown) << each->name;
  for (const Collective* each : {&reduce_scatter, &broadcast, &reduce, &all_to_all, &send_recv}) {
    const Verdict v = judge(measured(*each, GiB(1), copy_all, 4, 1, "mpi"), host_limits(), one_host(4), {});
    EXPECT_EQ(v.grade, Grade::unknown) << each->name;
    EXPECT_NE(v.because.find("are known for " + std::string(each->name)), std::string::npos) << v.because;
    EXPECT_TRUE(v.fraction.has_value());
  }
}

// Two nodes of eight: a GPU's own NICs carry 8 of its 15 blocks, the other seven stay within the node.
TEST(Judge, binds_an_exchange_between_nodes_by_the_blocks_that_leave_them) {
  const auto verdict = [](double busbw) {
    return judge(measured(all_to_all, MiB(16 * 32), busbw, 16, 2, "sim"), gpu_limits(), machine(2), {});
  };
  EXPECT_DOUBLE_EQ(verdict(1).limit->count, nic_rate * 15 / 8);
  EXPECT_EQ(verdict(1).binding, "nic");
  EXPECT_EQ(verdict(0.81 * nic_rate * 15 / 8).grade, Grade::ok);
  EXPECT_EQ(verdict(0.79 * nic_rate * 15 / 8).grade, Grade::slow);
  EXPECT_EQ(
      judge(measured(all_to_all, MiB(16 * 8), 0.75 * nic_rate * 15 / 8, 16, 2, "sim"), gpu_limits(), machine(2), {})
          .grade,
      Grade::ok);
}

TEST(Judge, binds_a_ring_of_messages_by_one_ranks_nics_and_other_rings_by_all_of_a_node) {
  const auto limit = [](const Collective& each, const topo::Limits& limits) {
    return judge(measured(each, GiB(4), 1, 16, 2, "sim"), limits, {}, {}).limit->count;
  };
  EXPECT_DOUBLE_EQ(limit(send_recv, gpu_limits()), nic_rate);
  topo::Limits narrow = gpu_limits();
  narrow[2].rate = {200};  // less than a GPU's link
  for (const Collective* each : {&all_gather, &reduce_scatter, &broadcast, &reduce})
    EXPECT_DOUBLE_EQ(limit(*each, narrow), 200) << each->name;
}

// Two p4d with 16 ranks: 12.5 GB/s for the one GPU of a host that sends to the other host, or half of it for each of
// eight that do.
TEST(Judge, binds_a_ring_of_messages_by_the_ranks_of_a_host_that_leave_it) {
  const topo::Limits limits = topo::limits_of(topo::find_platform("p4d.24xlarge"));
  topo::Topology topology = topo::synthetic(topo::find_platform("p4d.24xlarge"), 2);
  Measurement m = measured(send_recv, GiB(1), 5.2, 16, 2, "nccl");
  Group all(16);
  for (int rank = 0; rank < 16; ++rank) all[static_cast<std::size_t>(rank)] = rank;
  m.measured_case.rounds = std::make_shared<const std::vector<Round>>(3, Round{all});
  EXPECT_EQ(ranks_at_once(m.measured_case, topology), 1);
  EXPECT_EQ(judge(m, limits, topology, {}).grade, Grade::slow);
  for (std::size_t rank = 0; rank < 16; ++rank) topology.host_of_rank[rank] = static_cast<int>(rank % 2);
  EXPECT_EQ(ranks_at_once(m.measured_case, topology), 8);
  const Verdict in_turns = judge(m, limits, topology, {});
  EXPECT_NE(in_turns.grade, Grade::slow) << in_turns.because;
  EXPECT_NEAR(*in_turns.fraction, 0.98, 0.01);
}

TEST(Judge, counts_the_ranks_that_use_the_nics_of_a_host_over_all_groups) {
  const topo::Topology topology = topo::synthetic(topo::find_platform("p4d.24xlarge"), 2);
  Case c = measured(all_gather, GiB(1), 5, 2, 2, "nccl").measured_case;
  c.rounds = std::make_shared<const std::vector<Round>>(std::vector<Round>{{{0, 8}, {1, 9}, {2, 3}}});
  EXPECT_EQ(ranks_at_once(c, topology), 2) << "a group within a host uses none";
  c.nodes = 1;
  EXPECT_EQ(ranks_at_once(c, topology), std::nullopt);
  c.nodes = 2;
  c.rounds = nullptr;
  EXPECT_EQ(ranks_at_once(c, topology), std::nullopt) << "as of an import";
}

// Eight ranks on one p4d and four on another, which have its four NICs for themselves.
TEST(Judge, binds_unequal_hosts_by_the_one_with_the_fewest_ranks) {
  const topo::Limits limits = topo::limits_of(topo::find_platform("p4d.24xlarge"));
  topo::Topology topology = topo::synthetic(topo::find_platform("p4d.24xlarge"), 2);
  topology.host_of_rank = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1};
  Group all(12);
  for (int rank = 0; rank < 12; ++rank) all[static_cast<std::size_t>(rank)] = rank;
  const auto limit = [&](const Collective& collective) {
    Measurement m = measured(collective, GiB(1), 5, 12, 2, "nccl");
    m.measured_case.fewest_per_domain = 4;
    m.measured_case.rounds = std::make_shared<const std::vector<Round>>(1, Round{all});
    return judge(m, limits, topology, {}).limit.value().count;
  };
  EXPECT_NEAR(limit(all_gather), 4 * 12.5 * 0.85, 1e-9);
  EXPECT_NEAR(limit(all_to_all), 12.5 * 0.85 * 11 / 8, 1e-9);
}

// Two of three p4d have eight ranks, of which two share a NIC and send 12 of 19 blocks through it, and one has four.
TEST(Judge, binds_unequal_hosts_in_an_exchange_by_the_one_that_takes_longest_and_a_star_by_the_roots) {
  const topo::Limits limits = topo::limits_of(topo::find_platform("p4d.24xlarge"));
  topo::Topology topology = topo::synthetic(topo::find_platform("p4d.24xlarge"), 3);
  topology.host_of_rank = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2};
  Group all(20);
  for (int rank = 0; rank < 20; ++rank) all[static_cast<std::size_t>(rank)] = rank;
  const auto limit = [&](const Collective& collective, std::optional<int> root = {}) {
    Measurement m = measured(collective, GiB(1), 5, 20, 3, "nccl");
    m.measured_case.fewest_per_domain = 4;
    m.measured_case.root = root;
    m.measured_case.every_root = collective.rooted && !root;
    m.measured_case.rounds = std::make_shared<const std::vector<Round>>(1, Round{all});
    return judge(m, limits, topology, {}).limit.value().count;
  };
  EXPECT_NEAR(limit(all_to_all), 6.25 * 0.85 * 19 / 12, 1e-9);
  EXPECT_NEAR(limit(gather, 0), 12.5 * 0.85 * 19 / 12, 1e-9) << "12 blocks pass the NIC of the root";
  EXPECT_NEAR(limit(gather, 19), 12.5 * 0.85 * 19 / 16, 1e-9);
  EXPECT_NEAR(limit(scatter), 12.5 * 0.85 * 19 / 16, 1e-9) << "the slowest of all roots";
  EXPECT_NEAR(limit(all_gather), 4 * 12.5 * 0.85, 1e-9);
  EXPECT_NEAR(limit(send_recv), 12.5 * 0.85, 1e-9);
}

// One rank on each of two p4d has a NIC alone, as a single pair has: no source shows that it saturates it.
TEST(Judge, holds_no_pairs_of_some_gpus_against_the_nics_that_all_share) {
  const topo::Limits limits = topo::limits_of(topo::find_platform("p4d.24xlarge"));
  topo::Topology topology = topo::synthetic(topo::find_platform("p4d.24xlarge"), 4);
  Measurement m = measured(p2p, GiB(1), 2, 2, 2, "nccl");
  m.measured_case.rounds = std::make_shared<const std::vector<Round>>(std::vector<Round>{{{0, 8}, {16, 24}}});
  EXPECT_EQ(judge(m, limits, topology, {}).grade, Grade::slow);
  topology.host_of_rank = {0, 1, 2, 3};
  m.measured_case.rounds = std::make_shared<const std::vector<Round>>(std::vector<Round>{{{0, 1}, {2, 3}}});
  const Verdict alone = judge(m, limits, topology, {});
  EXPECT_EQ(alone.grade, Grade::unknown);
  EXPECT_NEAR(alone.limit->count, 12.5 * 0.85, 1e-9);
}

// Between two nodes each sends only its sum, so the GPUs' links bind before the NICs; between four, the NICs do.
TEST(Judge, says_that_an_all_reduce_of_two_nodes_does_not_prove_the_nics) {
  const auto verdict = [](int nodes, double busbw) {
    Measurement m = measured(all_reduce, GiB(16), busbw, 8 * nodes, nodes, "nccl");
    m.selection = Selection{"nvls_tree", "simple", 16, "nccl log"};
    return judge(m, topo::limits_of(topo::find_platform("p5.48xlarge")), machine(nodes), {});
  };
  EXPECT_EQ(verdict(2, 487).binding, "nvls");
  EXPECT_EQ(verdict(2, 487).grade, Grade::ok);
  EXPECT_NE(verdict(2, 487).because.find("does not test them"), std::string::npos);
  EXPECT_EQ(verdict(4, 356).binding, "nic");
  EXPECT_EQ(verdict(4, 356).grade, Grade::ok);
  EXPECT_EQ(verdict(4, 356).because.find("does not test"), std::string::npos);
}

TEST(Judge, holds_what_ran_in_the_switch_against_the_switch) {
  const topo::Limits limits = topo::limits_of(topo::find_platform("p5en.48xlarge"));
  Measurement m = measured(all_reduce, GiB(16), 367, 8, 1, "nccl");
  EXPECT_EQ(judge(m, limits, {}, {}).binding, "nvlink");
  m.selection = Selection{"nvls", "simple", 16, "nccl log"};
  const Verdict v = judge(m, limits, {}, {});
  EXPECT_EQ(v.binding, "nvls");
  EXPECT_NEAR(v.limit->count, 482, 0.5);
  // Of NCCL's kernels on symmetric memory those that load by multicast are reduced by the switch.
  for (const auto& [kernel, binding] : {std::pair("allreduce_rsxldmc_agxstmc", "nvls"),
                                        {"allreduce_rsxld_agxst", "nvlink"},
                                        {"allreduce_rsxtmald_agxtmast", "nvlink"},
                                        {"allreduce_agxllmc_r", "nvlink"}}) {
    m.selection = Selection{kernel, "symmetric", 16, "nccl log"};
    EXPECT_EQ(judge(m, limits, {}, {}).binding, binding) << kernel;
  }
  const auto symmetric = [](double busbw) {
    Measurement on_symmetric_memory = measured(all_reduce, GiB(4), busbw, 8, 1, "nccl");
    on_symmetric_memory.selection = Selection{"allreduce_rsxldmc_agxstmc", "symmetric", 16, "nccl log"};
    return judge(on_symmetric_memory, topo::limits_of(topo::find_platform("hgx-h200")), machine(1), {}).grade;
  };
  EXPECT_EQ(symmetric(478), Grade::ok);
  EXPECT_EQ(symmetric(320), Grade::slow);
  m.selection = Selection{"nvls", "simple", 16, "nccl log"};
  // The machine's NVLS limit is unknown; NCCL chose NVLS, so it should exceed a ring.
  EXPECT_EQ(judge(m, gpu_limits(), {}, {}).binding, "nvlink");
}

TEST(Judge, does_not_judge_what_sources_differ_about) {
  const topo::Platform& platform = topo::find_platform("p6-b300.48xlarge");
  topo::Topology topology;
  topology.platform = platform.name;
  const Verdict v = judge(measured(all_to_all, GiB(16), 67.6, 64, 8, "nccl"), limits_of(platform), topology, {});
  EXPECT_EQ(v.grade, Grade::unknown);
  EXPECT_NE(v.because.find("103.2"), std::string::npos) << v.because;
  topology.platform = "p6e-gb200.36xlarge";
  const Verdict none = judge(measured(all_gather, GiB(4), 1, 8, 2, "nccl"),
                             limits_of(topo::find_platform(topology.platform)), topology, {});
  EXPECT_NE(none.because.find("28.8 Tb/s"), std::string::npos) << none.because;
}

// Far below all sources.
TEST(Judge, calls_slow_what_is_below_the_floor_though_sources_differ) {
  const topo::Platform& platform = topo::find_platform("p6-b300.48xlarge");
  topo::Topology topology;
  topology.platform = platform.name;
  const Verdict v = judge(measured(all_to_all, GiB(16), 20, 64, 8, "nccl"), limits_of(platform), topology, {});
  EXPECT_EQ(v.grade, Grade::slow);
  EXPECT_NE(v.because.find("on any machine"), std::string::npos) << v.because;
}

// Figures within a node are of four GPUs: the blocks of 72 with as much per rank are 18 times as small.
TEST(Judge, knows_no_floor_of_exchanges_with_many_times_the_ranks_that_were_measured) {
  const auto grade = [](const char* platform, int ranks, int nodes) {
    topo::Topology topology;
    topology.platform = platform;
    Measurement m = measured(all_to_all, MiB(16 * static_cast<std::uint64_t>(ranks)), 250, ranks, nodes, "nccl");
    m.measured_case.domains = 1;
    m.measured_case.nodes_per_domain = nodes;
    return judge(m, limits_of(topo::find_platform(platform)), topology, {}).grade;
  };
  EXPECT_EQ(grade("gb200-nvl72", 72, 18), Grade::unknown);
  EXPECT_EQ(grade("gb200-nvl72", 8, 2), Grade::slow);
  EXPECT_EQ(grade("hgx-b200", 8, 1), Grade::slow);
}

// The fabric of these instances carries 200 or 400 GB/s, whatever the kernel states.
TEST(Judge, knows_no_floor_of_nics_about_which_sources_differ) {
  topo::Topology topology;
  topology.platform = "p6e-gb200.36xlarge";
  topo::Limits limits = limits_of(topo::find_platform(topology.platform));
  limits.push_back({std::string(topo::node_nics), topo::Level::wire, {400}, "nic", "made up"});
  Measurement m = measured(all_gather, GiB(8), 185, 76, 19, "nccl");
  m.measured_case.domains = 2;
  m.measured_case.nodes_per_domain = 1;
  const Verdict v = judge(m, limits, topology, {});
  EXPECT_EQ(v.binding, "nic");
  EXPECT_EQ(v.grade, Grade::unknown);
  EXPECT_NE(v.because.find("28.8 Tb/s"), std::string::npos) << v.because;
  topology.platform = "gb200-nvl72";
  EXPECT_EQ(judge(m, limits, topology, {}).grade, Grade::slow) << "nobody disputes these";
}

// No source shows that one pair can saturate a GPU's NICs.
TEST(Judge, holds_pairs_against_the_floor_only_where_all_go_at_once) {
  const topo::Limits limits = topo::limits_of(topo::find_platform("p5.48xlarge"));
  Measurement m = measured(p2p, GiB(1), 10, 2, 2, "nccl");
  EXPECT_EQ(judge(m, limits, machine(2), {}).grade, Grade::slow);
  m.measured_case.rounds = std::make_shared<const std::vector<Round>>(std::vector<Round>{{{0, 8}}});
  EXPECT_EQ(judge(m, limits, machine(2), {}).grade, Grade::unknown);
}

TEST(Judge, knows_no_floor_of_nodes_that_are_not_used_whole) {
  const topo::Limits limits = topo::limits_of(topo::find_platform("p3dn.24xlarge"));
  topo::Topology topology;
  topology.platform = "p3dn.24xlarge";
  EXPECT_EQ(judge(measured(all_gather, GiB(4), 1, 16, 2, "nccl"), limits, topology, {}).grade, Grade::slow);
  EXPECT_EQ(judge(measured(all_gather, GiB(4), 1, 4, 2, "nccl"), limits, topology, {}).grade, Grade::unknown);
}

TEST(Judge, shares_host_memory_among_the_ranks_of_a_host) {
  const auto verdict = [](double busbw) {
    return judge(measured(all_reduce, MiB(64), busbw, 4, 1, "mpi"), host_limits(), one_host(4), {});
  };
  EXPECT_EQ(verdict(0.13 * copy_all / 4).grade, Grade::ok);
  EXPECT_EQ(verdict(0.11 * copy_all / 4).grade, Grade::slow);
  EXPECT_EQ(verdict(1).level, "wire");
  EXPECT_EQ(verdict(1).binding, "host memory");
  EXPECT_DOUBLE_EQ(verdict(1).limit->count, copy_all / 4);
  EXPECT_NEAR(*verdict(1).fraction, 0.25, 1e-9);
}

// Two nodes of four ranks each: four of seven blocks leave the node, and its ranks share the NICs.
TEST(Judge, limits_exchanges_of_host_memory_by_what_leaves_a_node) {
  const topo::Limits nics = {{std::string(topo::node_nics), topo::Level::wire, {nics_rate}, "nic", "made up"}};
  const auto limit = [&](const Collective& collective) {
    return judge(measured(collective, MiB(64), 1, 8, 2, "mpi"), nics, {}, {}).limit->count;
  };
  EXPECT_DOUBLE_EQ(limit(all_gather), nics_rate);
  EXPECT_DOUBLE_EQ(limit(gather), nics_rate * 7 / 4);
  EXPECT_DOUBLE_EQ(limit(all_to_all), nics_rate / 4 * 7 / 4);
}

TEST(Judge, is_unknown_without_a_limit) {
  const Measurement m = measured(all_reduce, GiB(1), 1, 8, 1, "sim");
  EXPECT_EQ(judge(m, {}, {}, {}).grade, Grade::unknown);
  EXPECT_EQ(judge(m, {}, {}, {}).because, "the limit is not known");
}

TEST(Judge, is_unknown_for_one_rank_alone) { EXPECT_EQ(grade_of(all_reduce, GiB(1), 1, 1), Grade::unknown); }

TEST(Judge, is_unknown_for_groups_other_than_the_world) {
  Measurement m = measured(all_reduce, GiB(4), 1, 8, 1, "sim");
  for (const char* const group : {"rail", "stride:2"}) {
    m.measured_case.group = group;
    EXPECT_EQ(judge(m, gpu_limits(), machine(1), {}).grade, Grade::unknown);
  }
}

TEST(Judge, judges_nodes_alone_by_the_bars_of_a_node_and_names_the_slowest) {
  topo::Topology two_nodes = machine(1);
  two_nodes.hosts.resize(2);
  two_nodes.hosts[0].name = "fast";
  two_nodes.hosts[1].name = "lame";
  two_nodes.host_of_rank = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  for (const double fraction : {1.0, 0.5}) {
    Measurement m = measured(all_gather, GiB(4), fraction * link_rate, 8, 1, "sim");
    m.measured_case.group = "node";
    m.groups = {{{0, 1, 2, 3, 4, 5, 6, 7}, {1e-3}}, {{8, 9, 10, 11, 12, 13, 14, 15}, {2e-3}}};
    m.slowest_group = m.groups[1].group;
    const Verdict v = judge(m, gpu_limits(), two_nodes, {});
    EXPECT_EQ(v.grade, fraction < 1 ? Grade::slow : Grade::ok);
    EXPECT_NE(v.because.find("the slowest of 2 groups, from rank 8 on lame on"), std::string::npos) << v.because;
  }
}

TEST(Judge, does_not_judge_speed_where_figures_are_unfit_but_does_judge_data) {
  const Comparability unfit{.comparable = false, .why_not = "ranks share cores"};
  Measurement m = measured(all_reduce, GiB(4), 1, 8, 1, "sim");
  const Verdict speed = judge(m, gpu_limits(), machine(1), unfit);
  EXPECT_EQ(speed.grade, Grade::unknown);
  EXPECT_NE(speed.because.find("ranks share cores"), std::string::npos);
  EXPECT_TRUE(speed.fraction.has_value());
  m.wrong_elements = 1;
  EXPECT_EQ(judge(m, gpu_limits(), machine(1), unfit).grade, Grade::wrong);
}

TEST(Judge, leaves_out_the_groups_of_hosts_whose_gpus_others_use) {
  topo::Topology topology = machine(1);
  topology.hosts.resize(3);
  for (std::size_t host = 0; host < 3; ++host) {
    topology.hosts[host].name = "h" + std::to_string(host);
    topology.host_of_rank.insert(topology.host_of_rank.end(), 8, static_cast<int>(host));
  }
  const Comparability beside{.comparable = true, .why_not = "others", .shared_hosts = {0}};
  Measurement m = measured(all_gather, GiB(4), 0.3 * link_rate, 8, 1, "sim");
  m.measured_case.group = "node";
  const Seconds slowest{m.throughput->summary.median};
  const Seconds fast{0.3 * slowest.count}, slow{0.6 * slowest.count};
  m.groups = {{{0, 1, 2, 3, 4, 5, 6, 7}, slowest},
              {{8, 9, 10, 11, 12, 13, 14, 15}, fast},
              {{16, 17, 18, 19, 20, 21, 22, 23}, fast}};
  m.slowest_group = m.groups[0].group;
  EXPECT_EQ(judge(m, gpu_limits(), topology, {}).grade, Grade::slow);
  const Verdict sound = judge(m, gpu_limits(), topology, beside);
  EXPECT_EQ(sound.grade, Grade::ok) << sound.because;
  EXPECT_EQ(sound.not_judged_hosts, std::vector<std::string>{"h0"});
  EXPECT_NE(sound.because.find("; without h0: others"), std::string::npos) << sound.because;
  m.groups[2].median = slow;
  const Verdict other = judge(m, gpu_limits(), topology, beside);
  EXPECT_EQ(other.grade, Grade::slow);
  EXPECT_NE(other.because.find("the slowest of 2 groups, from rank 16 on h2"), std::string::npos) << other.because;
  Comparability all = beside;
  all.shared_hosts = {0, 1, 2};
  const Verdict none = judge(m, gpu_limits(), topology, all);
  EXPECT_EQ(none.grade, Grade::unknown);
  EXPECT_EQ(none.because, "not judged: others");
  EXPECT_EQ(none.not_judged_hosts.size(), 3U);
  m.groups.clear();
  EXPECT_EQ(judge(m, gpu_limits(), topology, beside).grade, Grade::unknown) << "of all ranks together";
  m.wrong_elements = 1;
  EXPECT_EQ(judge(m, gpu_limits(), topology, beside).grade, Grade::wrong);
}

TEST(Judge, withdraws_what_waited_for_cores_beside_hosts_whose_gpus_others_use) {
  Report report;
  report.limits = gpu_limits();
  report.topology = machine(1);
  report.topology.hosts.resize(2);
  report.topology.hosts[0].name = "h0";
  report.topology.hosts[1].name = "h1";
  report.topology.host_of_rank = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  Result& result = report.results.emplace_back();
  Measurement& m = result.measurement = measured(all_gather, GiB(4), 0.3 * link_rate, 8, 1, "sim");
  m.measured_case.group = "node";
  const double slowest = m.throughput->summary.median;
  const auto fast = static_cast<float>(0.3 * slowest), slow = static_cast<float>(0.6 * slowest);
  m.groups = {{{0, 1, 2, 3, 4, 5, 6, 7}, {slowest}},
              {{8, 9, 10, 11, 12, 13, 14, 15}, {slow}, {fast, slow, slow, slow}}};
  m.slowest_group = m.groups[0].group;
  result.verdict =
      judge(m, report.limits, report.topology, {.comparable = true, .why_not = "others", .shared_hosts = {0}});
  ASSERT_EQ(result.verdict.grade, Grade::slow);
  EXPECT_EQ(withdraw_slow_by_waiting(report, {1}), (std::map<int, std::size_t>{{1, 1}}));
  EXPECT_EQ(result.verdict.grade, Grade::unknown);
}

TEST(Judge, says_where_data_is_wrong) {
  Measurement m = measured(all_reduce, {8}, 1, 8, 1, "sim");
  m.wrong_elements = 3;
  m.first_wrong = WrongElement{.rank = 5, .offset = 7, .wanted = "1.5", .got = "2"};
  EXPECT_EQ(judge(m, gpu_limits(), {}, {}).because,
            "3 wrong elements; the first at rank 5, element 7: wanted 1.5, got 2");
}

// As of a pair that corrupts data in one round and crashes in another.
TEST(Judge, calls_wrong_what_failed_too) {
  Report report;
  Measurement& m = report.results.emplace_back().measurement;
  m = measured(p2p, {8}, 1, 2, 1, "sim");
  m.outcome = Outcome::failed;
  m.because = "rank 3 in sample: it died";
  m.wrong_elements = 3;
  for (const bool with_times : {true, false}) {
    if (!with_times) m.throughput.reset();
    report.results[0].verdict = judge(m, gpu_limits(), {}, {});
    EXPECT_EQ(report.results[0].verdict.grade, Grade::wrong);
    EXPECT_EQ(report.results[0].verdict.because, "3 wrong elements; and it failed: rank 3 in sample: it died");
    EXPECT_EQ(overall(report), Grade::wrong);
    EXPECT_EQ(exit_code(report), ExitCode::wrong_data);
  }
}

TEST(Judge, calls_failed_what_failed_and_unknown_what_was_skipped) {
  Measurement m = measured(all_reduce, {8}, 1, 8, 1, "sim");
  m.outcome = Outcome::failed;
  m.because = "rank 3 in open: no memory";
  EXPECT_EQ(judge(m, gpu_limits(), {}, {}).grade, Grade::failed);
  EXPECT_EQ(judge(m, gpu_limits(), {}, {}).because, "rank 3 in open: no memory");
  m.outcome = Outcome::skipped;
  EXPECT_EQ(judge(m, gpu_limits(), {}, {}).grade, Grade::unknown);
}

Report with(std::initializer_list<Grade> grades) {
  Report report;
  for (Grade grade : grades) report.results.emplace_back().verdict.grade = grade;
  return report;
}

TEST(Grades, the_worst_decides_over_the_run) {
  using enum Grade;
  EXPECT_EQ(overall(with({unknown, ok, slow, failed, wrong})), wrong);
  EXPECT_EQ(overall(with({ok, failed, slow})), failed);
  EXPECT_EQ(overall(with({ok, slow, unknown})), slow);
  EXPECT_EQ(overall(with({unknown, ok})), ok);
  EXPECT_EQ(overall(with({unknown})), unknown);
  EXPECT_EQ(overall({}), unknown);
}

TEST(Grades, have_exit_codes_in_their_order) {
  using enum Grade;
  EXPECT_EQ(exit_code(with({ok, slow, failed, wrong})), ExitCode::wrong_data);
  EXPECT_EQ(exit_code(with({slow, failed})), ExitCode::unfinished);
  EXPECT_EQ(exit_code(with({slow, ok})), ExitCode::slow);
  EXPECT_EQ(exit_code(with({unknown, ok})), ExitCode::ok);
  EXPECT_EQ(exit_code(with({})), ExitCode::ok);
}

Report found(std::initializer_list<Grade> grades, topo::Severity severity, std::optional<topo::About> about) {
  Report report = with(grades);
  report.findings.emplace_back().severity = topo::Severity::info;
  topo::Finding& finding = report.findings.emplace_back();
  finding.severity = severity;
  finding.about = about;
  return report;
}

TEST(Grades, are_faulty_with_an_error_in_hardware_or_fabric_unless_the_data_says_worse) {
  using enum Grade;
  for (const topo::About about : {topo::About::hardware, topo::About::fabric}) {
    const auto beside = [&](std::initializer_list<Grade> grades) {
      return found(grades, topo::Severity::error, about);
    };
    EXPECT_EQ(overall(beside({})), faulty);
    EXPECT_EQ(overall(beside({ok, unknown})), faulty);
    EXPECT_EQ(overall(beside({ok, slow})), faulty);
    EXPECT_EQ(overall(beside({ok, failed})), failed);
    EXPECT_EQ(overall(beside({ok, failed, wrong})), wrong);
    EXPECT_EQ(exit_code(beside({ok})), ExitCode::slow);
    EXPECT_EQ(exit_code(beside({})), ExitCode::slow);
    EXPECT_EQ(exit_code(beside({failed})), ExitCode::unfinished);
    EXPECT_EQ(exit_code(beside({wrong})), ExitCode::wrong_data);
  }
}

TEST(Grades, are_not_faulty_for_what_needs_no_other_machine) {
  using enum topo::About;
  using enum topo::Severity;
  const auto is_ok = [](topo::Severity severity, std::optional<topo::About> about) {
    const Report report = found({Grade::ok}, severity, about);
    return overall(report) == Grade::ok && exit_code(report) == ExitCode::ok;
  };
  for (const auto about : {software, settings, host}) EXPECT_TRUE(is_ok(error, about)) << topo::name_of(about);
  for (const auto about : {hardware, fabric, software, settings, host}) {
    EXPECT_TRUE(is_ok(warning, about)) << topo::name_of(about);
    EXPECT_TRUE(is_ok(info, about)) << topo::name_of(about);
  }
  EXPECT_TRUE(is_ok(error, std::nullopt)) << "a report that is older than the question";
}

TEST(ExitCodes, are_worse_in_the_order_wrong_unfinished_environment_slow_inconclusive) {
  using enum ExitCode;
  const std::vector order{wrong_data, unfinished, environment, slow, inconclusive, ok};
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t j = i; j < order.size(); ++j) {
      EXPECT_EQ(worse(order[i], order[j]), order[i]);
      EXPECT_EQ(worse(order[j], order[i]), order[i]);
    }
}

TEST(Judge, leaves_sizes_with_fewer_pairs_to_those_with_all) {
  std::vector<Result> results;
  const auto add = [&](Bytes size, int pairs, Grade grade) {
    Result& result = results.emplace_back();
    Measurement& m = result.measurement;
    m.measured_case.backend = "nccl";
    m.measured_case.collective = &p2p;
    m.measured_case.pattern = "one_way";
    m.measured_case.pair = "same_node";
    m.measured_case.bytes = size;
    for (int i = 0; i < pairs; ++i) m.groups.push_back({{0, i + 1}, {1e-3}});
    m.outcome = Outcome::measured;
    result.verdict.grade = grade;
  };
  add(MiB(256), 1, Grade::slow);
  add(MiB(512), 28, Grade::ok);
  add(GiB(4), 1, Grade::ok);
  withdraw_sampled_pairs(results);
  EXPECT_EQ(results[0].verdict.grade, Grade::slow) << "a pair that is slow is slow";
  EXPECT_EQ(results[1].verdict.grade, Grade::ok);
  EXPECT_EQ(results[2].verdict.grade, Grade::unknown);
  EXPECT_THAT(results[2].verdict.because, testing::HasSubstr("fewer pairs than 512 MiB"));
}

}  // namespace
}  // namespace p5::reports
