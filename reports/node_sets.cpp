// Sets of nodes that may have a fault between them, such as in a spine switch of the network: a set has nodes whose
// pairs are seldom slow, and which are slow with the nodes of other sets.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "reports/observations.hpp"

namespace p5::reports {

namespace {

// Log likelihood of samples at the rate of hits that fits them best, or at the usual rate of healthy transfers if that
// is higher: at a rate of 0, one slow route would count for more than all other pairs of its node.
double best_log_likelihood(const SampleCounts& its) {
  constexpr double usual_rate = 0.02;
  const double rate = std::max(its.share(), usual_rate);
  double sum = 0;
  if (its.hits > 0) sum += its.hits * std::log(rate);
  if (its.hits < its.count) sum += (its.count - its.hits) * std::log1p(-rate);
  return sum;
}

// Samples of pairs of nodes, of one kind of transfers or of several. What joins sets of nodes may be slow in some kinds
// only: hits are held against those of all pairs in the same kinds, so that a kind in which all are alike says nothing.
struct SamplesOfPairs : SampleCounts {
  double expected = 0;  // hits that as many samples of all pairs have
  double ratio() const { return expected > 0 ? hits / expected : 0; }
};

void add_samples(SamplesOfPairs& to, const SamplesOfPairs& its) {
  to.count += its.count, to.hits += its.hits, to.expected += its.expected;
}

// The samples of two nodes with each other in one kind of transfers, and the nodes' indices.
struct PairOfNodes {
  std::size_t one = 0, other = 0, kind = 0;
  SamplesOfPairs its;
};

// For each node the set that it is in, or `no_set`.
using SetOfNode = std::vector<std::size_t>;
constexpr std::size_t no_set = std::numeric_limits<std::size_t>::max();

// Sets of nodes, and the samples of pairs: between each two sets and, on the diagonal, within each.
class NodeSets {
 public:
  NodeSets(std::span<const PairOfNodes> pairs, const SetOfNode& set_of) {
    for (std::size_t node = 0; node < set_of.size(); ++node) {
      sets_.resize(std::max(sets_.size(), set_of[node] + 1));
      sets_[set_of[node]].push_back(node);
    }
    between_.resize(sets_.size(), std::vector<SamplesOfPairs>(sets_.size()));
    for (const PairOfNodes& pair : pairs) {
      const std::size_t one = set_of[pair.one], other = set_of[pair.other];
      add_samples(between_[one][other], pair.its);
      if (one != other) add_samples(between_[other][one], pair.its);
    }
  }

  const std::vector<std::vector<std::size_t>>& sets() const { return sets_; }

  // Joins the two sets with the lowest ratio of hits between them; false if no two were measured with each other.
  bool join_closest() {
    std::optional<std::pair<std::size_t, std::size_t>> closest;
    double lowest = 0;
    for (std::size_t one = 0; one < sets_.size(); ++one)
      for (std::size_t other = one + 1; other < sets_.size(); ++other) {
        const SamplesOfPairs& its = between_[one][other];
        const double ratio = (its.hits + 1) / (its.expected + 1);  // few samples say less
        if (its.count > 0 && (!closest || ratio < lowest)) closest = {one, other}, lowest = ratio;
      }
    if (!closest) return false;
    const auto [kept, gone] = *closest;
    sets_[kept].insert(sets_[kept].end(), sets_[gone].begin(), sets_[gone].end());
    add_samples(between_[kept][kept], between_[kept][gone]);
    add_samples(between_[kept][kept], between_[gone][gone]);
    for (std::size_t other = 0; other < sets_.size(); ++other) {
      if (other == kept || other == gone) continue;
      add_samples(between_[kept][other], between_[gone][other]);
      between_[other][kept] = between_[kept][other];
    }
    sets_.erase(sets_.begin() + static_cast<std::ptrdiff_t>(gone));
    between_.erase(between_.begin() + static_cast<std::ptrdiff_t>(gone));
    for (std::vector<SamplesOfPairs>& row : between_) row.erase(row.begin() + static_cast<std::ptrdiff_t>(gone));
    return true;
  }

  // Indices of the sets of two nodes or more whose own pairs are slow less than half as often as pairs of nodes of
  // different sets. Two slow nodes are no such set.
  std::vector<std::size_t> coherent() const {
    SamplesOfPairs apart;
    for (std::size_t one = 0; one < sets_.size(); ++one)
      for (std::size_t other = one + 1; other < sets_.size(); ++other) add_samples(apart, between_[one][other]);
    std::vector<std::size_t> found;
    for (std::size_t set = 0; set < sets_.size(); ++set)
      if (sets_[set].size() > 1 && 2 * between_[set][set].ratio() < apart.ratio()) found.push_back(set);
    return found;
  }

 private:
  std::vector<std::vector<std::size_t>> sets_;
  std::vector<std::vector<SamplesOfPairs>> between_;
};

// Takes nodes out that are slow with other sets in less than half as many samples as nodes of different sets are, and
// sets of which one node is left: a node that is fast with all nodes, or was not measured with another set, is in one
// of the sets by chance. Each one that leaves raises the rate of those that stay.
void take_out_fast_nodes(SetOfNode& set_of, std::span<const PairOfNodes> pairs) {
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<SamplesOfPairs> with_others(set_of.size());
    SamplesOfPairs across;
    for (const auto& [one, other, kind, its] : pairs)
      if (set_of[one] != no_set && set_of[other] != no_set && set_of[one] != set_of[other])
        for (SamplesOfPairs* const to : {&with_others[one], &with_others[other], &across}) add_samples(*to, its);
    std::vector<int> nodes_in(set_of.size());
    const auto take_out_if = [&](const auto& leaves) {
      for (std::size_t node = 0; node < set_of.size(); ++node)
        if (set_of[node] != no_set && leaves(node)) set_of[node] = no_set, changed = true;
    };
    take_out_if([&](std::size_t node) { return 2 * with_others[node].ratio() < across.ratio(); });
    for (const std::size_t set : set_of)
      if (set != no_set) ++nodes_in[set];
    take_out_if([&](std::size_t node) { return nodes_in[set_of[node]] < 2; });
  }
}

// Log probability of all samples, if each kind of transfers has one rate between the sets, another one within them, and
// one for each node that is in none, such as a slow one, and if each node might be in any of the sets or in none. Null
// if the rate between the sets is the higher one in no kind.
std::optional<double> log_probability(const SetOfNode& set_of, std::span<const PairOfNodes> pairs) {
  using ByKind = std::array<SamplesOfPairs, kinds_of_transfers>;
  ByKind within, across;
  std::vector<ByKind> of_others(set_of.size());
  for (const auto& [one, other, kind, its] : pairs) {
    ByKind& all = set_of[one] == no_set          ? of_others[one]
                  : set_of[other] == no_set      ? of_others[other]
                  : set_of[one] == set_of[other] ? within
                                                 : across;
    add_samples(all[kind], its);
  }
  std::set<std::size_t> sets(set_of.begin(), set_of.end());
  sets.insert(no_set);
  bool any_higher = false;
  double sum = -static_cast<double>(set_of.size()) * std::log(static_cast<double>(sets.size()));
  for (std::size_t kind = 0; kind < kinds_of_transfers; ++kind) {
    any_higher = any_higher || across[kind].share() > within[kind].share();
    sum += best_log_likelihood(within[kind]) + best_log_likelihood(across[kind]);
    for (const ByKind& each : of_others) sum += best_log_likelihood(each[kind]);
  }
  return any_higher ? std::optional(sum) : std::nullopt;
}

// Puts nodes that are in no set into one where this makes the samples likelier. A node that all others reach fast may
// have joined two nodes of different sets, of which one was taken out again.
void put_into_sets(SetOfNode& set_of, std::span<const PairOfNodes> pairs, double highest) {
  std::set<std::size_t> sets(set_of.begin(), set_of.end());
  sets.erase(no_set);
  for (std::size_t& its : set_of) {
    if (its != no_set) continue;
    std::size_t best = no_set;
    for (const std::size_t set : sets) {
      its = set;
      const std::optional<double> with = log_probability(set_of, pairs);
      if (with && *with > highest) best = set, highest = *with;
    }
    its = best;
  }
}

}  // namespace

std::vector<std::vector<int>> sets_of_nodes(std::span<const TransferRecord> observations,
                                            SampleCounts TransferRecord::*trials,
                                            const std::vector<int>& domain_of_node) {
  std::array<std::map<std::pair<int, int>, SamplesOfPairs>, kinds_of_transfers> by_kind;
  std::map<int, std::size_t> place;  // of nodes
  for (const TransferRecord& each : observations) {
    // Links between nodes are no part of what goes over NVLinks.
    if (!each.is_pair() || !show_probability(Part::Kind::links, Mode::usual, each.kind)) continue;
    for (const RankLocation& rank : each.ranks) place.emplace(rank.node, 0);
    const std::pair<int, int> two = std::minmax(each.ranks[0].node, each.ranks[1].node);
    add_samples(by_kind[static_cast<std::size_t>(each.kind)][two], {each.*trials});
  }
  std::vector<int> nodes;
  for (auto& [node, at] : place) {
    at = nodes.size();
    nodes.push_back(node);
  }
  std::vector<PairOfNodes> pairs;
  for (std::size_t kind = 0; kind < kinds_of_transfers; ++kind) {
    SamplesOfPairs all;
    for (const auto& [two, its] : by_kind[kind]) add_samples(all, its);
    for (auto& [two, its] : by_kind[kind]) {
      its.expected = its.count * all.share();
      pairs.push_back({place[two.first], place[two.second], kind, its});
    }
  }
  SetOfNode likeliest(nodes.size(), no_set);
  std::optional<double> highest;
  const auto weigh_all_from = [&](const SetOfNode& first) {
    NodeSets joined(pairs, first);
    do {
      SetOfNode set_of(nodes.size(), no_set);
      for (const std::size_t set : joined.coherent())
        for (const std::size_t node : joined.sets()[set]) set_of[node] = set;
      take_out_fast_nodes(set_of, pairs);
      const std::optional<double> its = log_probability(set_of, pairs);
      if (!its || (highest && *its <= *highest)) continue;
      highest = its;
      likeliest = std::move(set_of);
    } while (joined.join_closest());
  };
  SetOfNode first(nodes.size());
  // Nodes of one domain may have been measured with each other over NVLinks only.
  if (!domain_of_node.empty()) {
    for (std::size_t node = 0; node < nodes.size(); ++node)
      first[node] = static_cast<std::size_t>(domain_of_node.at(static_cast<std::size_t>(nodes[node])));
    weigh_all_from(first);
  }
  std::iota(first.begin(), first.end(), 0);
  weigh_all_from(first);
  if (highest) put_into_sets(likeliest, pairs, *highest);
  std::map<std::size_t, std::vector<int>> sets;
  for (std::size_t node = 0; node < nodes.size(); ++node)
    if (likeliest[node] != no_set) sets[likeliest[node]].push_back(nodes[node]);
  std::vector<std::vector<int>> all;
  for (auto& [set, its] : sets) all.push_back(std::move(its));
  std::ranges::sort(all);
  return all;
}

}  // namespace p5::reports
