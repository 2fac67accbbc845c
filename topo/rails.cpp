// Rails of each GPU: the NICs of the fabric that share the most bridges with it.
#include <algorithm>

#include "topo/topology.hpp"

namespace p5::topo {

namespace {

// Proximity of two devices: larger is nearer.
struct PcieDistance {
  int shared = 0;  // bridges, the host bridge included
  bool same_numa_node = false;
  friend auto operator<=>(const PcieDistance&, const PcieDistance&) = default;
};

PcieDistance nearness(const Gpu& gpu, const Nic& nic) {
  const auto& a = gpu.pci.path;
  const auto& b = nic.pci.path;
  const auto differ = std::ranges::mismatch(a, b);
  return {static_cast<int>(differ.in1 - a.begin()), gpu.numa_node >= 0 && gpu.numa_node == nic.numa_node};
}

// One shared component is the host bridge: with a NUMA node's worth of devices below it that is no rail.
std::string by(const PcieDistance& nearest) {
  if (nearest.shared > 1) return "pcie switch";
  if (nearest.shared == 1) return "host bridge";
  return nearest.same_numa_node ? "numa node" : "host";
}

void find_rails(Gpu& gpu, const std::vector<const Nic*>& nics) {
  gpu.nics.clear();
  gpu.nics_by.clear();
  gpu.nics_shared.reset();
  PcieDistance nearest;
  for (const Nic* nic : nics) nearest = std::max(nearest, nearness(gpu, *nic));
  for (const Nic* nic : nics)
    if (nearness(gpu, *nic) == nearest) gpu.nics.push_back(nic->name);
  if (!gpu.nics.empty()) gpu.nics_by = by(nearest);
}

}  // namespace

void find_rails(Host& host) {
  std::vector<const Nic*> nics;
  const bool efa = std::ranges::any_of(host.nics, [](const Nic& nic) { return nic.kind == "efa"; });
  for (const Nic& nic : host.nics)
    if (nic.kind == "efa" || (!efa && nic.kind == "infiniband")) nics.push_back(&nic);
  for (Gpu& gpu : host.gpu_devices) find_rails(gpu, nics);
  for (Gpu& gpu : host.gpu_devices)
    if (!gpu.nics.empty())
      gpu.nics_shared = static_cast<int>(
          std::ranges::count_if(host.gpu_devices, [&](const Gpu& other) { return other.nics == gpu.nics; }));
}

}  // namespace p5::topo
