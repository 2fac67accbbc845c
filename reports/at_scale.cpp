#include "reports/at_scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "bench/base/inference.hpp"
#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "bench/base/text.hpp"
#include "reports/pair_times.hpp"

namespace p5::reports {

namespace {

// How much longer a group takes than the fast ones, each time that it was measured.
struct GroupTimes {
  Group group;
  std::vector<double> all, again;
};

std::vector<GroupTimes> group_times(const std::string& kind, const Report& report,
                                    const std::vector<Measurement>& again) {
  std::vector<GroupTimes> groups;
  const auto add = [&](const Measurement& m, bool second) {
    if (m.measured_case.group != kind || m.measured_case.arm != "default" || m.groups.size() < 2) return;
    std::vector<double> times;
    for (const GroupResult& result : m.groups) times.push_back(result.median.count);
    const double fast = middle_of_fast(times);
    if (!(fast > 0)) return;
    for (const GroupResult& result : m.groups) {
      auto found = std::ranges::find(groups, result.group, &GroupTimes::group);
      if (found == groups.end()) found = groups.insert(groups.end(), {result.group, {}, {}});
      found->all.push_back(result.median.count / fast);
      if (second) found->again.push_back(found->all.back());
    }
  };
  for (const Result& result : report.results)
    if (!result.measurement.measured_case.collective->pairwise) add(result.measurement, false);
  for (const Measurement& m : again)
    if (!m.measured_case.collective->pairwise) add(m, true);
  return groups;
}

bool is_slow(const std::vector<double>& times) { return !times.empty() && median(times) > 1 + matters; }

// The groups of a part against all others.
struct Weighed {
  double ratio = 1, again = 1, p = 1;
  std::size_t its = 0, others = 0;
};

// nullopt: not all of its groups are slow, then and again, or another is too.
std::optional<Weighed> weigh(const std::vector<GroupTimes>& groups, const std::vector<bool>& is_its,
                             std::size_t parts) {
  std::vector<double> its, others, again;
  Weighed found;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (is_slow(groups[i].all) != is_its[i]) return std::nullopt;
    if (is_its[i] && !is_slow(groups[i].again)) return std::nullopt;
    std::vector<double>& side = is_its[i] ? its : others;
    side.insert(side.end(), groups[i].all.begin(), groups[i].all.end());
    if (is_its[i]) again.insert(again.end(), groups[i].again.begin(), groups[i].again.end());
    ++(is_its[i] ? found.its : found.others);
  }
  if (its.empty() || others.empty()) return std::nullopt;
  found.ratio = median(its) / median(others);
  found.again = median(again);
  found.p = std::min(1.0, RankTest().above(others, its) * static_cast<double>(parts));
  if (found.p >= chance_of_accusing) return std::nullopt;
  return found;
}

// By how much the slowest pair of each place is slow: what pairs show is theirs to explain.
std::map<Place, double> slowness_of_pairs(const Report& report, const std::vector<Measurement>& again) {
  std::map<Place, double> worst;
  for (const PairTime& two : pair_times(report, again))
    for (const Place& end : {two.a, two.b})
      worst[end] = std::max(worst[end], two.usual.empty() ? 0 : median(two.usual));
  return worst;
}

std::string figures_of(const Weighed& weighed) {
  return fmt::format("{:.0f} % of the others' rate ({:.0f} % when measured again)", 100 / weighed.ratio,
                     100 / weighed.again);
}

}  // namespace

std::vector<Suspect> suspects_at_scale(const Report& report, const std::vector<Measurement>& again) {
  std::vector<Suspect> suspects;
  const std::map<Place, double> pairs = slowness_of_pairs(report, again);
  const std::vector<Place> places = places_of(report.topology);
  // Half as slow as the groups would do.
  const auto pairs_show_it = [&](const Weighed& weighed, const auto& is_its) {
    return std::ranges::any_of(
        pairs, [&](const auto& pair) { return is_its(pair.first) && pair.second - 1 > (weighed.ratio - 1) / 2; });
  };
  const std::vector<GroupTimes> rails = group_times("rail", report, again);
  std::vector<bool> slow;
  for (const GroupTimes& rail : rails) slow.push_back(is_slow(rail.all));
  // GPUs that share NICs make several slow. Where many are, that is not a rail.
  const bool few = std::cmp_less_equal(3 * std::ranges::count(slow, true), rails.size());
  const std::optional<Weighed> of_rails = few ? weigh(rails, slow, rails.size()) : std::nullopt;
  for (std::size_t rail = 0; of_rails && rail < rails.size(); ++rail) {
    if (!slow[rail]) continue;
    if (pairs_show_it(*of_rails, [&](Place place) { return std::cmp_equal(place.number, rail); })) continue;
    std::vector<std::string> ranks;
    for (const int rank : rails[rail].group) ranks.push_back(std::to_string(rank));
    if (ranks.size() > 4) ranks.resize(4), ranks.back() = "...";
    Suspect s{.kind = "rail", .name = std::to_string(rail), .host = "", .instance = "", .evidence = "", .action = ""};
    s.confidence = 1 - of_rails->p;
    s.partners_tested = static_cast<int>(of_rails->others);
    s.evidence = fmt::format(
        "the GPUs {} of all nodes (ranks {}) reach each other at {}; {} other rails agree, and no pair "
        "of nodes shows it",
        rail, join(ranks), figures_of(*of_rails), of_rails->others);
    s.action =
        "compare the counters and settings of its NICs and switches with another rail's; open a case with "
        "support.txt";
    suspects.push_back(std::move(s));
  }
  const std::vector<GroupTimes> halves = group_times("half", report, again);
  const std::size_t nodes = report.topology.hosts.size();
  std::map<std::vector<bool>, std::vector<std::size_t>> by_halves;
  for (std::size_t node = 0; node < nodes; ++node) {
    std::vector<bool> is_its;
    for (const GroupTimes& half : halves)
      is_its.push_back(std::ranges::any_of(
          half.group, [&](int rank) { return std::cmp_equal(places.at(static_cast<std::size_t>(rank)).node, node); }));
    by_halves[is_its].push_back(node);
  }
  for (const auto& [is_its, alike] : by_halves) {
    const std::optional<Weighed> found = alike.size() == 1 ? weigh(halves, is_its, nodes) : std::nullopt;
    if (!found) continue;
    if (pairs_show_it(*found, [&](Place place) { return std::cmp_equal(place.node, alike.front()); })) continue;
    const topo::Host& host = report.topology.hosts.at(alike.front());
    Suspect s{.kind = "node",
              .name = fmt::format("n{}", alike.front()),
              .host = host.name,
              .instance = host.instance,
              .evidence = "",
              .action = ""};
    s.confidence = 1 - found->p;
    s.partners_tested = static_cast<int>(nodes) - 1;
    s.evidence = fmt::format(
        "each of {} halves of the nodes that it is in goes at {}; pairs of nodes are fast: it shows "
        "only where many take part",
        found->its, figures_of(*found));
    s.action = "compare its settings and NIC counters with another node's; if it stays, replace the instance";
    suspects.push_back(std::move(s));
  }
  return suspects;
}

std::vector<InDoubt> groups_in_doubt(const Report& report) {
  std::vector<InDoubt> all;
  for (const Result& result : report.results) {
    const Case& c = result.measurement.measured_case;
    if (c.group != "rail" && c.group != "half") continue;
    if (std::ranges::any_of(group_times(c.group, report, {}), [](const GroupTimes& each) { return is_slow(each.all); }))
      all.push_back({c, {}});
  }
  return all;
}

}  // namespace p5::reports
