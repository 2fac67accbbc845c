// Ranks on GPUs: whether there may be any, and a worker for each, agreed among all ranks.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/model/backend.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "topo/finding.hpp"
#include "topo/topology.hpp"

namespace p5 {

// On this host alone: a GPU driver and the worker are there.
bool may_use_gpus();

struct GpuBackend {
  std::unique_ptr<Backend> backend;
  std::optional<Bytes> memory_of_rank;
  std::string why_not_judged;
  std::map<std::string, std::string> software;
  std::vector<std::string> gpu_of_rank;  // at the leader, as the next: UUIDs
  std::vector<int> gpus_seen_of_rank;
  std::vector<topo::Finding> findings;  // at the leader
};

// Starts a worker for each rank. Throws EnvironmentError naming the rank and host whose worker has no GPU, whose GPU
// another rank has too (unless that is allowed), or whose library is another version than rank 0's.
GpuBackend make_gpu_backend(ControlPlane& control, const Options& options, const topo::Topology& topology);

}  // namespace p5
