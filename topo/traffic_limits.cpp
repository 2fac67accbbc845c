// The limit of any traffic matrix: the part whose load takes longest at its rate. GPUs that share NICs are bounded by
// every set of them together (the cuts of a flow of their blocks over the NICs), so the limit is exact.
#include "topo/limits.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "bench/base/names.hpp"

namespace p5::topo {

namespace {

using std::size_t;

// Above so many different sets of NICs that overlap, only each set and all together are looked at, and the limit may be
// too high.
constexpr size_t most_sets = 12;

// Bytes that a rank sends and receives within its NVLink domain (ranks without GPUs: its node) and beyond it, in
// messages of the busiest rank.
struct RankLoad {
  double within = 0, beyond = 0;
};

struct Direction {
  bool receives = false;
  std::vector<RankLoad> of_rank;
  std::vector<int> member_of_rank;  // its place in its group
};

Direction loads(const TrafficMatrix& matrix, std::span<const std::vector<int>> groups,
                const std::vector<int>& place_of_rank, bool receives) {
  const std::size_t ranks = place_of_rank.size();
  Direction direction{receives, std::vector<RankLoad>(ranks), std::vector<int>(ranks)};
  const auto busiest = static_cast<double>(busiest_sum(matrix));
  for (const std::vector<int>& group : groups)
    for (size_t self = 0; self < group.size(); ++self) {
      const auto rank = static_cast<size_t>(group[self]);
      RankLoad& its = direction.of_rank[rank];
      direction.member_of_rank[rank] = static_cast<int>(self);
      for (size_t other = 0; other < group.size(); ++other) {
        if (other == self) continue;
        const int a = static_cast<int>(self), b = static_cast<int>(other);
        const double part = static_cast<double>(receives ? matrix.at(b, a) : matrix.at(a, b)) / busiest;
        const bool same = place_of_rank[rank] == place_of_rank[static_cast<size_t>(group[other])];
        (same ? its.within : its.beyond) += part;
      }
    }
  return direction;
}

// The GPU of a rank: by its UUID, or the one that comes as often on its host as the rank does.
const Gpu* gpu_of(const Topology& topology, size_t rank) {
  const Host& host = topology.hosts[static_cast<size_t>(topology.host_of_rank[rank])];
  if (rank < topology.gpu_of_rank.size()) {
    const auto found = std::ranges::find(host.gpu_devices, topology.gpu_of_rank[rank], &Gpu::uuid);
    return found == host.gpu_devices.end() ? nullptr : &*found;
  }
  const auto before = topology.host_of_rank.begin() + static_cast<std::ptrdiff_t>(rank);
  const auto index =
      static_cast<size_t>(std::count(topology.host_of_rank.begin(), before, topology.host_of_rank[rank]));
  return index < host.gpu_devices.size() ? &host.gpu_devices[index] : nullptr;
}

// The limits that apply, at one level; null: unknown.
struct Rates {
  const Limit *link, *gpu, *node, *copy_one, *copy_all;
  const Limit* nic;       // wire
  double efficiency = 1;  // of the level, over wire

  Rates(const Limits& limits, Level level)
      : link(find(limits, gpu_link, level)),
        gpu(find(limits, gpu_nics, level)),
        node(find(limits, node_nics, level)),
        copy_one(level == Level::wire ? find(limits, host_copy_one, level) : nullptr),
        copy_all(level == Level::wire ? find(limits, host_copy_all, level) : nullptr),
        nic(find(limits, one_nic, Level::wire)) {
    const Limit* const wire = find(limits, gpu_nics, Level::wire);
    if (gpu && wire) efficiency = gpu->rate.count / wire->rate.count;
  }
};

class LoadedParts {
 public:
  LoadedParts(const Topology& topology, const Rates& rates) : topology_(topology), rates_(rates) {}

  // False where a rate is unknown.
  bool add(const Direction& direction) {
    std::map<int, double> within, beyond;  // by host
    for (size_t rank = 0; rank < direction.of_rank.size(); ++rank) {
      const auto [inside, outside] = direction.of_rank[rank];
      within[topology_.host_of_rank[rank]] += inside;
      beyond[topology_.host_of_rank[rank]] += outside;
      if (inside > 0 && !add_within(direction, rank, inside)) return false;
    }
    for (const auto& [host, load] : within)
      if (load > 0 && !rates_.link && !direction.receives)  // a copy is the work of both
        add_part(direction, fmt::format("memory of {}", name_of(host)), *rates_.copy_all, load,
                 ranks_of(direction, host, &RankLoad::within));
    for (const auto& [host, load] : beyond)
      if (load > 0 && !add_beyond(direction, host, load)) return false;
    return true;
  }

  std::vector<TrafficPart> take() && {
    std::ranges::stable_sort(parts_, std::greater{}, &TrafficPart::time);
    return std::move(parts_);
  }

 private:
  const std::string& name_of(int host) const { return topology_.hosts[static_cast<size_t>(host)].name; }
  std::string name_of_rank(size_t rank) const {
    return fmt::format("rank {} on {}", rank, name_of(topology_.host_of_rank[rank]));
  }

  static std::vector<int> members(const Direction& direction, const std::vector<size_t>& ranks) {
    std::vector<int> all;
    for (const size_t rank : ranks) all.push_back(direction.member_of_rank[rank]);
    return all;
  }

  void add_part(const Direction& direction, std::string name, const Limit& limit, double load,
                const std::vector<size_t>& ranks) {
    parts_.push_back({.name = std::move(name),
                      .binding = limit.binding,
                      .receives = direction.receives,
                      .members = members(direction, ranks),
                      .load = load,
                      .rate = limit.rate,
                      .because = limit.because});
  }

  // Ranks of a host that have such a load.
  std::vector<size_t> ranks_of(const Direction& direction, int host, double RankLoad::*load) const {
    std::vector<size_t> ranks;
    for (size_t rank = 0; rank < direction.of_rank.size(); ++rank)
      if (topology_.host_of_rank[rank] == host && direction.of_rank[rank].*load > 0) ranks.push_back(rank);
    return ranks;
  }

  bool add_within(const Direction& direction, size_t rank, double load) {
    if (!rates_.link && (!rates_.copy_one || !rates_.copy_all)) return false;
    if (rates_.link)
      add_part(direction, "links of " + name_of_rank(rank), *rates_.link, load, {rank});
    else
      add_part(direction, "copies of " + name_of_rank(rank), *rates_.copy_one, load, {rank});
    return true;
  }

  bool add_beyond(const Direction& direction, int host, double load) {
    if (!rates_.node) return false;
    add_part(direction, fmt::format("all NICs of {}", name_of(host)), *rates_.node, load,
             ranks_of(direction, host, &RankLoad::beyond));
    const bool by_memory = !rates_.link && !rates_.gpu && rates_.copy_all;
    if (by_memory) return true;  // ranks without GPUs share the NICs of their host
    if (!rates_.gpu) return false;
    add_nics(direction, host);
    return true;
  }

  // A set of NICs, and what the ranks with just these send.
  struct Rails {
    std::set<std::string> nics;
    std::vector<size_t> ranks;
    double load = 0;
  };

  void add_nics(const Direction& direction, int host) {
    std::vector<Rails> sets;
    for (const size_t rank : ranks_of(direction, host, &RankLoad::beyond)) {
      const double load = direction.of_rank[rank].beyond;
      const Gpu* const gpu = gpu_of(topology_, rank);
      if (!gpu || gpu->nics.empty() || !rates_.nic) {
        add_part(direction, "share in the NICs of " + name_of_rank(rank), *rates_.gpu, load, {rank});
        continue;
      }
      const std::set<std::string> nics(gpu->nics.begin(), gpu->nics.end());
      auto found = std::ranges::find(sets, nics, &Rails::nics);
      if (found == sets.end()) found = sets.insert(sets.end(), Rails{nics, {}, 0});
      found->ranks.push_back(rank);
      found->load += load;
    }
    while (!sets.empty()) add_busiest(direction, host, take_overlapping(sets));
  }

  // Takes out the first set and all that share NICs with it, directly or through others.
  static std::vector<Rails> take_overlapping(std::vector<Rails>& sets) {
    std::vector<Rails> taken{std::move(sets.front())};
    sets.erase(sets.begin());
    const auto overlaps = [](const Rails& a, const Rails& b) {
      return std::ranges::any_of(a.nics, [&](const std::string& nic) { return b.nics.contains(nic); });
    };
    for (size_t at = 0; at < taken.size(); ++at)
      for (size_t other = 0; other < sets.size();) {
        if (!overlaps(taken[at], sets[other])) {
          ++other;
          continue;
        }
        taken.push_back(std::move(sets[other]));
        sets.erase(sets.begin() + static_cast<std::ptrdiff_t>(other));
      }
    return taken;
  }

  GBps rate_of(int host, const std::string& name) const {
    const Host& its = topology_.hosts[static_cast<size_t>(host)];
    const auto nic = std::ranges::find(its.nics, name, &Nic::name);
    return (nic != its.nics.end() && nic->rate ? *nic->rate : rates_.nic->rate) * rates_.efficiency;
  }

  // The part of all sets of ranks that takes longest with all NICs that any of them can use.
  void add_busiest(const Direction& direction, int host, const std::vector<Rails>& sets) {
    std::optional<TrafficPart> busiest;
    const auto consider = [&](const auto& chosen) {
      std::set<std::string> nics;
      std::vector<size_t> ranks;
      double load = 0, rate = 0;
      for (size_t i = 0; i < sets.size(); ++i) {
        if (!chosen(i)) continue;
        nics.insert(sets[i].nics.begin(), sets[i].nics.end());
        ranks.insert(ranks.end(), sets[i].ranks.begin(), sets[i].ranks.end());
        load += sets[i].load;
      }
      for (const std::string& nic : nics) rate += rate_of(host, nic).count;
      if (busiest && load / rate <= busiest->time()) return;
      const std::vector<std::string> names(nics.begin(), nics.end());
      busiest = TrafficPart{
          .name = fmt::format("{} {} of {}", names.size() == 1 ? "NIC" : "NICs", join(names), name_of(host)),
          .binding = rates_.gpu->binding,
          .receives = direction.receives,
          .members = members(direction, ranks),
          .load = load,
          .rate = {rate},
          .because = rates_.gpu->because};
    };
    if (sets.size() <= most_sets) {
      for (std::uint64_t subset = 1; subset < std::uint64_t{1} << sets.size(); ++subset)
        consider([&](size_t i) { return (subset >> i & 1) != 0; });
    } else {
      for (size_t one = 0; one < sets.size(); ++one) consider([&](size_t i) { return i == one; });
      consider([](size_t) { return true; });
    }
    parts_.push_back(std::move(*busiest));
  }

  const Topology& topology_;
  const Rates& rates_;
  std::vector<TrafficPart> parts_;
};

// The largest over the mean, of the ranks in a group.
double imbalance_of(const Direction& direction, std::span<const std::vector<int>> groups) {
  double most = 0, sum = 0;
  size_t count = 0;
  for (const std::vector<int>& group : groups)
    for (const int rank : group) {
      const auto [within, beyond] = direction.of_rank[static_cast<size_t>(rank)];
      most = std::max(most, within + beyond);
      sum += within + beyond;
      ++count;
    }
  return sum > 0 ? most * static_cast<double>(count) / sum : 1;
}

double longest(const std::vector<TrafficPart>& parts, bool receives) {
  double time = 0;
  for (const TrafficPart& part : parts)
    if (part.receives == receives) time = std::max(time, part.time());
  return time;
}

}  // namespace

std::optional<TrafficLoad> load_of(const TrafficMatrix& matrix, std::span<const std::vector<int>> groups,
                                   const Topology& topology, const Limits& limits, Level level) {
  const Rates rates(limits, level);
  LoadedParts parts(topology, rates);
  const std::vector<int> places = rates.link ? domains_of_ranks(topology) : topology.host_of_rank;
  const Direction sent = loads(matrix, groups, places, false), received = loads(matrix, groups, places, true);
  if (!parts.add(sent) || !parts.add(received)) return std::nullopt;
  TrafficLoad load{.parts = std::move(parts).take(),
                   .sent_imbalance = imbalance_of(sent, groups),
                   .received_imbalance = imbalance_of(received, groups)};
  if (load.parts.empty()) return std::nullopt;
  const double sending = longest(load.parts, false), receiving = longest(load.parts, true);
  if (receiving > sending) load.incast_loss = 1 - sending / receiving;
  return load;
}

Limit limit_of(const TrafficLoad& load, Level level, double bus_factor) {
  const TrafficPart& busiest = load.parts.front();
  const double rate = bus_factor / busiest.time();
  return {.name = "traffic",
          .level = level,
          .rate = {rate},
          .binding = busiest.binding,
          .because = fmt::format("busiest: {}, {}, with {} GB of a message of 1 GB at {} GB/s ({}), so {} GB/s of bus "
                                 "bandwidth",
                                 busiest.name, busiest.receives ? "receiving" : "sending", shown(busiest.load),
                                 shown(busiest.rate.count), busiest.because, shown(rate))};
}

}  // namespace p5::topo
