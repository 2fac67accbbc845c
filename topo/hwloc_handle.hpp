// A topology of hwloc that destroys itself. Internal to topo.
#pragma once

#include <hwloc.h>

#include <memory>

namespace p5::topo {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

}  // namespace p5::topo
