// Checks the network that data will use before the library under test waits for it.
#pragma once

#include <string>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "topo/finding.hpp"

namespace p5 {

struct FabricCheck {
  std::vector<topo::Finding> findings = {};  // at the leader
  bool cut = false;                          // same on all ranks: hosts do not reach each other
};

// One rank of each host sends messages over libfabric (check_reachability()), on the path that NCCL will use if NCCL is
// under test. Skipped on one host, in a build without a libfabric worker, or if the path is not known.
// P5BENCH_REACH_LIMIT is the deadline of a message, by default 5 s; "off" skips the check.
FabricCheck check_fabric(ControlPlane& control, const Options& options, const Machine& machine);

// The first rank on each machine; pretended hosts count as one.
std::vector<int> first_ranks(const topo::Topology& topology);

// True if each host has EFA devices.
bool all_have_efa(const topo::Topology& topology);

}  // namespace p5
