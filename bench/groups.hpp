// Which ranks perform an operation together: the groups of a collective and the rounds of disjoint pairs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/case.hpp"

namespace p5 {

// Which node each rank is on, nodes counted from 0 in order of their first rank.
using NodeOfRank = std::vector<int>;

int count_nodes(const NodeOfRank& node_of_rank);

// "world": all ranks. "node": the ranks of each node. "rail": the i-th ranks of all nodes. "stride:N": ranks that
// differ by a multiple of N. Throws UsageError on anything else, and on a stride below 1 or above the number of ranks.
Round make_groups(std::string_view spec, const NodeOfRank& node_of_rank);

// All pairs of `count` players in disjoint rounds (circle method): count-1 rounds, or count with one pausing when odd.
std::vector<std::vector<std::pair<int, int>>> circle(int count);

struct PairRounds {
  std::vector<Round> rounds;
  bool sampled = false;  // some pairs of the job are in no round
};

// All pairs of ranks, each once and with its lower rank first, in disjoint rounds: first those within each node, all
// nodes at once, then between nodes, each round pairing whole nodes. Where that takes more than `most_rounds` and the
// plain circle over all ranks does not (nodes of different or odd sizes), it is that circle. Where that takes too many
// as well: all pairs within nodes, then rounds between nodes drawn with `seed`, same position on both nodes first, up
// to `most_rounds`; one round between nodes at least, even when those within nodes are `most_rounds` already.
PairRounds all_pairs(const NodeOfRank& node_of_rank, int most_rounds, std::uint64_t seed);

// One pair of each kind: the first two ranks of the first node that has two, and the first ranks of the first two
// nodes.
std::vector<Round> sample_pairs(const NodeOfRank& node_of_rank);

}  // namespace p5
