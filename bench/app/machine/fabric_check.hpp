// Whether the network that data will go over is there at all, before the ranks' library waits for it.
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
  bool cut = false;                          // alike on all ranks: hosts do not reach each other
};

// One rank of each host sends messages over libfabric (check_reachability()), over the way that NCCL will go where that
// is under test. Nothing on one host, where this build has no worker for libfabric, or where the way is not clear.
// P5BENCH_REACH_LIMIT is the deadline of a message, 5 s without it; "off": nothing is tried.
FabricCheck check_fabric(ControlPlane& control, const Options& options, const Machine& machine);

// The first rank on each machine. Hosts that are pretended are one.
std::vector<int> first_ranks(const topo::Topology& topology);

// Whether each host has EFA devices.
bool all_have_efa(const topo::Topology& topology);

}  // namespace p5
