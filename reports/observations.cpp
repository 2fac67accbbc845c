#include "reports/observations.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/groups.hpp"
#include "topo/platform.hpp"

namespace p5::reports {

namespace {

constexpr double of_one_kind = 0.10;  // relative; longer times do not count as fast
constexpr int enough_nodes = 4;       // from which pairs with equal indices are compared separately

bool has_bandwidth(const Case& c) {
  return c.nic || c.bytes >= (find_backend(c.backend).parts == BackendInfo::Parts::gpus ? MiB(64) : Bytes{256u << 10});
}

bool are_pretended(const topo::Topology& topology) {
  return std::ranges::any_of(topology.hosts, &topo::Host::pretended);
}

// Without NVSwitch the distances between GPUs of a node differ by design.
bool has_equal_distances(const topo::Topology& topology) {
  const topo::Platform* const platform = topo::platform_of_instance_type(topology.platform);
  return !platform || platform->nvswitch;
}

const topo::Gpu* gpu_of(RankLocation place, std::size_t rank, const topo::Topology& topology) {
  const std::vector<topo::Gpu>& gpus = topology.hosts.at(static_cast<std::size_t>(place.node)).gpu_devices;
  if (rank < topology.gpu_of_rank.size()) {
    const auto found = std::ranges::find(gpus, topology.gpu_of_rank[rank], &topo::Gpu::uuid);
    if (found != gpus.end()) return &*found;
  }
  return std::cmp_less(place.number, gpus.size()) ? &gpus[static_cast<std::size_t>(place.number)] : nullptr;
}

bool has_direct_links(const topo::Topology& topology) {
  const auto has_some = [](const topo::Gpu& gpu) {
    return std::ranges::any_of(gpu.nvlinks, [](const topo::NvLink& link) { return link.remote == "gpu"; });
  };
  return std::ranges::all_of(topology.hosts,
                             [&](const topo::Host& host) { return std::ranges::any_of(host.gpu_devices, has_some); });
}

bool is_comparable(const Case& c, const topo::Topology& topology) {
  if (leaves_domain(c)) return !are_pretended(topology);  // pretended nodes use no NIC
  if (find_backend(c.backend).parts != BackendInfo::Parts::gpus || topo::gpu_model(topology).empty()) return false;
  return has_equal_distances(topology) || (c.collective->pairwise && has_direct_links(topology));
}

std::vector<std::string> fabric_nics(const topo::Host& host) {
  std::vector<std::string> names;
  for (const topo::Nic& nic : host.nics)
    if (nic.kind == "efa" || nic.kind == "infiniband") names.push_back(nic.name);
  return names;
}

// Transfers of one class have comparable times.
struct TransferClass {
  std::string operation;
  std::size_t ranks = 0;         // larger groups take longer
  int distance = 0, place = -1;  // difference of indices, and the index; -1 if indices do not matter
  int links = -1;                // NVLinks that join the two directly; -1 if all distances are equal
  bool crossed = false;          // NICs of different numbers, whose way may be longer by design
  int at_once = 1;               // most ranks that use a NIC of either end at the same time
  auto operator<=>(const TransferClass&) const = default;
};

struct FastTimes {
  double time = 0;       // median of the fast transfers
  double deviation = 0;  // relative standard deviation of their samples
};

struct Timed {
  const GroupResult* result = nullptr;
  std::size_t observation = 0;
  std::uint64_t first_event = 0;
  bool small = false;                    // as in TimedSample
  std::optional<bool> from_second = {};  // as in TimedSample
};

double time_of(const GroupResult& result) { return result.median.count; }

std::vector<float> samples_of(const GroupResult& result) {
  return result.samples.empty() ? std::vector{static_cast<float>(result.median.count)} : result.samples;
}

// Estimated from samples below the fast time, which slow parts do not affect.
double relative_deviation(const std::vector<Timed>& transfers, double fast) {
  constexpr std::size_t fewest = 8;
  std::vector<double> below;
  for (const Timed& each : transfers)
    for (const float sample : samples_of(*each.result))
      if (sample < fast) below.push_back(std::log(fast / sample));
  return below.size() < fewest ? 0 : standard_deviation_per_mad * median(std::move(below));
}

class Collector {
 public:
  explicit Collector(const topo::Topology& topology)
      : topology_(topology),
        nics_(topology),
        places_(places_of(topology)),
        equal_distances_(has_equal_distances(topology)) {
    for (const RankLocation& place : places_) ++ranks_on_[place.node];
    for (const topo::Host& host : topology.hosts)
      hosts_are_alike_ = hosts_are_alike_ && host.instance_type == topology.hosts.front().instance_type &&
                         host.nics.size() == topology.hosts.front().nics.size();
  }

  // Retests are added after the measurements that they repeat.
  void add_times(const std::vector<const Measurement*>& measured, bool again) {
    std::map<std::string, std::map<TransferClass, std::vector<Timed>>> alike;
    for (const Measurement* m : measured) {
      const std::optional<Transfers> kind = transfers_of(m->measured_case);
      if (!kind) continue;
      const std::string operation = comparison_key(m->measured_case);
      const std::map<Group, PlaceInRound> rounds = rounds_of(m->measured_case);
      for (const GroupResult& result : m->groups) {
        if (result.median.count <= 0) continue;
        const auto round = rounds.find(result.group);
        const std::optional<std::size_t> at = find_or_add(*kind, m->measured_case, result.group);
        if (!at) continue;
        TransferClass its = class_of(*kind, operation, observations_[*at]);
        if (round != rounds.end()) its.at_once = round->second.at_once;
        if (its.links == 0) continue;  // its way through the host differs from pair to pair
        Timed& timed = alike[operation][its].emplace_back();
        timed = {.result = &result,
                 .observation = *at,
                 .first_event = round == rounds.end() ? new_events() : round->second.first_event,
                 .small = !has_bandwidth(m->measured_case)};
        if (m->measured_case.pattern == "one_way") timed.from_second = result.group.front() > result.group.back();
      }
    }
    for (const auto& [operation, classes] : alike) {
      const double drift = again ? drift_of(classes) : 1;
      std::map<TransferClass, FastTimes> fresh;
      for (const auto& [of_class, transfers] : classes)
        if (!of_class.crossed && !fast_.contains(of_class)) fresh.emplace(of_class, fast_times_of(transfers));
      for (const auto& [of_class, own] : fresh)
        fast_.emplace(of_class, hosts_are_alike_ ? least_of_shares(of_class, fresh) : own);
      for (const auto& [of_class, transfers] : classes) {
        const auto known = fast_.find(of_class);
        const bool is_new = known == fast_.end() || fresh.contains(of_class);
        const std::optional<FastTimes> fast =
            known == fast_.end() ? fast_times_of_crossed(of_class, transfers) : known->second;
        if (!fast) continue;
        fast_.emplace(of_class, *fast);
        count_slow(transfers, {fast->time * (is_new ? 1 : drift), fast->deviation}, again);
      }
    }
  }

  void add_silence(const Measurement& m, bool again) {
    const std::optional<Transfers> kind = transfers_of(m.measured_case);
    if (!kind || (leaves_domain(m.measured_case) && are_pretended(topology_))) return;
    const auto count = [&](const Group& group, SampleCounts TransferRecord::*trials, bool hit) {
      const std::optional<std::size_t> at = find_or_add(*kind, m.measured_case, group);
      if (at) observations_[*at].*trials += {1, hit ? 1 : 0};
    };
    const auto count_silence = [&](const Group& group, bool hit) {
      count(group, &TransferRecord::silent, hit);
      if (again) count(group, &TransferRecord::silent_again, hit);
    };
    // NICs of different rails need not reach each other.
    if (!m.measured_case.other_nic)
      for (const Group& group : m.silent_groups) count_silence(group, true);
    for (const Group& group : m.finished_groups) count_silence(group, false);
    for (const GroupResult& result : m.groups) count_silence(result.group, false);
    for (const GroupResult& result : m.groups)
      count(result.group, &TransferRecord::wrong,
            std::ranges::find(m.wrong_groups, result.group) != m.wrong_groups.end());
  }

  std::vector<TransferRecord> all() && { return std::move(observations_); }

 private:
  using Key = std::tuple<Transfers, int, int, std::vector<RankLocation>>;

  struct PlaceInRound {
    std::uint64_t first_event = 0;
    int at_once = 1;  // as in TransferClass; single NICs and what uses none: 1
  };

  // The place of each group of a case in its rounds; reports that were read have no rounds.
  std::map<Group, PlaceInRound> rounds_of(const Case& c) {
    std::map<Group, PlaceInRound> places;
    if (!c.rounds) return places;
    const bool shares_nics = c.collective->pairwise && leaves_domain(c) && !c.nic;
    std::vector<std::vector<int>> near(shares_nics ? places_.size() : 0);
    for (std::size_t rank = 0; rank < near.size(); ++rank) near[rank] = nics_.near(places_[rank]);
    for (const Round& round : *c.rounds) {
      const std::uint64_t first = new_events();
      std::map<std::pair<int, int>, int> ranks_at;  // of a node, its NIC
      const auto most_at_nics_of = [&](const Group& group, int add) {
        int most = 1;
        for (const int rank : group) {
          if (rank < 0 || std::cmp_greater_equal(rank, near.size())) continue;
          const auto at = static_cast<std::size_t>(rank);
          for (const int nic : near[at]) most = std::max(most, ranks_at[{places_[at].node, nic}] += add);
        }
        return most;
      };
      for (const Group& group : round) most_at_nics_of(group, 1);
      for (const Group& group : round) places.try_emplace(group, PlaceInRound{first, most_at_nics_of(group, 0)});
    }
    return places;
  }

  std::uint64_t new_events() { return next_event_ += most_samples_of_round; }

  std::optional<std::size_t> find_or_add(Transfers kind, const Case& c, const Group& group) {
    std::vector<RankLocation> ranks;
    for (const int rank : group) {
      if (rank < 0 || std::cmp_greater_equal(rank, places_.size())) return std::nullopt;
      ranks.push_back(places_[static_cast<std::size_t>(rank)]);
    }
    if (c.collective->pairwise && ranks.size() != 2) return std::nullopt;
    std::ranges::sort(ranks);
    std::optional<int> nic = c.nic, other_nic = c.other_nic;
    if (other_nic && ranks.back() != places_[static_cast<std::size_t>(std::ranges::max(group))])
      std::swap(nic, other_nic);
    const auto [found, fresh] =
        place_of_.try_emplace(Key{kind, nic.value_or(-1), other_nic.value_or(-1), ranks}, observations_.size());
    if (fresh) {
      TransferRecord& observation = observations_.emplace_back();
      observation.kind = kind;
      observation.nic = nic;
      observation.other_nic = other_nic;
      observation.ranks = std::move(ranks);
      observation.small = !observation.is_pair();
    }
    if (has_bandwidth(c)) observations_[found->second].small = false;
    return found->second;
  }

  TransferClass class_of(Transfers kind, const std::string& operation, const TransferRecord& transfer) {
    const std::vector<RankLocation>& ranks = transfer.ranks;
    TransferClass of_class{.operation = operation, .ranks = ranks.size(), .crossed = transfer.other_nic.has_value()};
    if (kind == Transfers::within_node && !equal_distances_) of_class.links = links_between(ranks[0], ranks[1]);
    if (kind != Transfers::between_nodes && kind != Transfers::single_nic) return of_class;
    const int there = ranks_on_[ranks[0].node];
    of_class.distance = (ranks[1].number - ranks[0].number + there) % there;
    const bool many_nodes = std::cmp_greater_equal(topology_.hosts.size(), enough_nodes);
    if (many_nodes && of_class.distance == 0) of_class.place = ranks[0].number;
    return of_class;
  }

  int links_between(RankLocation a, RankLocation b) const {
    const topo::Gpu* const one = gpu_at(a);
    const topo::Gpu* const other = gpu_at(b);
    return one && other ? topo::links_between(*one, *other) : 0;
  }
  const topo::Gpu* gpu_at(RankLocation place) const {
    return gpu_of(place, static_cast<std::size_t>(std::ranges::find(places_, place) - places_.begin()), topology_);
  }

  // Key of comparable operations: types, reductions and roots differ in time. Single NICs of one kind and rate share a
  // key, so that one pair that is fast by chance has little weight.
  std::string comparison_key(Case c) const {
    std::string text = c.backend + " ";
    std::set<std::string> kinds_of_nics;
    for (const std::optional<int>* nic : {&c.nic, &c.other_nic})
      if (*nic) kinds_of_nics.insert(kind_of_nic(static_cast<std::size_t>(**nic)));
    text += join(std::vector(kinds_of_nics.begin(), kinds_of_nics.end()));
    c.nic.reset();
    c.other_nic.reset();
    if (std::exchange(c.every_root, false)) c.root = 0;  // as with_rounds() does for a retest
    return text + " " + describe(c);
  }

  // Kind and rate, from the first rank with such a NIC.
  std::string kind_of_nic(std::size_t number) const {
    for (std::size_t rank = 0; rank < std::min(places_.size(), topology_.nics_of_rank.size()); ++rank) {
      const std::vector<std::string>& names = topology_.nics_of_rank[rank];
      if (number >= names.size() || names[number].empty()) continue;
      const topo::Host& host = topology_.hosts.at(static_cast<std::size_t>(places_[rank].node));
      const auto nic = std::ranges::find(host.nics, names[number], &topo::Nic::name);
      if (nic == host.nics.end()) break;
      return fmt::format("{} of {:g} GB/s", nic->kind, nic->rate.value_or(GBps{}).count);
    }
    return fmt::format("NIC {}", number);
  }

  static FastTimes fast_times_of(const std::vector<Timed>& transfers) {
    std::vector<double> times;
    for (const Timed& each : transfers) times.push_back(time_of(*each.result));
    const double fast = middle_of_fast(std::move(times));
    return {fast, relative_deviation(transfers, fast)};
  }

  // The fast time of a class, or of one with another number of ranks at a NIC where that says that the whole class is
  // slow, as where all its pairs use one slow NIC: a healthy transfer takes no longer beside fewer ranks than beside
  // more, and beside more ranks at most as much longer as there are more.
  static FastTimes least_of_shares(const TransferClass& of_class, const std::map<TransferClass, FastTimes>& all) {
    const FastTimes own = all.at(of_class);
    FastTimes least = own;
    for (TransferClass other = of_class; const auto& [each, fast] : all) {
      other.at_once = each.at_once;
      if (each != other) continue;
      const double most = fast.time * std::max(1.0, static_cast<double>(of_class.at_once) / each.at_once);
      if (most * (1 + gap_of_fault) < own.time && most < least.time) least = {most, fast.deviation};
    }
    return least;
  }

  // The time of those whose two NICs are both fast with the NICs of their own numbers; without such ones that of the
  // fastest. Null where all are alike, and slower than NICs of equal numbers: they may be far from each other by
  // design.
  std::optional<FastTimes> fast_times_of_crossed(TransferClass of_class, const std::vector<Timed>& transfers) const {
    of_class.crossed = false;
    const auto of_equal_numbers = fast_.find(of_class);
    if (of_equal_numbers == fast_.end()) return std::nullopt;
    FastTimes fast = of_equal_numbers->second;
    std::vector<double> times, of_fast_nics;
    for (const Timed& each : transfers) {
      const TransferRecord& its = observations_[each.observation];
      const auto is_fast = [&](int nic) {
        const auto found = place_of_.find(Key{its.kind, nic, -1, its.ranks});
        return found != place_of_.end() && observations_[found->second].slow.count > 0 &&
               observations_[found->second].slow.share() < 0.5;
      };
      times.push_back(time_of(*each.result));
      if (is_fast(its.nic_at(0)) && is_fast(its.nic_at(1))) of_fast_nics.push_back(times.back());
    }
    const auto [low, high] = std::ranges::minmax(times);
    if (of_fast_nics.empty() && high <= low * (1 + gap_of_fault) && low > fast.time * (1 + gap_of_fault))
      return std::nullopt;
    fast.time = of_fast_nics.empty() ? low : median(std::move(of_fast_nics));
    return fast;
  }

  // Ratio of retest time to first time of transfers that were fast before. All classes together: a class may have a
  // single pair, slow by chance.
  double drift_of(const std::map<TransferClass, std::vector<Timed>>& classes) const {
    std::vector<double> ratios;
    for (const auto& [of_class, transfers] : classes) {
      const auto fast = fast_.find(of_class);
      if (fast == fast_.end()) continue;
      for (const Timed& each : transfers) {
        const SampleCounts& before = observations_[each.observation].slow;
        if (before.count > 0 && before.share() < 0.5) ratios.push_back(time_of(*each.result) / fast->second.time);
      }
    }
    return ratios.empty() ? 1 : median(std::move(ratios));
  }

  void count_slow(const std::vector<Timed>& transfers, const FastTimes& fast, bool again) {
    const double most = fast.time * (1 + std::max(tolerated_difference, 3 * fast.deviation));
    for (const Timed& each : transfers) {
      TransferRecord& observation = observations_[each.observation];
      std::uint64_t event = each.first_event;
      for (const float sample : samples_of(*each.result)) {
        observation.samples.push_back({.event = event++,
                                       .ratio = static_cast<float>(sample / fast.time),
                                       .slow = sample > most,
                                       .again = again,
                                       .small = each.small,
                                       .from_second = each.from_second});
        const SampleCounts its{1, sample > most ? 1 : 0};
        observation.slow += its;
        if (again) observation.slow_again += its;
      }
    }
  }

  static constexpr std::uint64_t most_samples_of_round = std::uint64_t{1} << 32;
  const topo::Topology& topology_;
  NicNumbers nics_;
  std::vector<RankLocation> places_;
  std::map<int, int> ranks_on_;
  bool equal_distances_ = true;
  bool hosts_are_alike_ = true;  // in their NICs, so that ranks at a NIC can be compared
  std::uint64_t next_event_ = 0;
  std::vector<TransferRecord> observations_;
  std::map<Key, std::size_t> place_of_;
  std::map<TransferClass, FastTimes> fast_;
};

// Comparable groups that perform one operation at once or in turn.
bool has_alike_groups(const Measurement& m, const topo::Topology& topology) {
  const Case& c = m.measured_case;
  // Without NVSwitch halves of a node differ by design, and of one node there are no others to compare with.
  if (c.group == node_half_group && topology.hosts.size() == 1 && !is_comparable(c, topology)) return false;
  return !c.collective->pairwise && transfers_of(c) && c.arm == "default" && m.groups.size() > 1 &&
         find_backend(c.backend).parts == BackendInfo::Parts::gpus;
}

// True for messages over several NICs by another library than the run's. They are no evidence about its transfers:
// their data takes another way through the host.
bool is_of_other_library(const Case& c, const Report& report) {
  return !c.nic && !report.run.backend.empty() && c.backend != report.run.backend;
}

// Groups of several nodes whose operations all have limits by other parts than NICs, as where the NICs of a node are
// faster together than the links of a GPU.
std::set<Transfers> kinds_that_spare_nics(const Report& report) {
  std::set<Transfers> spare, need;
  for (const Result& result : report.results) {
    const std::optional<Transfers> kind = transfers_of(result.measurement.measured_case);
    if (!kind || is_of_pairs(*kind) || result.verdict.binding.empty()) continue;
    (result.verdict.binding == "nic" ? need : spare).insert(*kind);
  }
  for (const Transfers each : need) spare.erase(each);
  return spare;
}

// Numbers of the hosts whose GPUs other programs used: times of their transfers say nothing about parts.
std::set<int> hosts_not_judged(const Report& report) {
  std::set<int> hosts;
  for (const Result& result : report.results)
    for (const std::string& name : result.verdict.not_judged_hosts)
      hosts.insert(static_cast<int>(std::ranges::find(report.topology.hosts, name, &topo::Host::name) -
                                    report.topology.hosts.begin()));
  return hosts;
}

}  // namespace

std::optional<Transfers> transfers_of(const Case& c) {
  if (!c.collective->moves_data || c.collective->replays) return std::nullopt;
  if (!c.beside.empty()) return std::nullopt;  // the others may be what slows it
  if (c.collective->pairwise) {
    if (c.nic) return Transfers::single_nic;
    if (c.group == all_rails_group) return Transfers::all_rails;
    if (c.pair == "same_node") return Transfers::within_node;
    if (c.pair == "same_domain") return Transfers::within_domain;
    return leaves_domain(c) ? std::optional(Transfers::between_nodes) : std::nullopt;
  }
  if (c.group == "node") return Transfers::node_group;
  if (c.group == "domain") return Transfers::domain_group;
  if (c.group == node_half_group) return Transfers::node_half;
  if (c.group == "rail") return Transfers::rail_group;
  return c.group == node_subset_group ? std::optional(Transfers::node_subset) : std::nullopt;
}

NicNumbers::NicNumbers(const topo::Topology& topology) : topology_(topology) {
  const std::vector<RankLocation> places = places_of(topology);
  for (std::size_t node = 0; node < topology.hosts.size(); ++node)
    names_of_[static_cast<int>(node)] = fabric_nics(topology.hosts[node]);
  for (std::size_t rank = 0; rank < std::min(places.size(), topology.nics_of_rank.size()); ++rank) {
    std::vector<std::string>& names = names_of_[places[rank].node];
    std::vector<int>& numbers = of_rank_[places[rank]];
    for (const std::string& name : topology.nics_of_rank[rank]) {
      if (name.empty()) {
        numbers.push_back(lacking);
        continue;
      }
      auto found = std::ranges::find(names, name);
      if (found == names.end()) found = names.insert(names.end(), name);
      numbers.push_back(static_cast<int>(found - names.begin()));
    }
  }
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const topo::Gpu* const gpu = gpu_of(places[rank], rank, topology);
    const bool is_named =
        gpu && !gpu->uuid.empty() && rank < topology.gpu_of_rank.size() && topology.gpu_of_rank[rank] == gpu->uuid;
    std::vector<int> own = of(places[rank]), its = numbers_of(gpu, places[rank].node);
    const bool was_queried = !own.empty();
    std::erase(own, lacking);
    const auto is_its = [&](int number) { return std::ranges::find(its, number) != its.end(); };
    const bool other_gpus_too = is_named && !its.empty() && !std::ranges::all_of(own, is_its);
    std::vector<int>& near = near_[places[rank]];
    near = was_queried && !other_gpus_too ? std::move(own) : std::move(its);
    if (near.size() == 1) only_ones_.emplace(places[rank].node, near.front());
  }
}

const std::vector<int>& NicNumbers::of(RankLocation rank) const {
  static const std::vector<int> none;
  const auto found = of_rank_.find(rank);
  return found == of_rank_.end() ? none : found->second;
}

std::vector<int> NicNumbers::near(RankLocation rank) const {
  if (const auto known = near_.find(rank); known != near_.end()) return known->second;
  const std::vector<topo::Gpu>& gpus = topology_.hosts.at(static_cast<std::size_t>(rank.node)).gpu_devices;
  const bool exists = std::cmp_less(rank.number, gpus.size());
  return numbers_of(exists ? &gpus[static_cast<std::size_t>(rank.number)] : nullptr, rank.node);
}

// The NICs nearest to a GPU, by the host's topology.
std::vector<int> NicNumbers::numbers_of(const topo::Gpu* gpu, int node) const {
  std::vector<int> numbers;
  if (!gpu) return numbers;
  const std::vector<std::string>& fabric = names_of_.at(node);
  for (std::size_t i = 0; i < fabric.size(); ++i)
    if (std::ranges::find(gpu->nics, fabric[i]) != gpu->nics.end()) numbers.push_back(static_cast<int>(i));
  return numbers;
}

std::string NicNumbers::name(int node, int number) const {
  const auto found = names_of_.find(node);
  return found == names_of_.end() || std::cmp_greater_equal(number, found->second.size())
             ? std::string()
             : found->second[static_cast<std::size_t>(number)];
}

double middle_of_fast(std::vector<double> times) {
  std::ranges::sort(times);
  const std::size_t tenth = (times.size() - 1) / 10;  // of ten times the fastest one, which may be the only healthy one
  const double fast = times[tenth] * (1 + of_one_kind);
  // A fault may begin at that border, and its times would be fast in part: they end at the first gap.
  const auto after_gap = std::ranges::adjacent_find(times.begin() + static_cast<std::ptrdiff_t>(tenth), times.end(),
                                                    [](double a, double b) { return b > a * (1 + gap_of_fault); });
  if (after_gap != times.end()) times.erase(std::next(after_gap), times.end());
  times.erase(std::ranges::upper_bound(times, fast), times.end());
  return median_of_sorted(times);
}

std::vector<RankLocation> places_of(const topo::Topology& topology) {
  std::vector<RankLocation> places;
  std::map<int, int> seen;
  for (const int node : topology.host_of_rank) places.push_back({node, seen[node]++});
  return places;
}

std::vector<std::size_t> cases_of_pairs(const Report& report) {
  // Selects for each operation the size with most pairs, then the largest.
  std::map<std::string, std::size_t> best;
  for (std::size_t at = 0; at < report.results.size(); ++at) {
    const Measurement& m = report.results[at].measurement;
    const Case& c = m.measured_case;
    if (!c.collective->pairwise || c.arm != "default" || c.pair.empty() || m.groups.empty()) continue;
    if (!has_bandwidth(c) || !is_comparable(c, report.topology) || is_of_other_library(c, report)) continue;
    const std::string operation = fmt::format("{} {} {} {}", c.backend, c.group, operation_of(c), name_of(c.type));
    const auto [found, first] = best.try_emplace(operation, at);
    const Measurement& other = report.results[found->second].measurement;
    const auto worth = [](const Measurement& each) { return std::pair(each.groups.size(), each.measured_case.bytes); };
    if (!first && worth(m) > worth(other)) found->second = at;
  }
  std::vector<std::size_t> all;
  for (const auto& [operation, at] : best) all.push_back(at);
  return all;
}

std::vector<TransferRecord> observe(const Report& report, const std::vector<Measurement>& again) {
  Collector collector(report.topology);
  std::vector<const Measurement*> first, second;
  for (const std::size_t at : cases_of_pairs(report)) first.push_back(&report.results[at].measurement);
  if (!are_pretended(report.topology))
    for (const Result& result : report.results)
      if (has_alike_groups(result.measurement, report.topology)) first.push_back(&result.measurement);
  for (const Measurement& m : again)
    if (m.measured_case.collective->pairwise || has_alike_groups(m, report.topology)) second.push_back(&m);
  collector.add_times(first, false);
  collector.add_times(second, true);
  for (const Result& result : report.results)
    if (!is_of_other_library(result.measurement.measured_case, report))
      collector.add_silence(result.measurement, false);
  for (const Measurement& m : again) collector.add_silence(m, true);
  std::vector<TransferRecord> all = std::move(collector).all();
  const std::set<Transfers> spare_nics = kinds_that_spare_nics(report);
  const std::set<int> shared = hosts_not_judged(report);
  for (TransferRecord& each : all) {
    each.spares_nics = spare_nics.contains(each.kind);
    if (std::ranges::none_of(each.ranks, [&](RankLocation rank) { return shared.contains(rank.node); })) continue;
    if (each.slow.hits == 0) continue;  // other programs make nothing faster: its ends are as sound as any
    each.slow = each.slow_again = {};
    each.samples.clear();
  }
  return all;
}

// ---- The parts of a transfer

std::optional<double> show_probability(Part::Kind part, Mode mode, Transfers kind) {
  using PartKind = Part::Kind;
  constexpr std::optional<double> no;
  constexpr double surely = 0.97, mostly = 0.9, likely = 0.8, perhaps = 0.5, never = 0.001;
  // Columns follow enum Transfers: within_node, within_domain, between_nodes, all_rails, single_nic, node_group,
  // node_half, rail_group, node_subset, domain_group.
  using Row = std::array<std::optional<double>, kinds_of_transfers>;
  static const std::map<std::pair<PartKind, Mode>, Row> table{
      {{PartKind::node, Mode::usual},
       {perhaps, likely, likely, likely, likely, perhaps, perhaps, perhaps, perhaps, perhaps}},
      {{PartKind::gpu, Mode::usual}, {surely, surely, perhaps, perhaps, no, likely, likely, perhaps, perhaps, likely}},
      {{PartKind::nics, Mode::usual}, {no, no, surely, perhaps, no, no, no, perhaps, perhaps, no}},
      {{PartKind::nic, Mode::usual}, {no, no, perhaps, perhaps, mostly, no, no, perhaps, perhaps, no}},
      {{PartKind::only_nic, Mode::usual}, {no, no, likely, surely, likely, no, no, likely, likely, no}},
      {{PartKind::link, Mode::usual}, {no, no, surely, likely, likely, no, no, perhaps, perhaps, no}},
      {{PartKind::links, Mode::usual}, {no, no, surely, likely, likely, no, no, likely, likely, no}},
      {{PartKind::rail, Mode::usual}, {no, no, likely, likely, mostly, no, no, surely, no, no}},
      {{PartKind::domain, Mode::usual},
       {surely, surely, perhaps, perhaps, no, likely, likely, perhaps, perhaps, likely}},
      {{PartKind::node, Mode::at_scale},
       {never, never, never, never, never, perhaps, perhaps, perhaps, surely, perhaps}},
      {{PartKind::gpu, Mode::at_scale}, {never, never, never, never, no, surely, surely, perhaps, perhaps, surely}},
      {{PartKind::nics, Mode::at_scale}, {no, no, never, never, no, no, no, surely, surely, no}},
      {{PartKind::nic, Mode::at_scale}, {no, no, never, never, never, no, no, surely, surely, no}},
      {{PartKind::only_nic, Mode::at_scale}, {no, no, never, perhaps, never, no, no, surely, surely, no}},
      {{PartKind::link, Mode::at_scale}, {no, no, never, perhaps, never, no, no, perhaps, perhaps, no}},
      {{PartKind::links, Mode::at_scale}, {no, no, never, perhaps, never, no, no, likely, likely, no}},
      {{PartKind::rail, Mode::at_scale}, {no, no, never, never, never, no, no, surely, no, no}},
      {{PartKind::domain, Mode::at_scale},
       {never, never, never, never, no, perhaps, perhaps, perhaps, perhaps, surely}},
  };
  return table.at({part, mode})[static_cast<std::size_t>(kind)];
}

Part rail_of(RankLocation rank, const Paths& paths) {
  Part rail{Part::Kind::rail, 0, rank.number, rank.number};
  const std::vector<int> near = paths.nics->near(rank);
  if (near.empty()) return rail;
  const auto shares = [&](int number) { return paths.nics->near({rank.node, number}) == near; };
  while (rail.number > 0 && shares(rail.number - 1)) --rail.number;
  while (shares(rail.last + 1)) ++rail.last;
  return rail;
}

std::vector<Part> parts_on(const TransferRecord& transfer, const Paths& paths) {
  std::set<Part> parts;
  const std::vector<int> nodes = nodes_of(transfer);
  std::set<int> domains;
  for (const int node : nodes)
    domains.insert(paths.domain_of_node.empty() ? node : paths.domain_of_node.at(static_cast<std::size_t>(node)));
  const bool over_nics = transfer.nic || domains.size() > 1;
  for (std::size_t end = 0; end < transfer.ranks.size(); ++end) {
    const RankLocation& rank = transfer.ranks[end];
    if (!paths.own_nics) continue;
    if (!transfer.nic && paths.gpus) parts.insert({Part::Kind::gpu, rank.node, rank.number});
    if (!over_nics) continue;
    const std::vector<int>& numbers = paths.nics->of(rank);
    const std::vector<int> near = paths.nics->near(rank);
    if (paths.gpus && transfer.is_pair() && paths.domain_of_node.empty()) parts.insert(rail_of(rank, paths));
    const auto kind_of = [&](int number) {
      return paths.nics->is_only_one(rank.node, number) ? Part::Kind::only_nic : Part::Kind::nic;
    };
    if (transfer.nic) {
      const int nic = transfer.nic_at(end);
      if (!std::cmp_less(nic, numbers.size())) continue;
      const int number = numbers[static_cast<std::size_t>(nic)];
      parts.insert({kind_of(number), rank.node, number});
      if (!paths.gpus) parts.insert({Part::Kind::rail, 0, number, number});
      continue;
    }
    if (near.size() == 1 || !numbers.empty())
      for (const int number : near) parts.insert({kind_of(number), rank.node, number});
    // NICs missing in the host's topology get the number -1 - (index of the GPU).
    if (near.empty())
      parts.insert({Part::Kind::nics, rank.node, -1 - rank.number, -1 - rank.number});
    else if (near.size() > 1)
      parts.insert({Part::Kind::nics, rank.node, near.front(), near.back()});
  }
  for (const int node : nodes) parts.insert({Part::Kind::node, node});
  if (!paths.domain_of_node.empty() && paths.gpus && !transfer.nic)
    for (const int domain : domains) parts.insert({Part::Kind::domain, domain});
  // The links of a collective over many nodes are ambiguous.
  constexpr std::size_t most_nodes = 32;
  const bool through_links =
      transfer.is_pair() ? nodes.size() == 2
                         : (transfer.kind == Transfers::node_subset || transfer.kind == Transfers::rail_group) &&
                               nodes.size() <= most_nodes;
  if (through_links && over_nics)
    for (auto one = nodes.begin(); one != nodes.end(); ++one)
      for (auto other = std::next(one); other != nodes.end(); ++other) parts.insert({Part::Kind::link, *one, *other});
  const auto sets_that_meet = std::ranges::count_if(paths.sets, [&](const std::vector<int>& set) {
    return std::ranges::any_of(nodes, [&](int node) { return std::ranges::binary_search(set, node); });
  });
  if (over_nics && sets_that_meet > 1) parts.insert({Part::Kind::links, 0, 0, 0, paths.sets});
  if (transfer.kind == Transfers::rail_group) parts.insert(rail_of(transfer.ranks.front(), paths));
  std::erase_if(parts, [&](const Part& part) { return !show_probability(part.kind, Mode::usual, transfer.kind); });
  return {parts.begin(), parts.end()};
}

std::vector<int> nodes_of(const TransferRecord& transfer) {
  std::set<int> nodes;
  for (const RankLocation& rank : transfer.ranks) nodes.insert(rank.node);
  return {nodes.begin(), nodes.end()};
}

bool joins_nodes(const Part& part, int one, int other) {
  if (part.kind == Part::Kind::link) return std::minmax(one, other) == std::minmax(part.node, part.number);
  const auto set_of = [&](int node) {
    return std::ranges::find_if(part.sets, [&](const auto& set) { return std::ranges::binary_search(set, node); });
  };
  const auto of_one = set_of(one), of_other = set_of(other);
  return of_one != of_other && of_one != part.sets.end() && of_other != part.sets.end();
}

double bypass_probability(const Part& part, const std::vector<int>& nodes) {
  constexpr double if_neighbours = 0.1, if_apart = 0.9, of_two_of_sets = 1e-3;
  constexpr std::size_t all_neighbours = 3;  // of more nodes some are no neighbours
  const bool of_sets = part.kind == Part::Kind::links;
  if (of_sets && nodes.size() == 2) return of_two_of_sets;
  if (!is_of_links(part) || nodes.size() <= all_neighbours) return 0;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (joins_nodes(part, nodes[i], nodes[(i + 1) % nodes.size()])) return of_sets ? 0 : if_neighbours;
  return if_apart;
}

// ---- Directions

// True if the part, the lower node of a link, or the first of two sets of nodes is at the second rank of the transfer;
// nullopt: at both, or at none.
static std::optional<bool> is_at_second(const Part& part, const TransferRecord& transfer) {
  const bool of_two_sets = part.sets.size() == 2;
  if (!transfer.is_pair() || (!is_in_node(part) && part.kind != Part::Kind::link && !of_two_sets)) return std::nullopt;
  const auto is_here = [&](const RankLocation& rank) {
    if (of_two_sets) return std::ranges::binary_search(part.sets.front(), rank.node);
    return rank.node == part.node && (part.kind != Part::Kind::gpu || rank.number == part.number);
  };
  const bool second = is_here(transfer.ranks[1]);
  return is_here(transfer.ranks[0]) == second ? std::nullopt : std::optional(second);
}

DirectedSamples directed_samples_of(const FaultyPart& faulty) {
  std::array<SlowSamples, 2> in_direction;  // the part sends; receives
  SlowSamples all;
  // Small messages tell how often a part is slow only where nothing else does.
  const bool any_large = std::ranges::any_of(faulty.observations, [](const TransferRecord* each) {
    return std::ranges::any_of(each->samples, [](const TimedSample& sample) { return !sample.small; });
  });
  for (const TransferRecord* each : faulty.observations) {
    const std::optional<bool> at_second = is_at_second(faulty.part, *each);
    for (const TimedSample& sample : each->samples) {
      if (sample.small && any_large) continue;
      all.add(sample);
      if (at_second && sample.from_second) in_direction[*sample.from_second == *at_second ? 0 : 1].add(sample);
    }
  }
  // Such a difference by chance has a probability below 0.2 %.
  constexpr double deviations = 3, most_of_the_other = 0.25;
  for (const bool receives : {false, true}) {
    const SampleCounts& its = in_direction[receives ? 1 : 0].first_and_again;
    const SampleCounts& other = in_direction[receives ? 0 : 1].first_and_again;
    const bool enough = its.hits - other.hits >= deviations * std::sqrt(its.hits + other.hits);
    if (other.count > 0 && its.hits > 0 && enough && other.share() <= most_of_the_other * its.share())
      return {in_direction[receives ? 1 : 0], receives};
  }
  return {all, std::nullopt};
}

// Ratio of the fastest of the samples; null without one.
template <class Matches>
static std::optional<float> fastest_ratio(const TransferRecord& transfer, const Matches& matches) {
  std::optional<float> fastest;
  for (const TimedSample& sample : transfer.samples)
    if (matches(sample)) fastest = std::min(fastest.value_or(sample.ratio), sample.ratio);
  return fastest;
}

double slowdown_of_fastest(const FaultyPart& faulty, std::span<const TransferRecord> all) {
  const std::optional<bool> receives = directed_samples_of(faulty).receives;
  std::vector<double> its, others;
  for (const TransferRecord* each : faulty.observations) {
    const std::optional<bool> at_second = is_at_second(faulty.part, *each);
    const std::optional<float> fastest = fastest_ratio(*each, [&](const TimedSample& sample) {
      return !receives || !at_second || !sample.from_second || (*sample.from_second != *at_second) == *receives;
    });
    if (fastest) its.push_back(*fastest);
  }
  const auto is_one_of_them = [&](const TransferRecord& transfer) {
    return std::ranges::find(faulty.observations, &transfer) != faulty.observations.end();
  };
  for (const TransferRecord& each : all)
    if (faulty.shows_in.contains(each.kind) && !is_one_of_them(each))
      if (const auto fastest = fastest_ratio(each, [](const TimedSample&) { return true; })) others.push_back(*fastest);
  if (its.empty()) return 1;
  return median(std::move(its)) / (others.empty() ? 1 : middle_of_fast(std::move(others)));
}

}  // namespace p5::reports
