// The libfabric backend and the check of its network: starts one worker per rank and agrees among all ranks on library
// and NICs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/backends/worker.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "reports/gdr.hpp"
#include "topo/finding.hpp"
#include "topo/topology.hpp"

namespace p5 {

inline constexpr const char* fabric_worker_program = "p5bench-worker-ofi";

// Options for a libfabric worker that sends through NICs within a host, too. Throws EnvironmentError as
// worker_options() does.
WorkerOptions fabric_worker(ControlPlane& control, const Options& options, const topo::Topology& topology);

struct FabricBackend {
  std::unique_ptr<Backend> backend;
  std::map<std::string, std::string> software;  // for the report's context, with the list of NICs
  std::vector<std::vector<std::string>> nics_of_rank;
  std::string memory, why_no_gpu;  // memory: place of the data, the same on all ranks; why_no_gpu: see Identity
  reports::GpusOfNics gpus = {};   // GPUs that hold the data if it lies in GPU memory
  bool loops_back = true;          // false: messages within a host do not pass its NICs (EFA), so they do not test them
};

// Throws EnvironmentError naming the rank and host whose worker finds no NIC, or a library other than rank 0's. If NICs
// of some ranks cannot access GPU memory, the data of all ranks lies in host memory.
FabricBackend make_fabric_backend(ControlPlane& control, const Options& options, const topo::Topology& topology);

// ---- Checks the network that data will use before the library under test waits for it.

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
