// Sets of nodes that may have a fault between them, such as in a spine switch of the network: a set has nodes whose
// pairs are seldom slow, and which are slow with the nodes of other sets.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
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

void add_counts(SampleCounts& to, const SampleCounts& its) { to.count += its.count, to.hits += its.hits; }

// All samples of two nodes with each other, and the nodes' indices.
struct PairOfNodes {
  std::size_t one = 0, other = 0;
  SampleCounts its;
};

// Sets of nodes, and the samples of pairs: between each two sets and, on the diagonal, within each.
class NodeSets {
 public:
  NodeSets(std::span<const PairOfNodes> pairs, std::size_t nodes) : between_(nodes, std::vector<SampleCounts>(nodes)) {
    for (std::size_t node = 0; node < nodes; ++node) sets_.push_back({node});
    for (const auto& [one, other, its] : pairs) between_[one][other] = between_[other][one] = its;
  }

  const std::vector<std::vector<std::size_t>>& sets() const { return sets_; }

  // Joins the two sets with the lowest rate between them; false if no two were measured with each other.
  bool join_closest() {
    std::optional<std::pair<std::size_t, std::size_t>> closest;
    double lowest = 0;
    for (std::size_t one = 0; one < sets_.size(); ++one)
      for (std::size_t other = one + 1; other < sets_.size(); ++other) {
        const SampleCounts& its = between_[one][other];
        const double rate = (its.hits + 1.0) / (its.count + 2);  // few samples say less
        if (its.count > 0 && (!closest || rate < lowest)) closest = {one, other}, lowest = rate;
      }
    if (!closest) return false;
    const auto [kept, gone] = *closest;
    sets_[kept].insert(sets_[kept].end(), sets_[gone].begin(), sets_[gone].end());
    add_counts(between_[kept][kept], between_[kept][gone]);
    add_counts(between_[kept][kept], between_[gone][gone]);
    for (std::size_t other = 0; other < sets_.size(); ++other) {
      if (other == kept || other == gone) continue;
      add_counts(between_[kept][other], between_[gone][other]);
      between_[other][kept] = between_[kept][other];
    }
    sets_.erase(sets_.begin() + static_cast<std::ptrdiff_t>(gone));
    between_.erase(between_.begin() + static_cast<std::ptrdiff_t>(gone));
    for (std::vector<SampleCounts>& row : between_) row.erase(row.begin() + static_cast<std::ptrdiff_t>(gone));
    return true;
  }

  // Indices of the sets of two nodes or more whose own pairs are slow less than half as often as pairs of nodes of
  // different sets. Two slow nodes are no such set.
  std::vector<std::size_t> coherent() const {
    SampleCounts apart;
    for (std::size_t one = 0; one < sets_.size(); ++one)
      for (std::size_t other = one + 1; other < sets_.size(); ++other) add_counts(apart, between_[one][other]);
    std::vector<std::size_t> found;
    for (std::size_t set = 0; set < sets_.size(); ++set)
      if (sets_[set].size() > 1 && 2 * between_[set][set].share() < apart.share()) found.push_back(set);
    return found;
  }

 private:
  std::vector<std::vector<std::size_t>> sets_;
  std::vector<std::vector<SampleCounts>> between_;
};

// For each node the set that it is in, or `no_set`.
using SetOfNode = std::vector<std::size_t>;
constexpr std::size_t no_set = std::numeric_limits<std::size_t>::max();

// Takes nodes out that are slow with other sets in less than half as many samples as nodes of different sets are, and
// sets of which one node is left: a node that is fast with all nodes, or was not measured with another set, is in one
// of the sets by chance. Each one that leaves raises the rate of those that stay.
void take_out_fast_nodes(SetOfNode& set_of, std::span<const PairOfNodes> pairs) {
  for (bool changed = true; changed;) {
    changed = false;
    std::vector<SampleCounts> with_others(set_of.size());
    SampleCounts across;
    for (const auto& [one, other, its] : pairs)
      if (set_of[one] != no_set && set_of[other] != no_set && set_of[one] != set_of[other])
        for (SampleCounts* const to : {&with_others[one], &with_others[other], &across}) add_counts(*to, its);
    std::vector<int> nodes_in(set_of.size());
    const auto take_out_if = [&](const auto& leaves) {
      for (std::size_t node = 0; node < set_of.size(); ++node)
        if (set_of[node] != no_set && leaves(node)) set_of[node] = no_set, changed = true;
    };
    take_out_if([&](std::size_t node) { return 2 * with_others[node].share() < across.share(); });
    for (const std::size_t set : set_of)
      if (set != no_set) ++nodes_in[set];
    take_out_if([&](std::size_t node) { return nodes_in[set_of[node]] < 2; });
  }
}

// Log likelihood of all samples, if there is one rate between the sets, a lower one within them, and a rate of its own
// for each node that is in none, such as a slow one. Null if the rate between the sets is not the higher one.
std::optional<double> log_likelihood(const SetOfNode& set_of, std::span<const PairOfNodes> pairs) {
  SampleCounts within, across;
  std::vector<SampleCounts> of_others(set_of.size());
  for (const auto& [one, other, its] : pairs)
    add_counts(set_of[one] == no_set          ? of_others[one]
               : set_of[other] == no_set      ? of_others[other]
               : set_of[one] == set_of[other] ? within
                                              : across,
               its);
  if (across.share() <= within.share()) return std::nullopt;
  double sum = best_log_likelihood(within) + best_log_likelihood(across);
  for (const SampleCounts& each : of_others) sum += best_log_likelihood(each);
  return sum;
}

// Puts nodes that are in no set into one where this makes the samples likelier. A node that all others reach fast may
// have joined two nodes of different sets, of which one was taken out again.
void put_into_sets(SetOfNode& set_of, std::span<const PairOfNodes> pairs, double likelihood) {
  std::set<std::size_t> sets(set_of.begin(), set_of.end());
  sets.erase(no_set);
  for (std::size_t& its : set_of) {
    if (its != no_set) continue;
    std::size_t best = no_set;
    for (const std::size_t set : sets) {
      its = set;
      const std::optional<double> with = log_likelihood(set_of, pairs);
      if (with && *with > likelihood) best = set, likelihood = *with;
    }
    its = best;
  }
}

}  // namespace

std::vector<std::vector<int>> sets_of_nodes(std::span<const TransferRecord> observations,
                                            SampleCounts TransferRecord::*trials) {
  std::map<std::pair<int, int>, SampleCounts> counts;
  std::map<int, std::size_t> place;  // of nodes
  for (const TransferRecord& each : observations) {
    if (!each.is_pair() || each.kind == Transfers::within_node) continue;
    for (const RankLocation& rank : each.ranks) place.emplace(rank.node, 0);
    add_counts(counts[std::minmax(each.ranks[0].node, each.ranks[1].node)], each.*trials);
  }
  std::vector<int> nodes;
  for (auto& [node, at] : place) {
    at = nodes.size();
    nodes.push_back(node);
  }
  std::vector<PairOfNodes> pairs;
  for (const auto& [two, its] : counts) pairs.push_back({place[two.first], place[two.second], its});
  NodeSets joined(pairs, nodes.size());
  SetOfNode likeliest(nodes.size(), no_set);
  std::optional<double> highest;
  do {
    SetOfNode set_of(nodes.size(), no_set);
    for (const std::size_t set : joined.coherent())
      for (const std::size_t node : joined.sets()[set]) set_of[node] = set;
    take_out_fast_nodes(set_of, pairs);
    const std::optional<double> its = log_likelihood(set_of, pairs);
    if (!its || (highest && *its <= *highest)) continue;
    highest = its;
    likeliest = std::move(set_of);
  } while (joined.join_closest());
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
