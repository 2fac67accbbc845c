// Groups and pairs: each pair once, no rank in two groups of a round.
#include "bench/model/groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "bench/base/error.hpp"

namespace p5 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Pairs = std::map<std::pair<int, int>, int>;  // number of rounds with each pair, lower rank first

constexpr int no_limit = 1 << 20;

// Ranks in blocks: the first sizes[0] on node 0, and so on.
NodeOfRank in_blocks(const std::vector<int>& sizes) {
  NodeOfRank nodes;
  for (std::size_t node = 0; node < sizes.size(); ++node)
    nodes.insert(nodes.end(), sizes[node], static_cast<int>(node));
  return nodes;
}

// Ranks distributed round-robin, as `mpirun --map-by node` does.
NodeOfRank dealt(int ranks, int nodes) {
  NodeOfRank result;
  for (int rank = 0; rank < ranks; ++rank) result.push_back(rank % nodes);
  return result;
}

bool disjoint(const Round& round) {
  std::set<int> seen;
  return std::ranges::all_of(round, [&](const Group& group) {
    return std::ranges::all_of(group, [&](int rank) { return seen.insert(rank).second; });
  });
}

// All rounds, those within nodes first.
std::vector<Round> rounds_of(const PairRounds& pairs) {
  std::vector<Round> rounds = pairs.same_node;
  rounds.insert(rounds.end(), pairs.same_domain.begin(), pairs.same_domain.end());
  rounds.insert(rounds.end(), pairs.other_domain.begin(), pairs.other_domain.end());
  return rounds;
}

Pairs count_pairs(const std::vector<Round>& rounds) {
  Pairs pairs;
  for (const Round& round : rounds) {
    EXPECT_FALSE(round.empty());
    EXPECT_TRUE(disjoint(round));
    for (const Group& pair : round) {
      EXPECT_EQ(pair.size(), 2u);
      EXPECT_LT(pair[0], pair[1]);
      ++pairs[{pair[0], pair[1]}];
    }
  }
  return pairs;
}

void expect_each_pair_once(const NodeOfRank& nodes, int most_rounds = no_limit) {
  const PairRounds result = all_pairs(nodes, most_rounds, 1);
  EXPECT_FALSE(result.sampled);
  const Pairs pairs = count_pairs(rounds_of(result));
  EXPECT_EQ(pairs.size(), nodes.size() * (nodes.size() - 1) / 2);
  for (const auto& [pair, times] : pairs) EXPECT_EQ(times, 1) << pair.first << " " << pair.second;
}

std::map<int, int> positions(const NodeOfRank& nodes) {
  std::map<int, int> next, position;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) position[static_cast<int>(rank)] = next[nodes[rank]]++;
  return position;
}

// Nodes of two ranks each, by their domains.
Placement in_domains(const std::vector<int>& domain_of_node) {
  DomainOfRank domains;
  for (const int domain : domain_of_node) domains.insert(domains.end(), 2, domain);
  return {in_blocks(std::vector<int>(domain_of_node.size(), 2)), domains};
}

TEST(PairsOfDomains, are_each_measured_once_and_by_kind) {
  for (const Placement& where : {in_domains({0, 0, 0}), in_domains({0, 0, 1, 1}), in_domains({0, 0, 0, 1, 1})}) {
    const PairRounds result = all_pairs(where, no_limit, 1);
    const std::size_t ranks = where.node_of_rank.size();
    EXPECT_EQ(count_pairs(rounds_of(result)).size(), ranks * (ranks - 1) / 2);
    for (const auto& [pair, times] : count_pairs(rounds_of(result))) EXPECT_EQ(times, 1);
    const auto place = [](const std::vector<int>& places, int rank) { return places[static_cast<std::size_t>(rank)]; };
    for (const auto& [pair, times] : count_pairs(result.same_domain)) {
      EXPECT_EQ(place(where.domain_of_rank, pair.first), place(where.domain_of_rank, pair.second));
      EXPECT_NE(place(where.node_of_rank, pair.first), place(where.node_of_rank, pair.second));
    }
    for (const auto& [pair, times] : count_pairs(result.other_domain))
      EXPECT_NE(place(where.domain_of_rank, pair.first), place(where.domain_of_rank, pair.second));
  }
}

TEST(PairsOfDomains, are_drawn_within_the_limit_with_all_kinds) {
  std::vector<int> domain_of_node(36, 0);
  std::fill(domain_of_node.begin() + 18, domain_of_node.end(), 1);
  const PairRounds result = all_pairs(in_domains(domain_of_node), 20, 1);
  EXPECT_TRUE(result.sampled);
  EXPECT_FALSE(result.same_domain.empty());
  EXPECT_FALSE(result.other_domain.empty());
  EXPECT_LE(rounds_of(result).size(), 20u);
  count_pairs(rounds_of(result));
}

TEST(PairsOfDomains, have_an_example_of_each_kind) {
  const PairRounds few = sample_pairs(in_domains({0, 0, 1, 1}));
  EXPECT_EQ(few.same_node, (std::vector<Round>{{{0, 1}}}));
  EXPECT_EQ(few.same_domain, (std::vector<Round>{{{0, 2}}}));
  EXPECT_EQ(few.other_domain, (std::vector<Round>{{{0, 4}}}));
}

TEST(MakeGroups, domain_is_the_ranks_of_each_nvlink_domain) {
  EXPECT_EQ(make_groups("domain", in_domains({0, 0, 1})), (Round{{0, 1, 2, 3}, {4, 5}}));
  EXPECT_EQ(make_groups("domain", in_blocks({2, 2})), (Round{{0, 1}, {2, 3}}));
}

TEST(CountNodes, counts_them) {
  EXPECT_EQ(count_nodes({}), 0);
  EXPECT_EQ(count_nodes({0, 0, 1, 2, 1}), 3);
}

TEST(MakeGroups, world_is_all_ranks) { EXPECT_EQ(make_groups("world", dealt(4, 2)), (Round{{0, 1, 2, 3}})); }

TEST(MakeGroups, node_is_the_ranks_of_each_node) {
  EXPECT_EQ(make_groups("node", in_blocks({2, 3})), (Round{{0, 1}, {2, 3, 4}}));
  EXPECT_EQ(make_groups("node", dealt(5, 2)), (Round{{0, 2, 4}, {1, 3}}));
}

TEST(MakeGroups, rail_is_the_same_position_on_all_nodes) {
  EXPECT_EQ(make_groups("rail", in_blocks({2, 2, 2})), (Round{{0, 2, 4}, {1, 3, 5}}));
  EXPECT_EQ(make_groups("rail", dealt(4, 2)), (Round{{0, 1}, {2, 3}}));
  EXPECT_EQ(make_groups("rail", in_blocks({1, 3, 2})), (Round{{0, 1, 4}, {2, 5}, {3}}));
}

TEST(MakeGroups, stride_is_the_ranks_that_differ_by_a_multiple) {
  EXPECT_EQ(make_groups("stride:2", in_blocks({5})), (Round{{0, 2, 4}, {1, 3}}));
  EXPECT_EQ(make_groups("stride:1", in_blocks({3})), (Round{{0, 1, 2}}));
  EXPECT_EQ(make_groups("stride:3", in_blocks({3})), (Round{{0}, {1}, {2}}));
}

TEST(MakeGroups, refuses_a_bad_stride_and_names_the_limits) {
  for (const std::string spec :
       {"stride:0", "stride:-1", "stride:5", "stride:", "stride:2x", "stride: 2", "stride:1e1", "stride:99999999999"}) {
    try {
      make_groups(spec, in_blocks({4}));
      ADD_FAILURE() << spec << " was taken";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), HasSubstr("'" + spec + "'"));
      EXPECT_THAT(error.what(), HasSubstr("from 1 to the number of ranks, 4"));
    }
  }
}

TEST(MakeGroups, refuses_an_unknown_name_and_offers_the_nearest) {
  try {
    make_groups("rial", in_blocks({4}));
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'rial'"));
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'rail'"));
  }
  EXPECT_THROW(make_groups("", in_blocks({4})), UsageError);
  EXPECT_THROW(make_groups("WORLD", in_blocks({4})), UsageError);
}

TEST(Circle, lets_everyone_meet_everyone_once_in_the_fewest_rounds) {
  for (int count = 0; count <= 17; ++count) {
    const auto rounds = round_robin(count);
    EXPECT_EQ(rounds.size(), count < 2 ? 0u : static_cast<std::size_t>(count % 2 == 0 ? count - 1 : count)) << count;
    std::vector<Round> groups;
    for (const auto& round : rounds) {
      EXPECT_EQ(round.size(), static_cast<std::size_t>(count / 2));
      Round& group = groups.emplace_back();
      for (const auto& [a, b] : round) group.push_back({a, b});
    }
    const Pairs pairs = count_pairs(groups);
    EXPECT_EQ(pairs.size(), static_cast<std::size_t>(count * (count - 1) / 2)) << count;
    for (const auto& [pair, times] : pairs) {
      EXPECT_EQ(times, 1);
      EXPECT_TRUE(0 <= pair.first && pair.second < count);
    }
  }
}

TEST(AllPairs, meet_once_on_one_node) {
  for (int ranks = 1; ranks <= 17; ++ranks) expect_each_pair_once(in_blocks({ranks}));
}

TEST(AllPairs, meet_once_with_one_rank_per_node) {
  for (int ranks = 1; ranks <= 17; ++ranks) expect_each_pair_once(dealt(ranks, ranks));
}

TEST(AllPairs, meet_once_for_any_division_into_nodes) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    for (int nodes = 2; nodes < ranks; ++nodes) {
      expect_each_pair_once(dealt(ranks, nodes));
      std::vector<int> lopsided(static_cast<std::size_t>(nodes), 1);
      lopsided[1] = ranks - nodes + 1;
      expect_each_pair_once(in_blocks(lopsided));
    }
  }
  expect_each_pair_once(in_blocks({8, 8, 8, 8}));
  expect_each_pair_once(in_blocks({3, 5, 1, 7}));
}

TEST(AllPairs, of_equal_nodes_keep_all_ranks_busy_in_every_round) {
  const PairRounds result = all_pairs(in_blocks({8, 8, 8, 8}), no_limit, 1);
  EXPECT_EQ(rounds_of(result).size(), 31u);
  for (const Round& round : rounds_of(result)) EXPECT_EQ(round.size(), 16u);
}

TEST(AllPairs, come_within_nodes_first_then_same_positions_then_the_rest) {
  const NodeOfRank nodes = in_blocks({4, 4, 4});
  auto position = positions(nodes);
  const auto kind = [&](const Group& pair) {
    if (nodes[static_cast<std::size_t>(pair[0])] == nodes[static_cast<std::size_t>(pair[1])]) return 0;
    return position[pair[0]] == position[pair[1]] ? 1 : 2;
  };
  int last = 0;
  for (const Round& round : rounds_of(all_pairs(nodes, no_limit, 1))) {
    for (const Group& pair : round) EXPECT_EQ(kind(pair), kind(round.front()));
    EXPECT_GE(kind(round.front()), last);
    last = kind(round.front());
  }
  EXPECT_EQ(last, 2);
}

TEST(AllPairs, pair_whole_nodes_between_nodes) {
  const NodeOfRank nodes = in_blocks({4, 4, 4, 4});
  for (const Round& round : rounds_of(all_pairs(nodes, no_limit, 1))) {
    std::map<int, std::set<int>> partners;
    for (const Group& pair : round) {
      const int a = nodes[static_cast<std::size_t>(pair[0])], b = nodes[static_cast<std::size_t>(pair[1])];
      partners[a].insert(b), partners[b].insert(a);
    }
    for (const auto& [node, others] : partners) EXPECT_EQ(others.size(), 1u) << node;
  }
}

TEST(AllPairs, fit_exactly_the_rounds_that_they_need) {
  expect_each_pair_once(in_blocks({8, 8, 8, 8}), 31);
  EXPECT_TRUE(all_pairs(in_blocks({8, 8, 8, 8}), 30, 1).sampled);
}

TEST(SampledPairs, honour_the_limit_and_say_that_they_are_sampled) {
  for (const auto& nodes : {in_blocks(std::vector<int>(16, 8)), in_blocks({8, 7, 8, 3, 1, 8}), dealt(60, 7)}) {
    for (const int most : {10, 20, 30}) {
      const PairRounds result = all_pairs(nodes, most, 5);
      EXPECT_TRUE(result.sampled);
      EXPECT_EQ(rounds_of(result).size(), static_cast<std::size_t>(most));
      for (const auto& [pair, times] : count_pairs(rounds_of(result))) EXPECT_EQ(times, 1);
    }
  }
}

TEST(SampledPairs, contain_all_pairs_within_nodes_and_then_same_positions) {
  const NodeOfRank nodes = in_blocks(std::vector<int>(16, 8));
  auto position = positions(nodes);
  const PairRounds result = all_pairs(nodes, 7 + 15 + 4, 5);
  std::size_t within = 0, same = 0, other = 0;
  for (const auto& [pair, times] : count_pairs(rounds_of(result))) {
    if (nodes[static_cast<std::size_t>(pair.first)] == nodes[static_cast<std::size_t>(pair.second)])
      ++within;
    else if (position[pair.first] == position[pair.second])
      ++same;
    else
      ++other;
  }
  EXPECT_EQ(within, 16u * 28);
  EXPECT_EQ(same, 8u * 120);
  EXPECT_EQ(other, 4u * 64);
}

TEST(SampledPairs, keep_all_pairs_within_nodes_and_one_round_between_when_the_limit_is_tiny) {
  for (const int most : {-1, 0, 1, 7}) {
    const PairRounds result = all_pairs(in_blocks({8, 8, 8, 8}), most, 5);
    EXPECT_TRUE(result.sampled);
    EXPECT_EQ(rounds_of(result).size(), 8u) << most;
  }
  EXPECT_FALSE(all_pairs(in_blocks({8}), 1, 5).sampled);
  EXPECT_EQ(rounds_of(all_pairs(in_blocks({8}), 1, 5)).size(), 7u);
}

TEST(SampledPairs, depend_on_the_seed_alone) {
  const NodeOfRank nodes = in_blocks(std::vector<int>(16, 8));
  EXPECT_EQ(rounds_of(all_pairs(nodes, 20, 5)), rounds_of(all_pairs(nodes, 20, 5)));
  EXPECT_NE(rounds_of(all_pairs(nodes, 20, 5)), rounds_of(all_pairs(nodes, 20, 6)));
}

TEST(SampledPairs, of_4096_ranks_reach_every_node_in_every_round) {
  const NodeOfRank nodes = in_blocks(std::vector<int>(512, 8));
  const PairRounds result = all_pairs(nodes, 64, 5);
  EXPECT_TRUE(result.sampled);
  EXPECT_EQ(rounds_of(result).size(), 64u);
  for (const Round& round : rounds_of(result)) EXPECT_EQ(round.size(), 2048u);
}

TEST(AllPairs, of_a_round_are_of_one_kind) {
  for (const NodeOfRank& nodes : {in_blocks({2, 1}), in_blocks({3, 5, 1, 7}), dealt(17, 5)}) {
    const PairRounds pairs = all_pairs(nodes, no_limit, 1);
    for (const Round& round : rounds_of(pairs))
      for (const Group& pair : round) {
        const bool same = nodes[static_cast<std::size_t>(pair[0])] == nodes[static_cast<std::size_t>(pair[1])];
        EXPECT_EQ(same, std::ranges::find(pairs.same_node, round) != pairs.same_node.end());
      }
  }
}

TEST(SamplePairs, take_one_pair_of_each_kind) {
  const auto expect = [](const NodeOfRank& nodes, const Group& same, const Group& other) {
    const PairRounds pairs = sample_pairs(nodes);
    EXPECT_EQ(pairs.same_node, (std::vector<Round>{{same}}));
    EXPECT_EQ(pairs.other_domain, (std::vector<Round>{{other}}));
  };
  expect(in_blocks({2, 2}), {0, 1}, {0, 2});
  expect(dealt(4, 2), {0, 2}, {0, 1});
  expect(in_blocks({1, 1, 2}), {2, 3}, {0, 1});
}

TEST(SamplePairs, leave_out_a_kind_that_the_job_does_not_have) {
  EXPECT_EQ(sample_pairs(in_blocks({3})).same_node, (std::vector<Round>{{{0, 1}}}));
  EXPECT_TRUE(sample_pairs(in_blocks({3})).other_domain.empty());
  EXPECT_EQ(sample_pairs(in_blocks({1, 1})).other_domain, (std::vector<Round>{{{0, 1}}}));
  EXPECT_TRUE(sample_pairs(in_blocks({1, 1})).same_node.empty());
  EXPECT_TRUE(rounds_of(sample_pairs(in_blocks({1}))).empty());
}

TEST(BothDirections, follow_each_other) {
  EXPECT_EQ(both_directions({{{0, 1}, {2, 3}}, {{0, 2}}}),
            (std::vector<Round>{{{0, 1}, {2, 3}}, {{1, 0}, {3, 2}}, {{0, 2}}, {{2, 0}}}));
  const std::vector<Round> rounds{{{0, 3}, {2, 1}}, {{0, 2}}};
  EXPECT_EQ(first_directions(both_directions(rounds)), rounds);
}

TEST(CommunicatorsOf, are_alike_for_both_directions_and_none_for_the_whole_job) {
  EXPECT_EQ(communicators_of({{2, 3}, {1, 0}}, 4), (Round{{0, 1}, {2, 3}}));
  EXPECT_EQ(communicators_of({{0, 1}, {3, 2}}, 4), (Round{{0, 1}, {2, 3}}));
  EXPECT_EQ(communicators_of({{1, 0}}, 3), (Round{{0, 1}}));
  EXPECT_TRUE(communicators_of({{1, 0}}, 2).empty());
  EXPECT_TRUE(communicators_of({{0, 1, 2, 3}}, 4).empty());
}

TEST(Halves, part_every_two_nodes) {
  for (const int nodes : {9, 12, 16, 33, 512}) {
    NodeOfRank node_of_rank;
    for (int rank = 0; rank < 2 * nodes; ++rank) node_of_rank.push_back(rank / 2);
    const std::vector<Round> rounds = node_halves(node_of_rank, 7);
    std::set<std::vector<int>> signatures;
    std::vector<std::vector<int>> of_node(static_cast<std::size_t>(nodes));
    for (const Round& round : rounds) {
      ASSERT_EQ(round.size(), 2U);
      EXPECT_EQ(round[0].size(), round[1].size());
      EXPECT_EQ(round[0].size(), static_cast<std::size_t>(nodes / 2 * 2));
      for (int node = 0; node < nodes; ++node) {
        const auto in = [&](const Group& half) { return std::ranges::count(half, 2 * node) > 0; };
        of_node[static_cast<std::size_t>(node)].push_back(in(round[0]) ? 1 : in(round[1]) ? 2 : 0);
      }
    }
    signatures.insert(of_node.begin(), of_node.end());
    EXPECT_EQ(signatures.size(), static_cast<std::size_t>(nodes)) << nodes;
    EXPECT_NE(rounds.front(), rounds.back()) << nodes;
  }
}

TEST(Halves, are_two_nodes_each_up_to_eight_nodes) {
  EXPECT_THAT(node_halves({0, 0, 1, 1, 2, 2}, 7),
              ElementsAre(Round{{2, 3, 4, 5}}, Round{{0, 1, 4, 5}}, Round{{0, 1, 2, 3}}));
  EXPECT_THAT(node_halves({0, 1, 2, 3, 0, 1, 2, 3}, 7),
              ElementsAre(Round{{0, 3, 4, 7}, {1, 2, 5, 6}}, Round{{0, 2, 4, 6}, {1, 3, 5, 7}},
                          Round{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_THAT(node_halves({0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7}, 7), SizeIs(7));
  EXPECT_THAT(node_halves({0, 0, 1, 1}, 7), IsEmpty());
}

TEST(Halves, of_nodes_with_a_single_rank_have_three_ranks_or_more) {
  EXPECT_THAT(node_halves({0, 1, 2}, 7), IsEmpty());
  EXPECT_THAT(node_halves({0, 1, 2, 3}, 7),
              ElementsAre(Round{{1, 2, 3}}, Round{{0, 2, 3}}, Round{{0, 1, 3}}, Round{{0, 1, 2}}));
  for (const int nodes : {4, 5, 6, 7, 8, 12}) {
    NodeOfRank node_of_rank(static_cast<std::size_t>(nodes));
    std::iota(node_of_rank.begin(), node_of_rank.end(), 0);
    std::set<std::vector<bool>> signatures;  // of each rank: the groups that it is in
    for (int rank = 0; rank < nodes; ++rank) {
      std::vector<bool> in;
      for (const Round& round : node_halves(node_of_rank, 7))
        for (const Group& group : round) {
          EXPECT_GE(group.size(), 3U);
          in.push_back(std::ranges::count(group, rank) > 0);
        }
      signatures.insert(in);
    }
    EXPECT_EQ(signatures.size(), node_of_rank.size());
  }
}

TEST(Halves, bring_every_two_nodes_together) {
  for (const int nodes : {4, 5, 6, 7, 8, 9, 12, 16, 32, 64})
    for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
      NodeOfRank node_of_rank;
      for (int rank = 0; rank < 2 * nodes; ++rank) node_of_rank.push_back(rank / 2);
      std::set<std::pair<int, int>> together;
      const std::vector<Round> rounds = node_halves(node_of_rank, seed);
      for (const Round& round : rounds)
        for (const Group& half : round)
          for (const int a : half)
            for (const int b : half)
              if (a / 2 < b / 2) together.emplace(a / 2, b / 2);
      EXPECT_EQ(together.size(), static_cast<std::size_t>(nodes * (nodes - 1) / 2)) << nodes << ", seed " << seed;
      EXPECT_LE(rounds.size(), 11U) << nodes;
    }
}

TEST(Halves, of_the_ranks_of_each_node_part_every_two_ranks) {
  constexpr int ranks = 8;
  NodeOfRank node_of_rank;
  for (int rank = 0; rank < 2 * ranks; ++rank) node_of_rank.push_back(rank / ranks);
  std::vector<std::vector<int>> of_rank(2 * ranks);
  for (const Round& round : halves_of_each_node(node_of_rank, 3)) {
    ASSERT_EQ(round.size(), 4U);
    for (std::size_t half = 0; half < round.size(); ++half) {
      EXPECT_EQ(round[half].size(), 4U);
      for (const int rank : round[half]) {
        EXPECT_EQ(rank / ranks, static_cast<int>(half / 2));
        of_rank[static_cast<std::size_t>(rank)].push_back(static_cast<int>(half));
      }
    }
  }
  EXPECT_EQ(std::set(of_rank.begin(), of_rank.end()).size(), of_rank.size());
  EXPECT_THAT(halves_of_each_node({0, 0, 0, 0, 1, 1, 1, 1}, 3), IsEmpty());
}

TEST(PairsOnAllRails, of_three_nodes_let_each_rank_meet_both_others) {
  std::map<int, std::set<int>> nodes_met;
  const NodeOfRank node_of_rank{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
  for (const Round& round : pairs_on_all_rails(node_of_rank))
    for (const Group& pair : round)
      for (std::size_t end : {0, 1}) nodes_met[pair[end]].insert(node_of_rank[static_cast<std::size_t>(pair[1 - end])]);
  EXPECT_EQ(nodes_met.size(), node_of_rank.size());
  for (const auto& [rank, nodes] : nodes_met) EXPECT_THAT(nodes, SizeIs(2)) << rank;
}

TEST(PairsOnAllRails, leave_no_rank_of_an_odd_number_of_nodes_idle) {
  for (const int nodes : {3, 5, 7}) {
    NodeOfRank node_of_rank;
    for (int rank = 0; rank < 4 * nodes; ++rank) node_of_rank.push_back(rank / 4);
    std::set<std::pair<int, int>> met;
    for (const Round& round : pairs_on_all_rails(node_of_rank)) {
      std::set<int> ranks;
      for (const Group& pair : round) {
        ranks.insert(pair.begin(), pair.end());
        met.insert(std::minmax(node_of_rank[static_cast<std::size_t>(pair[0])],
                               node_of_rank[static_cast<std::size_t>(pair[1])]));
      }
      EXPECT_EQ(ranks.size(), node_of_rank.size());
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(nodes * (nodes - 1) / 2)) << nodes;
    EXPECT_FALSE(met.contains({0, 0}));
  }
  EXPECT_THAT(pairs_on_all_rails({0, 0, 1, 1}), IsEmpty());
  EXPECT_THAT(pairs_on_all_rails({0, 1, 2}), IsEmpty());
}

}  // namespace
}  // namespace p5
