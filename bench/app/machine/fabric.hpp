// Ranks on NICs: a worker for libfabric for each, agreed among all ranks.
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

// Of a worker for libfabric, whose data goes through NICs also within a host. Throws EnvironmentError as
// worker_options().
WorkerOptions fabric_worker(ControlPlane& control, const Options& options, const topo::Topology& topology);

struct FabricBackend {
  std::unique_ptr<Backend> backend;
  std::map<std::string, std::string> software;  // for the report's context; which NICs there are, too
  std::vector<std::vector<std::string>> nics_of_rank;
  std::string memory, why_no_gpu;  // where their data lies, alike on all ranks; "": NICs reach GPUs, or nobody asked
  reports::GpusOfNics gpus = {};   // where their data lies in GPU memory
  bool loops_back = true;          // false: what NICs send to their own host says nothing of them (EFA)
};

// Throws EnvironmentError naming the rank and host whose worker finds no NIC, or another library than rank 0's. Where
// NICs of some ranks do not reach GPU memory, the data of all lies in host memory.
FabricBackend make_fabric_backend(ControlPlane& control, const Options& options, const topo::Topology& topology);

}  // namespace p5
