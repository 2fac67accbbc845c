// Sets of nodes that may have a fault between them, such as in a spine switch of the network: a set has the nodes whose
// pairs are seldom slow.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
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

// Sets of nodes, and the samples of pairs: between each two sets and, on the diagonal, within each.
class NodeSets {
 public:
  NodeSets(const std::map<std::pair<int, int>, SampleCounts>& pairs, const std::set<int>& nodes) {
    std::map<int, std::size_t> place;
    for (const int node : nodes) {
      place[node] = sets_.size();
      sets_.push_back({node});
    }
    between_.assign(sets_.size(), std::vector<SampleCounts>(sets_.size()));
    for (const auto& [two, its] : pairs) {
      const std::size_t one = place[two.first], other = place[two.second];
      between_[one][other] = between_[other][one] = its;
    }
  }

  const std::vector<std::vector<int>>& sets() const { return sets_; }

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

  // Log likelihood of all samples, if there is one rate between the `coherent` sets, a lower one within them, and for
  // each other set, such as a slow node, a rate of its own. Null if the rate between them is not the higher one.
  std::optional<double> log_likelihood(const std::vector<std::size_t>& coherent) const {
    SampleCounts within, across;
    std::vector<SampleCounts> of_others(sets_.size());
    const auto is_other = [&](std::size_t set) { return std::ranges::find(coherent, set) == coherent.end(); };
    for (std::size_t one = 0; one < sets_.size(); ++one) {
      add_counts(is_other(one) ? of_others[one] : within, between_[one][one]);
      for (std::size_t other = one + 1; other < sets_.size(); ++other)
        add_counts(is_other(one) ? of_others[one] : is_other(other) ? of_others[other] : across, between_[one][other]);
    }
    if (across.share() <= within.share()) return std::nullopt;
    double sum = best_log_likelihood(within) + best_log_likelihood(across);
    for (const SampleCounts& each : of_others) sum += best_log_likelihood(each);
    return sum;
  }

 private:
  std::vector<std::vector<int>> sets_;
  std::vector<std::vector<SampleCounts>> between_;
};

}  // namespace

std::vector<std::vector<int>> sets_of_nodes(std::span<const TransferRecord> observations,
                                            SampleCounts TransferRecord::*trials) {
  std::map<std::pair<int, int>, SampleCounts> pairs;  // of nodes
  std::set<int> nodes;
  for (const TransferRecord& each : observations) {
    if (!each.is_pair() || each.kind == Transfers::within_node) continue;
    nodes.insert({each.ranks[0].node, each.ranks[1].node});
    add_counts(pairs[std::minmax(each.ranks[0].node, each.ranks[1].node)], each.*trials);
  }
  NodeSets joined(pairs, nodes);
  std::vector<std::vector<int>> likeliest;
  std::optional<double> highest;
  do {
    const std::vector<std::size_t> coherent = joined.coherent();
    const std::optional<double> its = joined.log_likelihood(coherent);
    if (!its || (highest && *its <= *highest)) continue;
    highest = its;
    likeliest.clear();
    for (const std::size_t set : coherent) likeliest.push_back(joined.sets()[set]);
  } while (joined.join_closest());
  // Only nodes that were measured with a node of another set stay: others may be apart because nothing joined them.
  std::map<int, std::size_t> set_of;
  for (std::size_t set = 0; set < likeliest.size(); ++set)
    for (const int node : likeliest[set]) set_of[node] = set;
  std::set<int> measured_across;
  for (const auto& [two, its] : pairs)
    if (its.count > 0 && set_of.contains(two.first) && set_of.contains(two.second) &&
        set_of[two.first] != set_of[two.second])
      measured_across.insert({two.first, two.second});
  std::vector<std::vector<int>> all;
  for (std::vector<int>& set : likeliest) {
    std::erase_if(set, [&](int node) { return !measured_across.contains(node); });
    std::ranges::sort(set);
    if (set.size() > 1) all.push_back(std::move(set));
  }
  std::ranges::sort(all);
  return all.size() > 1 ? all : std::vector<std::vector<int>>();
}

}  // namespace p5::reports
