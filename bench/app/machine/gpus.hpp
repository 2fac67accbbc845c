// Ranks on GPUs: whether there are any, and a worker for each, agreed among all ranks.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/model/backend.hpp"
#include "bench/model/options.hpp"
#include "bench/model/world.hpp"
#include "topo/finding.hpp"
#include "topo/topology.hpp"

namespace p5 {

// On this host alone, before there is a world: a GPU driver and the worker are there, or the options insist.
bool may_use_gpus(const Options& options);

// On all ranks together: the backend is nccl, or auto where may_use_gpus() holds everywhere.
bool use_gpus(World& world, const Options& options);

struct GpuBackend {
  std::unique_ptr<Backend> backend;
  std::optional<Bytes> memory_of_rank;
  std::string why_not_judged;
  std::map<std::string, std::string> software;
  std::vector<std::string> gpu_of_rank;  // UUIDs
  std::vector<int> gpus_seen_of_rank;
  std::vector<topo::Finding> findings;  // at the leader
};

// Starts a worker for each rank. Throws EnvironmentError naming the rank and host whose worker has no GPU, whose GPU
// another rank has too (unless that is allowed), or whose library is another version than rank 0's.
GpuBackend make_gpu_backend(World& world, const Options& options, const topo::Topology& topology);

}  // namespace p5
