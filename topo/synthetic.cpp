// The made-up machine of the simulator.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "topo/platform.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

namespace {

Host synthetic_host(const Platform& platform, int node) {
  Host host;
  host.name = host.host_name = fmt::format("n{}", node);
  host.boot_id = fmt::format("synthetic-{}", node);
  host.instance_type = platform.name;
  host.gpus = platform.gpus;
  // A switch for each GPU or each NIC, whichever there are fewer of; half of them near each NUMA node.
  host.numa_nodes = platform.gpus > 1 ? 2 : 1;
  for (int i = 0; i < host.numa_nodes; ++i) host.numa.push_back({i});
  const int nics = platform.simulated_nics;
  const int switches = std::max(1, nics > 0 ? std::min(platform.gpus, nics) : platform.gpus);
  const auto numa_of = [&](int at) { return at * host.numa_nodes / switches; };
  const auto place = [&](int at) {
    return PciPosition{"", {fmt::format("pci{:04x}:00", numa_of(at)), fmt::format("switch {}", at)}};
  };
  for (int i = 0; i < platform.gpus; ++i) {
    const int at = i * switches / platform.gpus;
    Gpu gpu;
    gpu.uuid = fmt::format("SIM-{}g{}", host.name, i);
    gpu.name = platform.gpu;
    gpu.memory = platform.gpu_memory;
    if (platform.links_per_gpu > 0) gpu.links = gpu.links_possible = platform.links_per_gpu;
    if (platform.nodes_per_domain > 1) {
      gpu.fabric_cluster = fmt::format("{:032x}", node / platform.nodes_per_domain + 1);
      gpu.fabric_clique = 0;
    }
    gpu.pci = place(at);
    gpu.numa_node = numa_of(at);
    host.gpu_devices.push_back(std::move(gpu));
  }
  for (int i = 0; i < nics; ++i) {
    const int at = i * switches / nics;
    Nic nic{fmt::format("rdma{}", i), "efa", "efa", "up", platform.simulated_nic_rate, numa_of(at)};
    nic.pci = place(at);
    host.nics.push_back(std::move(nic));
  }
  find_rails(host);
  return host;
}

}  // namespace

Topology synthetic(const Platform& platform, int nodes) {
  Topology topology;
  topology.provenance = "synthetic";
  topology.platform = platform.name;
  for (int node = 0; node < nodes; ++node) {
    topology.hosts.push_back(synthetic_host(platform, node));
    topology.host_of_rank.insert(topology.host_of_rank.end(), static_cast<std::size_t>(platform.gpus), node);
  }
  return topology;
}

}  // namespace p5::topo
