// Which ranks perform an operation together: the groups of a collective and the rounds of disjoint pairs.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/model/case.hpp"

namespace p5 {

// Groups that are measured only to tell which part is at fault, as Case::group: collectives of all ranks of some nodes,
// of half of the ranks of each node, and pairs of ranks of different nodes in rounds in which no rank is idle.
inline constexpr std::string_view node_subset_group = "half", node_half_group = "node_half",
                                  all_rails_group = "all_rails";

// Which node each rank is on, nodes counted from 0 in order of their first rank.
using NodeOfRank = std::vector<int>;

int count_nodes(const NodeOfRank& node_of_rank);

// The groups of a round as communicators see them: members ascending, groups in the order of their first members. Empty
// when the round is one group of all `ranks`: that is the job's own communicator.
Round communicators_of(const Round& round, int ranks);

// "world": all ranks. "node": the ranks of each node. "rail": the i-th ranks of all nodes. "stride:N": ranks that
// differ by a multiple of N. Throws UsageError on anything else, and on a stride below 1 or above the number of ranks.
Round make_groups(std::string_view spec, const NodeOfRank& node_of_rank);

// All pairs of `count` players in disjoint rounds (circle method): count-1 rounds, or count with one pausing when odd.
std::vector<std::vector<std::pair<int, int>>> circle(int count);

// Pairs of ranks in disjoint rounds, each pair once and with its lower rank first. A round has pairs of one kind,
// because links within a node and NICs have nothing in common.
struct PairRounds {
  std::vector<Round> same_node;   // within each node, all nodes at once
  std::vector<Round> other_node;  // each pairing whole nodes
  bool sampled = false;           // some pairs of different nodes are in no round
};

// All pairs, or, where that takes more than `most_rounds`: all within nodes, and rounds between nodes drawn with
// `seed`, same position on both nodes first, up to `most_rounds` in all; one between nodes at least, even when those
// within nodes are `most_rounds` already.
PairRounds all_pairs(const NodeOfRank& node_of_rank, int most_rounds, std::uint64_t seed);

// Rounds between nodes of the ranks that take part: all of same positions first, then all of the same distance between
// positions, as long as there are fewer than `most`. In which order is drawn with `seed`.
std::vector<Round> pairs_between(const NodeOfRank& node_of_rank, const std::vector<bool>& takes_part, int most,
                                 std::uint64_t seed);

// What is to be measured again: pairs, each twice, and their ranks, each with so many others that are not in doubt.
struct RetestPairs {
  std::set<Group> pairs;  // ascending ranks
  int partners = 6;
};
// Those of `rounds` that do so with the fewest rounds, nearly, and at most `most`; the same round may come twice.
std::vector<Round> rounds_for(const RetestPairs& doubts, const std::vector<Round>& rounds, int most);

// Halves of the nodes, drawn with `seed`, each round two groups of as many nodes; with an odd number one pauses. No
// two nodes are in the same half in all rounds. Of three nodes each two in turn; none of fewer.
std::vector<Round> halves(const NodeOfRank& node_of_rank, std::uint64_t seed);

// The same of the ranks of each node, all nodes at once. None of nodes of fewer than six ranks, and of different
// numbers.
std::vector<Round> halves_of_nodes(const NodeOfRank& node_of_rank, std::uint64_t seed);

// Rounds of pairs between an odd number of nodes in which no rank is idle: three nodes pair halves of their ranks with
// each other, the others whole nodes. Empty for an even number of nodes, fewer than three, and nodes whose numbers of
// ranks differ or are odd.
std::vector<Round> pairs_on_all_rails(const NodeOfRank& node_of_rank);

// One pair of each kind: the first two ranks of the first node that has two, and the first ranks of the first two
// nodes.
PairRounds sample_pairs(const NodeOfRank& node_of_rank);

// Each round, and behind it the same pairs the other way round.
std::vector<Round> both_directions(const std::vector<Round>& rounds);
// What both_directions() was made of.
std::vector<Round> first_directions(const std::vector<Round>& rounds);

}  // namespace p5
