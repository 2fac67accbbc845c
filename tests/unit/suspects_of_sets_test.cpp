// Faults that many nodes have in common or that hosts of unequal ranks have: sets of nodes, rails, shared NICs.
#include "reports/suspects.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "bench/base/statistics.hpp"
#include "bench/model/groups.hpp"
#include "reports/nodes.hpp"
#include "reports/part_names.hpp"
#include "tests/unit/clusters.hpp"

namespace p5::reports {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Nodes below `first` reach the others slowly.
Longer slow_between_sets(int first) {
  return [=](int a, int, int b, int) { return (a < first) != (b < first) ? 1 / 0.7 : 1.0; };
}

// Nodes of `ones` reach those of `others` slowly, and all nodes reach the rest fast.
Longer slow_between(const std::set<int>& ones, const std::set<int>& others) {
  return [=](int a, int, int b, int) {
    const auto join = [&](int one, int other) { return ones.contains(one) && others.contains(other); };
    return join(a, b) || join(b, a) ? 1 / 0.7 : 1.0;
  };
}

// A report with twelve samples of each pair between nodes, of which this share takes longer.
Report report_of_samples(const Cluster& cluster, const Longer& share_of_long) {
  Report report = report_of(cluster, 1);
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform;
  for (Result& result : report.results) {
    if (result.measurement.measured_case.pair != "other_node") continue;
    for (GroupResult& its : result.measurement.groups) {
      const int a = its.group.front(), b = its.group.back(), gpus = cluster.gpus;
      const double share = share_of_long(a / gpus, a % gpus, b / gpus, b % gpus);
      const auto time = static_cast<float>(its.median.count);
      for (int sample = 0; sample < 12; ++sample)
        its.samples.push_back(share > 0 && uniform(random) < share ? 1.15F * time : time);
      its.median = Seconds{median(std::vector<double>(its.samples.begin(), its.samples.end()))};
    }
  }
  return report;
}

TEST(SuspectsOfSets, are_one_where_the_links_between_two_sets_of_nodes_are_slow) {
  struct Sets {
    const char* platform;
    int nodes, gpus, first;
    std::string name;
  };
  for (const Sets& each :
       std::vector<Sets>{{"p5.48xlarge", 4, 8, 2, "link n0,n1-n2,n3"},
                         {"p5.48xlarge", 12, 8, 6, "link n0,n1,n2,n3,n4,n5-n6,n7,n8,n9,n10,n11"},
                         {"p5.4xlarge", 8, 1, 4, "link n0,n1,n2,n3-n4,n5,n6,n7"},
                         {"p5.4xlarge", 16, 1, 8, "link n0,n1,n2,n3,n4,n5,n6,n7-n8,n9,n10,n11,n12,n13,n14,n15"},
                         {"p3dn.24xlarge", 8, 8, 4, "link n0,n1,n2,n3-n4,n5,n6,n7"},
                         {"p4d.24xlarge", 8, 8, 2, "link n0,n1-n2,n3,n4,n5,n6,n7"}}) {
    SCOPED_TRACE(each.name);
    const Cluster cluster{.platform = each.platform,
                          .nodes = each.nodes,
                          .gpus = each.gpus,
                          .most_shifts = each.nodes > 4 ? 1 : 8,
                          .longer = slow_between_sets(each.first)};
    const Diagnosis found = diagnose(report_of(cluster, 1), {});
    EXPECT_THAT(found.questions, IsEmpty());
    ASSERT_EQ(found.suspects.size(), 1U);
    EXPECT_EQ(found.suspects[0].kind + " " + found.suspects[0].name + found.suspects[0].host, each.name);
    EXPECT_THAT(found.suspects[0].evidence, HasSubstr(" of the others' rate, over"));
    EXPECT_THAT(found.suspects[0].action, HasSubstr("keep each job within one set"));
  }
}

TEST(SuspectsOfSets, are_found_where_few_of_their_samples_are_slow) {
  struct Sets {
    const char* platform;
    int nodes, gpus, first;
    double share;
  };
  for (const Sets& each :
       {Sets{"p5.48xlarge", 4, 8, 2, 0.1}, Sets{"p5.48xlarge", 4, 8, 2, 0.5}, Sets{"p5.48xlarge", 8, 8, 2, 0.1},
        Sets{"p5.4xlarge", 16, 1, 8, 0.2}, Sets{"p5.4xlarge", 16, 1, 8, 0.5}}) {
    SCOPED_TRACE(testing::Message() << each.nodes << " nodes of " << each.platform << ", " << each.share);
    const Report report = report_of_samples(
        {.platform = each.platform, .nodes = each.nodes, .gpus = each.gpus, .most_shifts = 2, .outliers = 0},
        [&](int a, int, int b, int) { return (a < each.first) != (b < each.first) ? each.share : 0; });
    const std::vector<Suspect> found = diagnose(report, {}).suspects;
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(pairs_joined_by(part_of(found[0]).value()).size(),
              static_cast<std::size_t>(each.first * (each.nodes - each.first)));
  }
}

TEST(SuspectsOfSets, have_no_node_that_all_others_reach_fast) {
  EXPECT_THAT(names({.nodes = 9, .most_shifts = 1, .longer = slow_between({0, 1, 2}, {3, 4, 5})}),
              ElementsAre("link n0,n1,n2-n3,n4,n5"));
  EXPECT_THAT(names({.nodes = 8, .most_shifts = 1, .longer = slow_between({0, 2}, {1, 3})}),
              ElementsAre("link n0,n2-n1,n3"));
  EXPECT_THAT(
      names({.platform = "p5.4xlarge", .nodes = 12, .gpus = 1, .longer = slow_between({0, 1, 2, 3}, {4, 5, 6, 7})}),
      ElementsAre("link n0,n1,n2,n3-n4,n5,n6,n7"));
}

// Most nodes are in no set: with them in one, pairs of nodes of different sets are seldom slow.
TEST(SuspectsOfSets, are_found_among_many_nodes_that_all_others_reach_fast) {
  for (const int size : {2, 3}) {
    const auto share = [=](int a, int, int b, int) { return a < size && b >= size && b < 2 * size ? 1 : 0.02; };
    const std::vector<Suspect> found =
        diagnose(report_of_samples({.platform = "p5.4xlarge", .nodes = 16, .gpus = 1, .outliers = 0}, share), {})
            .suspects;
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].name, size == 2 ? "n0,n1-n2,n3" : "n0,n1,n2-n3,n4,n5");
  }
}

void add_record(std::vector<TransferRecord>& all, Transfers kind, int a, int b, const SampleCounts& slow) {
  TransferRecord& its = all.emplace_back();
  its.kind = kind;
  its.ranks = {{a, 0}, {b, 0}};
  its.slow = slow;
}

// Nodes 1 and 4 are of different sets and were not measured with each other; node 0 is fast with both, in most samples.
TEST(SuspectsOfSets, have_both_nodes_that_a_third_one_joined_first) {
  std::vector<TransferRecord> all;
  for (int a = 0; a < 7; ++a)
    for (int b = a + 1; b < 7; ++b) {
      if (a == 1 && b == 4) continue;
      const int count = a == 0 && (b == 1 || b == 4) ? 100 : 20;
      add_record(all, Transfers::between_nodes, a, b, {count, a > 0 && a < 4 && b >= 4 ? count : 0});
    }
  EXPECT_THAT(sets_of_nodes(all, &TransferRecord::slow, {}), ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4, 5, 6)));
}

// Some pairs of two halves were measured over single NICs too, which alone show what is slow between the halves: over
// all NICs every pair of different halves is equally slow, or, without NVLink domains, every pair is fast. The NVLinks
// of the first domain are slow too, which is another fault.
TEST(SuspectsOfSets, are_found_where_only_transfers_that_few_pairs_have_show_them) {
  for (const bool are_domains : {false, true}) {
    SCOPED_TRACE(are_domains ? "two NVLink domains" : "no NVLink domains");
    std::vector<TransferRecord> all;
    std::vector<int> domain_of_node;
    for (int a = 0; a < 8; ++a) {
      if (are_domains) domain_of_node.push_back(a / 4);
      for (int b = a + 1; b < 8; ++b) {
        const bool across = a < 4 && b >= 4;
        if (are_domains && !across)
          add_record(all, Transfers::within_domain, a, b, {60, a < 4 ? 60 : 0});
        else
          add_record(all, Transfers::between_nodes, a, b, {20, 0});
        if (b - a == 1 || b - a == 2 || b - a == 5) add_record(all, Transfers::single_nic, a, b, {20, across ? 20 : 0});
      }
    }
    EXPECT_THAT(sets_of_nodes(all, &TransferRecord::slow, domain_of_node),
                ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
  }
}

// Two by two, and in two halves, the nodes explain the same slow samples.
TEST(SuspectsOfSets, are_the_fewest_that_explain_the_slow_samples) {
  std::vector<TransferRecord> all;
  for (int a = 0; a < 8; ++a)
    for (int b = a + 1; b < 8; ++b) {
      const bool across = a < 4 && b >= 4;
      add_record(all, Transfers::between_nodes, a, b, {20, 0});
      if (across || a / 2 == b / 2) add_record(all, Transfers::single_nic, a, b, {20, across ? 20 : 0});
    }
  EXPECT_THAT(sets_of_nodes(all, &TransferRecord::slow, {}),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
}

// Three NVLink domains of two nodes, whose pairs were measured with each other over NVLinks only.
TEST(SuspectsOfSets, are_two_of_three_nvlink_domains_that_are_slow_with_each_other) {
  const std::vector<int> domain_of_node{0, 0, 1, 1, 2, 2};
  std::vector<TransferRecord> all;
  for (int a = 0; a < 6; ++a)
    for (int b = a + 1; b < 6; ++b) {
      const bool over_nvlinks = a / 2 == b / 2;
      add_record(all, over_nvlinks ? Transfers::within_domain : Transfers::between_nodes, a, b,
                 {20, !over_nvlinks && b < 4 ? 20 : 0});
    }
  EXPECT_THAT(sets_of_nodes(all, &TransferRecord::slow, domain_of_node),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(SuspectsOfSets, are_single_links_where_few_pairs_of_nodes_are_slow) {
  struct Links {
    int nodes;
    std::vector<std::pair<int, int>> slow;
  };
  for (const Links& each :
       std::vector<Links>{{4, {{0, 2}, {1, 3}}},
                          {8, {{0, 1}, {2, 3}, {4, 5}}},
                          {8, {{0, 2}, {1, 3}, {4, 7}, {6, 7}}},
                          {8, {{0, 1}, {0, 2}, {0, 5}, {1, 3}, {2, 4}, {3, 4}, {4, 7}, {5, 6}, {6, 7}}},
                          {12, {{0, 2}, {0, 8}, {1, 3}, {5, 10}, {7, 10}, {7, 11}, {9, 10}}}}) {
    SCOPED_TRACE(testing::Message() << each.nodes << " nodes, " << each.slow.size() << " links");
    Cluster cluster{.nodes = each.nodes, .most_shifts = each.nodes > 4 ? 1 : 8};
    std::vector<std::string> expected;
    for (const auto& [a, b] : each.slow) {
      cluster.longer = both(cluster.longer, slow_link(a, b, 1.4));
      expected.push_back("link n" + std::to_string(a) + "-n" + std::to_string(b));
    }
    EXPECT_THAT(names(cluster), testing::UnorderedElementsAreArray(expected));
  }
}

TEST(SuspectsOfSets, are_one_where_one_pair_of_nodes_is_fast) {
  const auto longer = [](int a, int, int b, int) { return (a < 4) != (b < 4) && a + b != 4 ? 1.4 : 1.0; };
  EXPECT_THAT(names({.nodes = 8, .most_shifts = 1, .longer = longer}), ElementsAre("link n0,n1,n2,n3-n4,n5,n6,n7"));
}

TEST(SuspectsOfSets, are_named_where_a_host_is_busy_that_does_not_explain_them) {
  const auto found_where = [](int nodes, const Longer& share_of_long, int busy) {
    const Report report = report_of_samples({.nodes = nodes, .most_shifts = 1, .outliers = 0}, share_of_long);
    const Diagnosis found = diagnose(report, {}, WaitingOfNode{{busy, 0.5}});
    EXPECT_THAT(found.slow_while_waiting, IsEmpty());
    std::vector<std::string> all;
    for (const Suspect& each : found.suspects) {
      all.push_back(each.kind + " " + each.name);
      EXPECT_THAT(each.action, testing::Not(HasSubstr("free the cores")));
    }
    return all;
  };
  const auto of_six = [](int a, int, int b, int) { return b < 6 && a < 3 && b >= 3 ? 0.3 : 0; };
  EXPECT_THAT(found_where(8, of_six, 7), ElementsAre("link n0,n1,n2-n3,n4,n5"));
  EXPECT_THAT(found_where(8, of_six, 3), ElementsAre("link n0,n1,n2-n3,n4,n5")) << "a node of a set";
  const auto of_rail = [](int a, int ga, int b, int gb) { return a != b && (ga == 1 || gb == 1) ? 0.3 : 0; };
  EXPECT_THAT(found_where(4, of_rail, 2), ElementsAre("rail 1"));
}

TEST(SuspectsOfSets, are_found_among_forty_nodes) {
  const std::vector<std::string> found =
      names({.platform = "p5.4xlarge", .nodes = 40, .gpus = 1, .longer = slow_between_sets(20)});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(pairs_joined_by(part_named(found[0]).value()).size(), 400U);
}

TEST(SuspectsOfSets, are_named_beside_a_slow_node_or_nic_of_a_set) {
  EXPECT_THAT(names({.nodes = 6, .most_shifts = 2, .longer = both(slow_between_sets(3), slow_node(0, 2))}),
              UnorderedElementsAre("node n0", "link n1,n2-n3,n4,n5"));
  EXPECT_THAT(names({.longer = both(slow_between_sets(2), slow_nic(0, 3, 2))}),
              UnorderedElementsAre("nic n0r12-15", "link n0,n1-n2,n3"));
}

TEST(SuspectsOfSets, leave_one_set_to_go_on_with) {
  Report report = report_of({.longer = both(slow_between_sets(2), slow_nic(0, 3, 2))}, 1);
  report.suspects = diagnose(report, {}).suspects;
  const std::set<std::string> left_out = hosts_to_leave_out(report);
  EXPECT_THAT(left_out, ElementsAre(report.topology.hosts[0].name, report.topology.hosts[1].name));
  for (const NodeVerdict& each : judge_nodes(report)) EXPECT_FALSE(each.unfit.empty() && each.in_doubt.empty());
}

TEST(SuspectsOfSets, are_single_links_where_nodes_were_not_measured_with_each_other) {
  Report report = report_of({.longer = slow_link(0, 2, 2)}, 1);
  for (Result& result : report.results)
    std::erase_if(result.measurement.groups, [](const GroupResult& its) {
      const int a = its.group.front() / 8, b = its.group.back() / 8;
      return a < 2 && b >= 2 && !(a == 0 && b == 2);
    });
  const Diagnosis found = diagnose(report, {});
  for (const Suspect& each : found.suspects) EXPECT_EQ(each.name.find(','), std::string::npos) << each.name;
  EXPECT_EQ(found.suspects.size() + found.questions.size(), 1U);
}

TEST(SuspectsOfNics, are_the_nics_of_half_of_a_host_and_no_link_of_two_hosts) {
  Longer of_one = slow_nic(0, 4, 2);
  for (int gpu = 5; gpu < 8; ++gpu) of_one = both(of_one, slow_nic(0, gpu, 2));
  EXPECT_THAT(names({.platform = "p6-b200.48xlarge", .nodes = 2, .longer = of_one}),
              UnorderedElementsAre("nic n0r4", "nic n0r5", "nic n0r6", "nic n0r7"));
}

// Pairs of all ranks of hosts with one NIC each. More pairs share a NIC in the rounds of two whole hosts than in those
// with a host of fewer ranks. `slow_host` has a NIC of half the rate; -1: none.
Report report_of_unequal_hosts(const std::vector<int>& ranks_of_hosts, int slow_host) {
  Report report;
  report.topology = topo::synthetic(topo::find_platform("p3dn.24xlarge"), static_cast<int>(ranks_of_hosts.size()));
  std::vector<int>& host_of = report.topology.host_of_rank;
  host_of.clear();
  for (std::size_t host = 0; host < ranks_of_hosts.size(); ++host)
    host_of.insert(host_of.end(), static_cast<std::size_t>(ranks_of_hosts[host]), static_cast<int>(host));
  report.run.ranks = static_cast<int>(host_of.size());
  report.run.nodes = static_cast<int>(ranks_of_hosts.size());
  Measurement& m = report.results.emplace_back().measurement;
  Case& c = m.measured_case;
  c.backend = "nccl";
  c.collective = &find_collective("p2p");
  c.pattern = "both_ways";
  c.pair = "other_node";
  c.bytes = MiB(256);
  c.ranks = c.nodes = 2;
  c.rounds = std::make_shared<const std::vector<Round>>(all_pairs(Placement(host_of), 1000, 1).other_domain);
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (const Round& round : *c.rounds) {
    std::map<int, int> ranks_at;
    for (const Group& pair : round)
      for (const int rank : pair) ++ranks_at[host_of[static_cast<std::size_t>(rank)]];
    for (const Group& pair : round) {
      int most = 1;
      for (const int rank : pair) {
        const int host = host_of[static_cast<std::size_t>(rank)];
        most = std::max(most, ranks_at[host] * (host == slow_host ? 2 : 1));
      }
      m.groups.push_back({pair, {6e-3 * most * std::exp(0.01 * normal(random))}});
    }
  }
  return report;
}

TEST(SuspectsOfNics, are_none_where_hosts_of_unequal_ranks_share_their_nics) {
  for (const std::vector<int>& ranks : std::vector<std::vector<int>>{{8, 8, 4}, {8, 8, 8, 4}, {8, 8, 8, 8, 7}}) {
    const Diagnosis found = diagnose(report_of_unequal_hosts(ranks, -1), {});
    EXPECT_THAT(found.suspects, IsEmpty());
    EXPECT_THAT(found.questions, IsEmpty());
  }
}

// Pairs of which two ranks share a NIC that has an eighth of the others' rate by design.
TEST(SuspectsOfNics, are_none_where_hosts_of_two_kinds_differ_in_their_nics) {
  Report report = report_of_unequal_hosts({8, 8, 8, 8}, -1);
  report.topology.hosts = topo::synthetic(topo::find_platform("p5.48xlarge"), 2).hosts;
  for (topo::Host& host : topo::synthetic(topo::find_platform("p4d.24xlarge"), 2).hosts)
    report.topology.hosts.push_back(std::move(host));
  report.topology.nics_of_rank.clear();
  report.topology.gpu_of_rank.clear();
  for (GroupResult& pair : report.results[0].measurement.groups)
    pair.median = Seconds{pair.group.back() < 16 ? 6e-3 : 48e-3};
  const Diagnosis found = diagnose(report, {});
  EXPECT_THAT(found.suspects, IsEmpty());
  EXPECT_THAT(found.questions, IsEmpty());
}

// All pairs with as many ranks at a NIC may use the slow one.
TEST(SuspectsOfNics, are_on_the_host_whose_ranks_share_a_slow_one_whatever_the_others_have) {
  for (const std::vector<int>& ranks : std::vector<std::vector<int>>{{8, 8, 8}, {8, 8, 7}, {8, 8, 4}, {8, 8, 8, 8, 7}})
    for (int slow = 0; slow < std::ssize(ranks); ++slow) {
      // A NIC of half the rate takes as long beside four ranks as another one beside eight.
      if (ranks[static_cast<std::size_t>(slow)] == 4) continue;
      SCOPED_TRACE(testing::Message() << ranks.size() << " hosts, the last of " << ranks.back() << ", slow: " << slow);
      const Diagnosis found = diagnose(report_of_unequal_hosts(ranks, slow), {});
      const std::string node = "n" + std::to_string(slow), nic = node + "r0";
      if (found.suspects.empty()) {
        ASSERT_EQ(found.questions.size(), 1U);
        EXPECT_THAT(found.questions[0].candidates, UnorderedElementsAre("node " + node, "nic " + nic));
      } else {
        ASSERT_EQ(found.suspects.size(), 1U);
        EXPECT_THAT(found.suspects[0].name, testing::AnyOf(node, nic));
      }
    }
}

}  // namespace
}  // namespace p5::reports
