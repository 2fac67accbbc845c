// The simulated cluster while a sample is taken: which faults act, and what the parts on a path can still carry.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "bench/backends/backends.hpp"
#include "bench/base/route.hpp"
#include "bench/model/pattern.hpp"
#include "bench/model/traffic.hpp"

namespace p5::sim {

// A rank's node and GPU.
struct Port {
  int node = 0, gpu = 0;
};

// Counter-based random numbers: the same seed gives the same run.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : seed_(seed) {}
  double uniform() { return static_cast<double>(pattern::hash(seed_, 0, ++count_) >> 11) * 0x1p-53; }
  // Approximately standard normal: the Irwin-Hall sum of twelve.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t seed_, count_ = 0;
};

// Shares of a message that a member moves over its links, and over its NICs.
struct ExchangeLoad {
  double links = 0, beyond = 0;
};

// The GPUs of all groups of a round that use each NIC at the same time, by node and NIC. Empty where each GPU has NICs
// of its own.
using NicUsers = std::vector<int>;

// The machine during one sample: active faults and the remaining rate of each part.
class SampleState {
 public:
  // full_load: all ranks take part; at_scale: more than two in a group.
  SampleState(const SimMachine& machine, bool full_load, bool at_scale, Noise& noise)
      : machine_(machine), own_(machine.seed) {
    for (const Fault& fault : machine.faults) {
      const bool alone = fault.mode == Fault::Mode::compute || fault.mode == Fault::Mode::memory ||
                         fault.mode == Fault::Mode::miscompute || fault.mode == Fault::Mode::communicators ||
                         fault.mode == Fault::Mode::clique || fault.mode == Fault::Mode::under_load;
      const bool acts = alone                                  ? false
                        : fault.mode == Fault::Mode::sometimes ? noise.uniform() < fault.share
                        : fault.mode == Fault::Mode::all_rails ? full_load
                        : fault.mode == Fault::Mode::at_scale  ? at_scale
                                                               : true;
      if (acts) acting_.push_back(&fault);
    }
  }

  // True if an active fault silences a part.
  bool silences() const {
    return std::ranges::any_of(acting_, [](const Fault* fault) { return fault->factor == 0; });
  }

  // Bus bandwidth of an exchange by a matrix. A member's parts carry both directions at once, the busier one decides;
  // GPUs that share a NIC do so evenly, so skewed loads may be slower than the NIC allows.
  double of_traffic(const std::vector<Port>& members, const TrafficMatrix& matrix, const NicUsers& users) const {
    const auto busiest = static_cast<double>(busiest_sum(matrix));
    std::vector<ExchangeLoad> sent(members.size()), received(members.size());
    for (std::size_t i = 0; i < members.size(); ++i)
      for (std::size_t j = 0; j < members.size(); ++j) {
        if (i == j) continue;
        const double part = static_cast<double>(matrix.at(static_cast<int>(i), static_cast<int>(j))) / busiest;
        const bool leaves = domain(members[i]) != domain(members[j]);
        for (ExchangeLoad* load : {&sent[i], &received[j]}) (leaves ? load->beyond : load->links) += part;
      }
    return std::min(of_exchange(members, sent, users), of_exchange(members, received, users));
  }

  // Rate of messages between two ranks when `sharing` GPUs of a node use its NICs.
  double between(Port a, Port b, int sharing) const {
    const double ends =
        remaining(Fault::Kind::node, a.node) * remaining(Fault::Kind::node, b.node) *
        std::min(remaining(Fault::Kind::gpu, a.node, a.gpu), remaining(Fault::Kind::gpu, b.node, b.gpu));
    if (domain(a) == domain(b))
      return nvlink_rate(a) * ends * std::min(natural_rate(a.node, gpu_number(a)), natural_rate(b.node, gpu_number(b)));
    const double nics = std::min(nics_of(a, sharing), nics_of(b, sharing));
    return std::min({nvlink_rate(a), nvlink_rate(b), nics}) * ends * remaining_link_rate(a.node, b.node);
  }

  // Rate of host-memory messages through one NIC of each rank, by its number among those of the rank.
  double through_nics(Port a, int nic_of_a, Port b, int nic_of_b) const {
    const auto end = [&](Port p, int nic) {
      const auto [first, last] = nics_of_gpu(p.gpu);
      const int number = std::min(first + nic, last - 1);
      return machine_.nic.count * remaining(Fault::Kind::nic, p.node, number) * natural_rate(p.node, number);
    };
    return std::min(end(a, nic_of_a), end(b, nic_of_b)) * remaining(Fault::Kind::node, a.node) *
           remaining(Fault::Kind::node, b.node) * remaining_link_rate(a.node, b.node);
  }

  // Bus bandwidth of a group by the route of its collective.
  double of_group(const std::vector<Port>& members, Route route, std::size_t root, const NicUsers& users) const {
    switch (route) {
      case Route::all_to_all:
        return of_exchange(members, even_loads(members), users);
      case Route::all_to_allv:
        return of_exchange(members, uneven_loads(members), users);
      case Route::rooted:
        return of_star(members, root);
      case Route::point_to_point:
        return of_neighbours(members, users);
      case Route::tree_or_ring:
        return of_rings(members, true, users);
      case Route::ring:
        break;
    }
    return of_rings(members, false, users);
  }

 private:
  int domain(Port p) const { return machine_.domain_of(p.node); }
  double nvlink_rate(Port p) const { return machine_.link.count * remaining(Fault::Kind::domain, domain(p)); }

  // A ring is as fast as its slowest part. If sums are enough, few domains need less of their NICs: (domains - 1) /
  // domains of a message each way, where bus bandwidth counts 2 (n - 1) / n.
  double of_rings(const std::vector<Port>& members, bool sums, const NicUsers& users) const {
    double rate = std::numeric_limits<double>::infinity();
    std::map<int, std::map<int, std::vector<int>>> gpus_of_node_of_domain;
    for (Port p : members) {
      rate = std::min(
          rate, nvlink_rate(p) * remaining(Fault::Kind::gpu, p.node, p.gpu) * remaining(Fault::Kind::node, p.node));
      gpus_of_node_of_domain[domain(p)][p.node].push_back(p.gpu);
    }
    if (gpus_of_node_of_domain.size() < 2) return rate;
    const auto domains = static_cast<double>(gpus_of_node_of_domain.size()),
               ranks = static_cast<double>(members.size());
    constexpr double few = 3;
    const double spared = sums && domains <= few ? domains * (ranks - 1) / ((domains - 1) * ranks) : 1;
    for (auto here = gpus_of_node_of_domain.begin(); here != gpus_of_node_of_domain.end(); ++here) {
      const auto next =
          std::next(here) == gpus_of_node_of_domain.end() ? gpus_of_node_of_domain.begin() : std::next(here);
      rate = std::min(rate, spared * from_domain_to(here->second, next->second, users));
    }
    return rate;
  }

  // Rings leave a domain over the NICs of all its nodes, an equal part over each, so the slowest node decides. The i-th
  // nodes of two domains send to each other.
  double from_domain_to(const std::map<int, std::vector<int>>& here, const std::map<int, std::vector<int>>& next,
                        const NicUsers& users) const {
    double slowest = std::numeric_limits<double>::infinity();
    auto other = next.begin();
    for (const auto& [node, gpus] : here) {
      slowest = std::min(slowest, nics_of_node(node, gpus, users) * remaining(Fault::Kind::node, node) *
                                      remaining_link_rate(node, other->first));
      if (++other == next.end()) other = next.begin();
    }
    return slowest * static_cast<double>(here.size());
  }

  // Each member sends the whole message to the next, over its own NICs if that is in another domain.
  double of_neighbours(const std::vector<Port>& members, const NicUsers& users) const {
    double rate = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < members.size(); ++i)
      rate = std::min(rate, between(members[i], members[(i + 1) % members.size()], gpus_sharing(members[i], users)));
    return rate;
  }

  using Members = std::map<int, std::vector<std::size_t>>;  // indices of members by their domain

  Members members_by_domain(const std::vector<Port>& members) const {
    Members in_domain;
    for (std::size_t i = 0; i < members.size(); ++i) in_domain[domain(members[i])].push_back(i);
    return in_domain;
  }

  std::vector<ExchangeLoad> even_loads(const std::vector<Port>& members) const {
    const Members in_domain = members_by_domain(members);
    const auto n = static_cast<double>(members.size());
    std::vector<ExchangeLoad> loads;
    for (const Port p : members)
      loads.push_back({(n - 1) / n, 1 - static_cast<double>(in_domain.at(domain(p)).size()) / n});
    return loads;
  }

  // Blocks are proportional to the distance, from 0 to n - 1.
  std::vector<ExchangeLoad> uneven_loads(const std::vector<Port>& members) const {
    if (members.size() < 2) return {{}};
    const Members in_domain = members_by_domain(members);
    const auto n = static_cast<double>(members.size());
    std::vector<ExchangeLoad> loads;
    for (std::size_t i = 0; i < members.size(); ++i) {
      double stays = 0;
      for (const std::size_t j : in_domain.at(domain(members[i])))
        stays += static_cast<double>((j + members.size() - i) % members.size());
      loads.push_back({1, 1 - stays / (n * (n - 1) / 2)});
    }
    return loads;
  }

  // Each member sends its blocks within its domain and to others concurrently; the slowest member decides.
  double of_exchange(const std::vector<Port>& members, const std::vector<ExchangeLoad>& loads,
                     const NicUsers& users) const {
    std::set<int> nodes;
    for (const Port p : members) nodes.insert(p.node);
    double worst_link = 1;
    for (const Fault* fault : acting_)
      if (fault->kind == Fault::Kind::link && nodes.contains(fault->node) && nodes.contains(fault->part) &&
          domain({fault->node, 0}) != domain({fault->part, 0}))
        worst_link = std::min(worst_link, remaining_link_rate(fault->node, fault->part));
    // Bus bandwidth counts (n - 1) / n of a message.
    const double n = static_cast<double>(members.size()), counted = (n - 1) / n;
    double rate = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Port p = members[i];
      const double own = remaining(Fault::Kind::gpu, p.node, p.gpu) * remaining(Fault::Kind::node, p.node);
      if (loads[i].links > 0) rate = std::min(rate, nvlink_rate(p) * own * counted / loads[i].links);
      if (loads[i].beyond > 0)
        rate = std::min(rate, nics_of(p, gpus_sharing(p, users)) * own * worst_link * counted / loads[i].beyond);
    }
    return rate;
  }

  // The root exchanges parts with all others concurrently: over its link within the domain, over its NICs beyond it,
  // where a slow link to a node delays that node's parts.
  double of_star(const std::vector<Port>& members, std::size_t root) const {
    const Port hub = members[root];
    const auto others = static_cast<double>(members.size()) - 1;
    const double own = remaining(Fault::Kind::gpu, hub.node, hub.gpu) * remaining(Fault::Kind::node, hub.node);
    double rate = nvlink_rate(hub) * own;
    std::map<int, double> parts;  // by node
    double elsewhere = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i == root) continue;
      ++parts[members[i].node];
      if (domain(members[i]) != domain(hub)) ++elsewhere;
      rate = std::min(rate, between(members[i], hub, 1) * others);
    }
    for (const auto& [node, count] : parts)
      if (domain({node, 0}) != domain(hub))
        rate = std::min(
            rate, nics_of(hub, 1) * own * others / std::max(elsewhere, count / remaining_link_rate(hub.node, node)));
    return rate;
  }

  double remaining(Fault::Kind kind, int node, int part = 0) const {
    double share = 1;
    for (const Fault* fault : acting_)
      if (fault->kind == kind && fault->node == node && fault->part == part) share *= fault->factor;
    return share;
  }
  double remaining_link_rate(int a, int b) const {
    double share = 1;
    for (const Fault* fault : acting_)
      if (fault->kind == Fault::Kind::link && std::minmax(fault->node, fault->part) == std::minmax(a, b))
        share *= fault->factor;
    return share;
  }

  // Rate share of a healthy part. NICs are numbered from 0, GPUs after them.
  double natural_rate(int node, int number) const {
    const auto drawn = pattern::hash(own_, static_cast<std::uint64_t>(node) + 2, static_cast<std::uint64_t>(number));
    return 1 - machine_.part_spread * static_cast<double>(drawn >> 11) * 0x1p-53;
  }
  int gpu_number(Port p) const { return machine_.nics + p.gpu; }

  struct Nics {
    int first = 0, last = 0;
  };
  Nics nics_of_gpu(int gpu) const {
    const int first = gpu * machine_.nics / machine_.gpus;
    return {first, std::max(first + 1, (gpu + 1) * machine_.nics / machine_.gpus)};
  }

  int users_of(const NicUsers& users, int node, int nic) const {
    return users.at(static_cast<std::size_t>(node * machine_.nics + nic));
  }
  // GPUs that share the NIC of this one.
  int gpus_sharing(Port p, const NicUsers& users) const {
    return users.empty() ? 1 : std::max(1, users_of(users, p.node, nics_of_gpu(p.gpu).first));
  }

  // NICs of a GPU carry equal parts of its traffic, so the slowest decides. Several GPUs may share one.
  double nics_of(Port p, int gpus) const {
    const auto [first, last] = nics_of_gpu(p.gpu);
    const double most_ranks = std::min<double>(gpus, std::max(1.0, static_cast<double>(machine_.gpus) / machine_.nics));
    double slowest = 1;
    for (int nic = first; nic < last; ++nic)
      slowest = std::min(slowest, remaining(Fault::Kind::nic, p.node, nic) * natural_rate(p.node, nic));
    return machine_.nic.count * slowest * (last - first) / most_ranks;
  }
  double nics_of_node(int node, const std::vector<int>& gpus, const NicUsers& users) const {
    std::map<int, int> used;  // GPUs of the group by NIC
    double slowest = 1;
    for (int gpu : gpus) {
      const auto [first, last] = nics_of_gpu(gpu);
      for (int nic = first; nic < last; ++nic)
        if (++used[nic] == 1) slowest = std::min(slowest, remaining(Fault::Kind::nic, node, nic));
    }
    double nics = 0;
    for (const auto& [nic, own] : used)
      nics += users.empty() ? 1 : static_cast<double>(own) / users_of(users, node, nic);
    return machine_.nic.count * slowest * nics;
  }

  const SimMachine& machine_;
  std::uint64_t own_;
  std::vector<const Fault*> acting_;
};

}  // namespace p5::sim
