// Libfabric backend: starts one worker per rank and agrees among all ranks on library and NICs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/backends/worker.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "reports/gdr.hpp"
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

}  // namespace p5
