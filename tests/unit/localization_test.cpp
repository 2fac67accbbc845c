// Localization alone: invented counts of slow samples, and the parts that explain them.
#include "reports/observations.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/model/collective.hpp"

namespace p5::reports {
namespace {

using testing::ElementsAre;
using testing::SizeIs;
using testing::UnorderedElementsAre;

// Four hosts with one rank each that uses four NICs, like hosts without GPUs.
class FourHosts : public testing::Test {
 protected:
  FourHosts() {
    for (int node = 0; node < 4; ++node) {
      topo::Host& host = topology_.hosts.emplace_back();
      host.name = "h" + std::to_string(node);
      topology_.host_of_rank.push_back(node);
      topology_.nics_of_rank.push_back({"net0", "net1", "net2", "net3"});
    }
  }

  // Each pair of hosts has split messages and messages over each NIC alone. The share of slow samples is that of the
  // slower host.
  template <class Split, class Alone>
  std::vector<TransferRecord> records(const Split& split, const Alone& alone) const {
    std::vector<TransferRecord> all;
    const auto add = [&](Transfers kind, int a, int b, std::optional<int> nic, double share) {
      TransferRecord record;
      record.kind = kind;
      record.ranks = {{a, 0}, {b, 0}};
      record.nic = nic;
      record.slow = {30, static_cast<int>(30 * share)};
      all.push_back(std::move(record));
    };
    for (int a = 0; a < 4; ++a)
      for (int b = a + 1; b < 4; ++b) {
        add(Transfers::between_nodes, a, b, {}, std::max(split(a), split(b)));
        for (int nic = 0; nic < 4; ++nic) add(Transfers::single_nic, a, b, nic, std::max(alone(a, nic), alone(b, nic)));
      }
    return all;
  }

  std::vector<FaultyPart> faulty(const std::vector<TransferRecord>& records, Fault fault = Fault::slow) const {
    const NicNumbers numbers(topology_);
    return localize(records, {.nics = &numbers, .own_nics = true}, fault, accepted_log_odds);
  }

  topo::Topology topology_;
};

TEST_F(FourHosts, with_a_slow_nic_have_no_other_faulty_part_where_split_messages_are_slow_less_often) {
  for (const double share : {0.3, 0.5, 0.65, 0.8, 1.0}) {
    const std::vector<TransferRecord> seen =
        records([&](int node) { return node == 1 ? share : 0; },
                [](int node, int nic) { return node == 1 && nic == 2 ? 1.0 : 0.0; });
    const std::vector<FaultyPart> found = faulty(seen);
    ASSERT_THAT(found, SizeIs(1)) << share;
    EXPECT_EQ(found[0].part, (Part{Part::Kind::nic, 1, 2})) << share;
    EXPECT_GT(found[0].confidence, 0.99) << share;
  }
}

TEST_F(FourHosts, with_a_slow_nic_beside_a_slow_host_have_both) {
  const std::vector<TransferRecord> seen =
      records([](int node) { return node == 3   ? 1.0
                                    : node == 0 ? 0.64
                                                : 0.0; },
              [](int node, int nic) { return node == 3 || (node == 0 && nic == 0) ? 1.0 : 0.0; });
  const std::vector<FaultyPart> found = faulty(seen);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].part, (Part{Part::Kind::node, 3, 0}));
  EXPECT_EQ(found[1].part, (Part{Part::Kind::nic, 0, 0}));
}

TEST_F(FourHosts, accuse_nobody_of_a_single_silent_round) {
  std::vector<TransferRecord> seen = records([](int) { return 0.0; }, [](int, int) { return 0.0; });
  for (TransferRecord& record : seen) record.silent = {1, 0};
  seen.front().silent.hits = 1;
  EXPECT_THAT(faulty(seen, Fault::silent), SizeIs(0));
  seen.front().silent = {3, 3};
  EXPECT_THAT(faulty(seen, Fault::silent), SizeIs(1));
}

TEST_F(FourHosts, without_gpus_have_none_at_fault) {
  TransferRecord within;
  within.ranks = {{0, 0}, {0, 1}};
  within.silent = {5, 5};
  const NicNumbers numbers(topology_);
  const std::vector<TransferRecord> seen{within};
  for (const bool gpus : {true, false}) {
    const std::vector<FaultyPart> found =
        localize(seen, {.nics = &numbers, .gpus = gpus}, Fault::silent, accepted_log_odds);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].part.kind == Part::Kind::node, !gpus);
  }
}

// A switch sums float32 faster than GPUs sum int8 in a ring, on all nodes alike.
TEST(Observations, of_groups_compare_no_types_reductions_or_roots_with_each_other) {
  Report report;
  for (int node = 0; node < 4; ++node) {
    report.topology.hosts.emplace_back().name = "h" + std::to_string(node);
    report.topology.host_of_rank.insert(report.topology.host_of_rank.end(), {node, node});
  }
  for (const double time : {1e-3, 1.3e-3}) {
    Measurement& m = report.results.emplace_back().measurement;
    m.measured_case.backend = "sim";
    m.measured_case.collective = &find_collective("all_reduce");
    m.measured_case.bytes = GiB(1);
    m.measured_case.group = "node";
    m.measured_case.ranks = 2;
    for (int node = 0; node < 4; ++node) m.groups.push_back({{2 * node, 2 * node + 1}, {time}});
  }
  const auto slow_samples = [&] {
    int slow = 0, all = 0;
    for (const TransferRecord& record : observe(report, {})) slow += record.slow.hits, all += record.slow.count;
    EXPECT_EQ(all, 8);
    return slow;
  };
  EXPECT_EQ(slow_samples(), 4) << "of one operation the slower half is slow";
  Case& second = report.results[1].measurement.measured_case;
  second.type = DataType::int8;
  EXPECT_EQ(slow_samples(), 0);
  second.type = DataType::float32;
  second.op = ReduceOp::prod;
  EXPECT_EQ(slow_samples(), 0);
  second.op.reset();
  second.root = 1;
  EXPECT_EQ(slow_samples(), 0);
  report.results[0].measurement.measured_case.every_root = true;
  second.root = 0;
  EXPECT_EQ(slow_samples(), 4) << "all roots are measured again with the first";
  report.results[0].measurement.measured_case.every_root = false;
  second.root.reset();
  second.in_place = true;
  EXPECT_EQ(slow_samples(), 0);
}

// Pairs of the i-th GPUs of six nodes of eight, all pairs of two nodes at the same time, with 20 samples each. `slow`:
// of two nodes, the number of samples in which all their pairs are slow at once.
std::vector<FaultyPart> faulty_by_events(const std::map<std::pair<int, int>, int>& slow) {
  topo::Topology topology;
  for (int node = 0; node < 6; ++node) {
    topology.hosts.emplace_back().name = "h" + std::to_string(node);
    for (int gpu = 0; gpu < 8; ++gpu) topology.host_of_rank.push_back(node);
  }
  constexpr int samples = 20;
  std::vector<TransferRecord> records;
  std::uint64_t round = 0;
  for (int a = 0; a < 6; ++a)
    for (int b = a + 1; b < 6; ++b, round += samples)
      for (int gpu = 0; gpu < 8; ++gpu) {
        const auto found = slow.find({a, b});
        TransferRecord& record = records.emplace_back();
        record.kind = Transfers::between_nodes;
        record.ranks = {{a, gpu}, {b, gpu}};
        record.slow = {samples, found == slow.end() ? 0 : found->second};
        for (int sample = 0; sample < samples; ++sample)
          record.samples.push_back(
              {.event = round + static_cast<std::uint64_t>(sample), .slow = sample < record.slow.hits});
      }
  const NicNumbers numbers(topology);
  return localize(records, {.nics = &numbers}, Fault::slow, accepted_log_odds);
}

bool names_a_link(const std::vector<FaultyPart>& found) {
  return std::ranges::any_of(found, [](const FaultyPart& each) { return each.part.kind == Part::Kind::link; });
}

TEST(Events, that_pairs_share_count_once_for_a_link) {
  EXPECT_FALSE(names_a_link(faulty_by_events({{{1, 3}, 2}})));
  EXPECT_FALSE(names_a_link(faulty_by_events({{{0, 3}, 3}, {{1, 3}, 2}, {{3, 5}, 3}}))) << "node 3, now and then";
  for (const int often : {6, 12, 20}) {
    const std::vector<FaultyPart> found = faulty_by_events({{{1, 3}, often}});
    ASSERT_THAT(found, SizeIs(1)) << often;
    EXPECT_EQ(found[0].part, (Part{Part::Kind::link, 1, 3})) << often;
  }
  EXPECT_TRUE(names_a_link(faulty_by_events({{{0, 3}, 20}, {{1, 3}, 20}}))) << "two links of one node";
}

// All pairs of nodes with one rank each, and groups of half of the nodes, chosen at random. A group is a ring in the
// order of its ranks, as slow as the slowest link between neighbours.
using NodesOfLink = std::pair<int, int>;
std::vector<FaultyPart> faulty_in_rings(int nodes, const std::set<NodesOfLink>& slow, unsigned seed, double least) {
  topo::Topology topology;
  for (int node = 0; node < nodes; ++node) {
    topology.hosts.emplace_back().name = "h" + std::to_string(node);
    topology.host_of_rank.push_back(node);
  }
  std::vector<TransferRecord> records;
  const auto add = [&](Transfers kind, const std::vector<int>& ring) {
    TransferRecord& record = records.emplace_back();
    record.kind = kind;
    record.slow = {12, 0};
    for (std::size_t i = 0; i < ring.size(); ++i) {
      record.ranks.push_back({ring[i], 0});
      if (slow.contains(std::minmax(ring[i], ring[(i + 1) % ring.size()]))) record.slow.hits = 12;
    }
  };
  for (int a = 0; a < nodes; ++a)
    for (int b = a + 1; b < nodes; ++b) add(Transfers::between_nodes, {a, b});
  std::mt19937_64 random(seed);
  std::vector<int> all(static_cast<std::size_t>(nodes));
  std::iota(all.begin(), all.end(), 0);
  for (int group = 0; group < 24; ++group) {
    std::ranges::shuffle(all, random);
    std::vector<int> half(all.begin(), all.begin() + nodes / 2);
    std::ranges::sort(half);
    add(Transfers::node_subset, half);
  }
  const NicNumbers numbers(topology);
  std::vector<FaultyPart> found = localize(records, {.nics = &numbers}, Fault::slow, least);
  for (FaultyPart& each : found) each.observations.clear();
  return found;
}

std::vector<Part> faulty_links(int nodes, const std::set<NodesOfLink>& slow, unsigned seed,
                               double least = doubtful_log_odds) {
  std::vector<Part> parts;
  for (const FaultyPart& each : faulty_in_rings(nodes, slow, seed, least)) parts.push_back(each.part);
  return parts;
}

// Some groups have nodes of both sets that nodes of neither set keep apart in their rings: these groups are fast.
TEST(Rings, in_which_no_neighbours_are_of_different_sets_do_not_acquit_what_joins_the_sets) {
  const std::vector<int> ones{0, 4, 8}, others{2, 6, 10};
  std::set<NodesOfLink> slow;
  for (const int one : ones)
    for (const int other : others) slow.insert(std::minmax(one, other));
  const Part links{.kind = Part::Kind::links, .node = 0, .number = 0, .last = 0, .sets = {ones, others}};
  for (const int nodes : {12, 16, 24})
    for (unsigned seed = 1; seed <= 4; ++seed)
      EXPECT_THAT(faulty_links(nodes, slow, seed), ElementsAre(links)) << nodes << " nodes, seed " << seed;
}

TEST(Rings, that_are_slow_by_several_links_do_not_accuse_one_that_is_in_most_of_them) {
  const Part first{Part::Kind::link, 1, 6}, second{Part::Kind::link, 3, 5}, third{Part::Kind::link, 0, 7};
  for (unsigned seed = 1; seed <= 8; ++seed) {
    EXPECT_THAT(faulty_links(16, {{1, 6}, {3, 5}}, seed), UnorderedElementsAre(first, second)) << seed;
    EXPECT_THAT(faulty_links(8, {{1, 6}, {3, 5}, {0, 7}}, seed), UnorderedElementsAre(first, second, third)) << seed;
  }
  // A third link may be in all slow groups, so that no other fault shows in groups.
  for (unsigned seed = 1; seed <= 40; ++seed)
    EXPECT_THAT(faulty_links(16, {{3, 5}, {8, 10}}, seed, accepted_log_odds),
                testing::IsSubsetOf({Part{Part::Kind::link, 3, 5}, Part{Part::Kind::link, 8, 10}}))
        << seed;
}

// Fast groups in which a slow link joins no neighbours do not make it slow in some of its samples only.
TEST(Rings, that_do_not_use_a_slow_link_are_none_of_its_samples) {
  std::set<NodesOfLink> between_sets;
  for (const int one : {0, 4, 8})
    for (const int other : {2, 6, 10}) between_sets.insert(std::minmax(one, other));
  for (const std::set<NodesOfLink>& slow : {std::set<NodesOfLink>{{1, 6}, {3, 5}}, between_sets})
    for (unsigned seed = 1; seed <= 4; ++seed) {
      const std::vector<FaultyPart> found = faulty_in_rings(16, slow, seed, doubtful_log_odds);
      EXPECT_FALSE(found.empty());
      for (const FaultyPart& each : found) EXPECT_EQ(each.share, 1) << seed;
    }
}

TEST(MiddleOfFast, is_that_of_one_fast_transfer_of_ten_and_not_of_twenty) {
  std::vector<double> times(10, 1.25);
  times.front() = 1;
  EXPECT_EQ(middle_of_fast(times), 1);
  times.resize(20, 1.25);
  EXPECT_EQ(middle_of_fast(times), 1.25);
}

}  // namespace
}  // namespace p5::reports
