// Groups of ranks that perform an operation together: those of a collective, and rounds of disjoint pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/model/case.hpp"

namespace p5 {

// Values of Case::group for groups that only localize a fault: all ranks of some nodes, half of the ranks of each node,
// and pairs of ranks of different nodes in rounds without an idle rank.
inline constexpr std::string_view node_subset_group = "half", node_half_group = "node_half",
                                  all_rails_group = "all_rails";

// Fisher-Yates shuffle; the result depends on the random numbers alone, unlike that of the standard library.
template <class Values>
void shuffle(Values&& values, std::mt19937_64& random) {
  for (std::size_t left = values.size(); left > 1; --left) std::swap(values[left - 1], values[random() % left]);
}

// The node of each rank, nodes counted from 0 in order of their first rank.
using NodeOfRank = std::vector<int>;

int count_nodes(const NodeOfRank& node_of_rank);
// The number of nodes of a group's ranks.
int spanned_by(const Group& group, const NodeOfRank& node_of_rank);
bool are_of_one_size(const Round& groups);

// The communicators that a round needs: members ascending, groups in the order of their first members. Empty when the
// round is one group of all `ranks`, which uses the job's own communicator.
Round communicators_of(const Round& round, int ranks);
// Those of a round of a case, which may be larger than its groups (Case::communicators).
Round communicators_of(const Case& c, int round, int ranks);

// The NVLink domain of each rank, from 0 in order of their first rank: ranks whose GPUs share NVSwitches. A plain node
// is a domain of its own.
using DomainOfRank = std::vector<int>;

// Where the ranks are. Without domains each node is one.
struct Placement {
  // NOLINTNEXTLINE(google-explicit-constructor): a plain node is a domain of its own
  Placement(NodeOfRank nodes) : node_of_rank(std::move(nodes)), domain_of_rank(node_of_rank) {}
  Placement(NodeOfRank nodes, DomainOfRank domains)
      : node_of_rank(std::move(nodes)), domain_of_rank(std::move(domains)) {}
  NodeOfRank node_of_rank;
  DomainOfRank domain_of_rank;

  // True if a domain has several nodes.
  bool has_wide_domains() const { return domain_of_rank != node_of_rank; }
};

// "world": all ranks. "node": the ranks of each node. "domain": the ranks of each NVLink domain. "rail": the i-th ranks
// of all nodes. "stride:N": ranks that differ by a multiple of N. Throws UsageError for any other text, and for a
// stride below 1 or above the number of ranks.
Round make_groups(std::string_view spec, const Placement& placement);

// All pairs of `count` players in disjoint rounds (the circle method of round-robin tournaments): count-1 rounds, or
// `count` rounds with one idle player each when odd.
std::vector<std::vector<std::pair<int, int>>> round_robin(int count);

// Pairs of ranks in disjoint rounds, each pair once with its lower rank first. A round has pairs of one kind, because
// links within a node and NICs differ.
struct PairRounds {
  std::vector<Round> same_node;     // all nodes at once
  std::vector<Round> same_domain;   // of different nodes, all domains at once; none where nodes are domains
  std::vector<Round> other_domain;  // each pairs whole domains
  bool sampled = false;             // some pairs of different nodes are in no round
};

// All pairs, or, where they need more than `most_rounds`: all within nodes, and rounds of other pairs drawn with
// `seed`, those of the same position on both sides first, up to `most_rounds` in all, and at least one of each kind.
PairRounds all_pairs(const Placement& placement, int most_rounds, std::uint64_t seed);

// Rounds between nodes of the participating ranks: all of the same position first, then all of the same distance
// between positions, fewer than `most`. Their order is drawn with `seed`. With domains as nodes: between domains.
std::vector<Round> pairs_between(const NodeOfRank& node_of_rank, const std::vector<bool>& takes_part, int most,
                                 std::uint64_t seed);

// The retest of suspected pairs, each twice, and of their ranks, each with `partners` unsuspected ranks.
struct RetestPairs {
  std::set<Group> pairs;  // ascending ranks
  int partners = 6;
};
// Selects nearly the fewest of `rounds` that perform the retest, at most `most`; a round may be selected twice.
std::vector<Round> select_retest_rounds(const RetestPairs& doubts, const std::vector<Round>& rounds, int most);

// Rounds of groups of two nodes, each two once; of more than eight nodes, or of nodes with a single rank, rounds of two
// groups, each half of the nodes, drawn with `seed`, in which no two nodes are in the same half in all rounds, and up
// to 64 nodes hardly any two in none. With an odd number one node is idle. Four or five nodes with a single rank are
// all in one group but one, each in turn. Fewer than three nodes, or four with a single rank, have no rounds.
std::vector<Round> node_halves(const NodeOfRank& node_of_rank, std::uint64_t seed);

// The same for the ranks of each node, all nodes at once. Empty for nodes with fewer than six ranks, or with different
// numbers.
std::vector<Round> halves_of_each_node(const NodeOfRank& node_of_rank, std::uint64_t seed);

// Rounds of pairs between an odd number of nodes in which no rank is idle: three nodes pair halves of their ranks with
// each other, the others whole nodes. Empty for an even number of nodes, fewer than three, and nodes whose numbers of
// ranks differ or are odd.
std::vector<Round> pairs_on_all_rails(const NodeOfRank& node_of_rank);

// One pair of each kind: the first two ranks of the first node that has two, the first ranks of the first two nodes of
// a domain, and of the first two domains.
PairRounds sample_pairs(const Placement& placement);

// Each round, followed by the same pairs in the other direction.
std::vector<Round> both_directions(const std::vector<Round>& rounds);
// The inverse of both_directions().
std::vector<Round> first_directions(const std::vector<Round>& rounds);

}  // namespace p5
