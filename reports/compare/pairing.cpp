#include "reports/compare/pairing.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

namespace p5::reports {

namespace {

const std::vector<Launch>& launches_of(const Observation& observation, Quantity quantity) {
  return quantity == Quantity::latency ? observation.latency : observation.throughput;
}

using LaunchSets = std::pair<std::vector<int>, std::vector<int>>;

LaunchSets launch_sets(const Pair& pair) {
  LaunchSets sets;
  for (const Launch& launch : pair.sides().base) sets.first.push_back(launch.number);
  for (const Launch& launch : pair.sides().fresh) sets.second.push_back(launch.number);
  return sets;
}

// The pairs that the most common sets of launches measured: only they can be drawn together.
std::vector<std::size_t> alike(const std::vector<Pair>& pairs, const std::vector<std::size_t>& all) {
  std::map<LaunchSets, std::vector<std::size_t>> groups;
  for (const std::size_t i : all) groups[launch_sets(pairs[i])].push_back(i);
  const auto better = [](const auto& a, const auto& b) {
    const auto launches = [](const LaunchSets& sets) { return std::min(sets.first.size(), sets.second.size()); };
    return std::pair(a.second.size(), launches(a.first)) < std::pair(b.second.size(), launches(b.first));
  };
  return std::ranges::max_element(groups, better)->second;
}

}  // namespace

Sides Pair::sides() const { return {launches_of(*base, quantity), launches_of(*fresh, quantity)}; }

std::string label_of(const Case& c) {
  std::string label = operation_of(c);
  if (c.group != "world") label += " " + c.group;
  if (c.in_place) label += " in place";
  if (c.cuda_graph) label += " graph";
  if (c.registration != "none") label += " registered " + c.registration;
  return label;
}

std::string identity_of(const Case& c, bool across_hardware) {
  const std::string what = fmt::format("{}|{}|{}|{}|{}", label_of(c), c.bytes.count, name_of(c.type),
                                       c.op ? name_of(*c.op) : "", c.root.value_or(-1));
  return across_hardware ? what : fmt::format("{}|{}|{}|{}", what, c.backend, c.ranks, c.nodes);
}

Matched match(const Side& base, const Side& fresh, bool across_hardware) {
  std::unordered_map<std::string, const Observation*> of_base;
  for (const Observation& each : base.observations) of_base[identity_of(each.measured_case, across_hardware)] = &each;
  Matched matched;
  std::set<const Observation*> found;
  for (const Observation& each : fresh.observations) {
    const auto place = of_base.find(identity_of(each.measured_case, across_hardware));
    if (place == of_base.end()) {
      matched.only_in_new.push_back(describe(each.measured_case));
    } else {
      matched.both.emplace_back(place->second, &each);
      found.insert(place->second);
    }
  }
  for (const Observation& each : base.observations)
    if (!found.contains(&each)) matched.only_in_base.push_back(describe(each.measured_case));
  return matched;
}

bool decides(const Observation& observation, Quantity quantity) {
  return quantity == Quantity::latency || observation.latency.empty() ||
         band_of(observation.measured_case.bytes).name != "latency";
}

std::vector<Pair> pairs_of(const Matched& matched) {
  std::vector<Pair> pairs;
  for (const auto& [base, fresh] : matched.both)
    for (const Quantity quantity : {Quantity::latency, Quantity::throughput}) {
      const Pair pair{base, fresh, quantity};
      if (!pair.sides().base.empty() && !pair.sides().fresh.empty()) pairs.push_back(pair);
    }
  std::ranges::stable_sort(pairs, {}, [](const Pair& pair) { return pair.fresh->measured_case.bytes; });
  return pairs;
}

std::vector<BandPairs> rows_of(const std::vector<Pair>& pairs) {
  std::map<std::tuple<std::string, std::size_t, Quantity>, BandPairs> rows;
  const std::vector<BandRule>& bands = thresholds().bands;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Case& c = pairs[i].fresh->measured_case;
    const BandRule& band = band_of(c.bytes);
    if (!decides(*pairs[i].base, pairs[i].quantity) && !decides(*pairs[i].fresh, pairs[i].quantity)) continue;
    BandPairs& row = rows[{label_of(c), static_cast<std::size_t>(&band - bands.data()), pairs[i].quantity}];
    row.collective = label_of(c);
    row.quantity = pairs[i].quantity;
    row.band = &band;
    row.pairs.push_back(i);
  }
  std::vector<BandPairs> all;
  for (auto& [key, row] : rows) {
    row.judged = alike(pairs, row.pairs);
    all.push_back(std::move(row));
  }
  return all;
}

}  // namespace p5::reports
