// The made-up machine of the simulator.
#include <fmt/format.h>

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
  for (int i = 0; i < platform.nics; ++i)
    host.nics.push_back({fmt::format("rdma{}", i), "efa", "efa", "up", platform.nic_rate, -1});
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
