#include "reports/pair_times.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "bench/base/statistics.hpp"
#include "bench/model/backends.hpp"
#include "topo/platform.hpp"

namespace p5::reports {

namespace {

constexpr double of_one_kind = 0.10;  // what differs by more from the fast ones is none of them
constexpr int enough_nodes = 4;       // to compare the same places with each other

bool has_bandwidth(const Case& c) {
  return c.nic || c.bytes >= (find_backend(c.backend).parts == BackendInfo::Parts::gpus ? MiB(64) : Bytes{256u << 10});
}

bool is_comparable(const Case& c, const topo::Topology& topology) {
  if (c.pair == "other_node") return std::ranges::none_of(topology.hosts, &topo::Host::pretended);  // passes no NIC
  if (find_backend(c.backend).parts != BackendInfo::Parts::gpus) return false;
  // Without a switch some GPUs of a node are farther apart than others, and that is no fault.
  const topo::Platform* const platform = topo::platform_of_instance_type(topology.platform);
  return !topo::gpu_model(topology).empty() && (!platform || platform->nvswitch);
}

// What two pairs have in common whose times are compared.
struct Way {
  bool within = false;
  int distance = 0, place = -1;  // on the nodes; place: -1 where all are alike
  auto operator<=>(const Way&) const = default;
};

struct Time {
  std::pair<Place, Place> two;
  std::optional<int> nic;
  double usual = 0, high = 0;
};

// What those take that are fast; 0: not known.
struct Fast {
  double usual = 0, high = 0;
};

class Collector {
 public:
  explicit Collector(const topo::Topology& topology)
      : topology_(topology), places_(places_of(topology)), many_nodes_(topology.hosts.size() >= enough_nodes) {
    for (const Place& place : places_) ++ranks_on_[place.node];
  }

  // What is measured again comes after what it repeats.
  void add(const std::vector<const Measurement*>& measured, bool again) {
    std::map<std::string, Ways> alike;
    for (const Measurement* m : measured)
      for (const GroupResult& result : m->groups) {
        if (result.group.size() != 2 || result.median.count <= 0) continue;
        const auto ranks = std::minmax(result.group[0], result.group[1]);
        if (ranks.first < 0 || std::cmp_greater_equal(ranks.second, places_.size())) continue;
        const Place a = places_[static_cast<std::size_t>(ranks.first)],
                    b = places_[static_cast<std::size_t>(ranks.second)];
        alike[what_is_alike(m->measured_case)][way_of(a, b)].push_back(
            {{a, b}, m->measured_case.nic, result.median.count, result.high.count});
      }
    for (const auto& [what, ways] : alike) {
      const Fast drift = again ? drift_of(what, ways) : Fast{1, 1};
      for (const auto& [way, times] : ways) {
        const auto [known, fresh] = fast_.try_emplace({what, way});
        if (fresh) known->second = fast_of(times);
        const Fast fast = known->second;
        add(times, fresh ? fast : Fast{fast.usual * drift.usual, fast.high * drift.high}, again);
      }
    }
  }

  std::vector<PairTime> all() && {
    std::vector<PairTime> list;
    for (auto& [key, pair] : of_pair_) list.push_back(std::move(pair));
    return list;
  }

 private:
  using Ways = std::map<Way, std::vector<Time>>;

  Way way_of(Place a, Place b) {
    if (a.node == b.node) return {.within = true};
    const int there = ranks_on_[a.node];
    const int distance = (b.number - a.number + there) % there;
    return {.within = false, .distance = distance, .place = many_nodes_ && distance == 0 ? a.number : -1};
  }

  // The operation; single NICs of one kind and rate together, so that one pair that is fast by chance is one of many.
  std::string what_is_alike(Case c) const {
    std::string text = c.backend + to_text(c.bytes);
    if (c.nic) text += kind_of_nic(static_cast<std::size_t>(*c.nic));
    c.nic.reset();
    return text + operation_of(c);
  }

  // Of the first rank that has it.
  std::string kind_of_nic(std::size_t number) const {
    for (std::size_t rank = 0; rank < std::min(places_.size(), topology_.nics_of_rank.size()); ++rank) {
      const std::vector<std::string>& names = topology_.nics_of_rank[rank];
      if (number >= names.size()) continue;
      const topo::Host& host = topology_.hosts.at(static_cast<std::size_t>(places_[rank].node));
      const auto nic = std::ranges::find(host.nics, names[number], &topo::Nic::name);
      if (nic == host.nics.end()) break;
      return fmt::format("{} of {:g} GB/s", nic->kind, nic->rate.value_or(GBps{}).count);
    }
    return fmt::format("NIC {}", number);
  }

  Fast fast_of(const std::vector<Time>& times) const {
    std::vector<double> usual, high;
    for (const Time& time : times) {
      usual.push_back(time.usual);
      if (time.high > 0) high.push_back(time.high);
    }
    return {middle_of_fast(usual), high.size() == times.size() ? middle_of_fast(high) : 0};
  }

  // What those that were fast before take now, of what they took. Over all ways together: of one way there may be a
  // single pair, and that slow by chance.
  Fast drift_of(const std::string& what, const Ways& ways) const {
    std::vector<double> usual, high;
    for (const auto& [way, times] : ways) {
      const auto fast = fast_.find({what, way});
      if (fast == fast_.end()) continue;
      for (const Time& time : times) {
        const auto before = of_pair_.find({time.two, time.nic.value_or(-1)});
        if (before == of_pair_.end() || is_slow(before->second)) continue;
        usual.push_back(time.usual / fast->second.usual);
        if (time.high > 0 && fast->second.high > 0) high.push_back(time.high / fast->second.high);
      }
    }
    return {usual.empty() ? 1 : median(usual), high.empty() ? 1 : median(high)};
  }

  void add(const std::vector<Time>& times, const Fast& fast, bool again) {
    for (const Time& time : times) {
      PairTime& pair = of_pair_[{time.two, time.nic.value_or(-1)}];
      std::tie(pair.a, pair.b) = time.two;
      pair.nic = time.nic;
      if (fast.usual > 0) {
        pair.usual.push_back(time.usual / fast.usual);
        if (again) pair.again.push_back(pair.usual.back());
      }
      if (fast.high > 0 && time.high > 0) {
        pair.high.push_back(time.high / fast.high);
        if (again) pair.high_again.push_back(pair.high.back());
      }
    }
  }

  const topo::Topology& topology_;
  std::vector<Place> places_;
  bool many_nodes_;
  std::map<int, int> ranks_on_;
  std::map<std::pair<std::pair<Place, Place>, int>, PairTime> of_pair_;
  std::map<std::pair<std::string, Way>, Fast> fast_;
};

}  // namespace

double middle_of_fast(std::vector<double> times) {
  std::ranges::sort(times);
  const double fast = times[times.size() / 10] * (1 + of_one_kind);
  times.erase(std::ranges::upper_bound(times, fast), times.end());
  return median_of_sorted(times);
}

std::vector<Place> places_of(const topo::Topology& topology) {
  std::vector<Place> places;
  std::map<int, int> seen;
  for (const int node : topology.host_of_rank) places.push_back({node, seen[node]++});
  return places;
}

double slowness(const PairTime& two) {
  return std::max(two.usual.empty() ? 0 : median(two.usual), two.high.empty() ? 0 : median(two.high));
}
bool is_slow(const PairTime& two) { return slowness(two) > 1 + matters; }

std::vector<std::size_t> cases_of_pairs(const Report& report) {
  // By what all sizes have in common: the largest size of several pairs, else the largest.
  std::map<std::string, std::size_t> best;
  for (std::size_t at = 0; at < report.results.size(); ++at) {
    const Measurement& m = report.results[at].measurement;
    const Case& c = m.measured_case;
    if (!c.collective->pairwise || c.arm != "default" || c.pair.empty() || m.groups.empty()) continue;
    if (!has_bandwidth(c) || !is_comparable(c, report.topology)) continue;
    const auto [found, first] =
        best.try_emplace(c.backend + " " + operation_of(c) + " " + std::string(name_of(c.type)), at);
    const Measurement& other = report.results[found->second].measurement;
    const auto worth = [](const Measurement& each) { return std::pair(each.groups.size(), each.measured_case.bytes); };
    if (!first && worth(m) > worth(other)) found->second = at;
  }
  std::vector<std::size_t> all;
  for (const auto& [operation, at] : best) all.push_back(at);
  return all;
}

std::vector<PairTime> pair_times(const Report& report, const std::vector<Measurement>& again) {
  Collector collector(report.topology);
  std::vector<const Measurement*> first, second;
  for (const std::size_t at : cases_of_pairs(report)) first.push_back(&report.results[at].measurement);
  for (const Measurement& m : again)
    if (m.measured_case.collective->pairwise) second.push_back(&m);
  collector.add(first, false);
  collector.add(second, true);
  return std::move(collector).all();
}

}  // namespace p5::reports
