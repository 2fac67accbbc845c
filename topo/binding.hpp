// GPU, NICs and cores of each rank, also as a rank file for Open MPI.
#pragma once

#include <string>
#include <vector>

#include "topo/topology.hpp"

namespace p5::topo {

struct Binding {
  int rank = 0, host = 0;
  int gpu = -1;  // index in the host's gpu_devices; -1: none
  std::vector<std::string> nics{};
  int numa_node = -1;        // -1: unknown
  std::vector<int> cores{};  // logical core numbers, as hwloc and Open MPI count them; empty: unknown
};

// Indices in gpu_devices of the GPUs that CUDA shows a process with this CUDA_VISIBLE_DEVICES, in its order: numbers or
// UUID prefixes; as in CUDA the first entry that names no GPU ends the list. Null: all that NVML reports.
std::vector<int> visible_gpus(const Host& host, const char* visible);

// A rank gets the GPU that topology.gpu_of_rank names, else the next one of its host in the order of `visible`. Ranks
// near one NUMA node share its cores evenly. A topology without ranks gets one rank for each GPU.
std::vector<Binding> bindings(const Topology& topology, const char* visible);

// The topology without its ranks, and what each of them has, where there are no more of them than hosts: the job to
// come is assumed to have a rank for each GPU.
Topology with_ranks_of_job(Topology topology);

// Rank file for mpirun --rankfile. Throws UsageError naming the host whose cores are unknown.
std::string rank_file(const std::vector<Binding>& bindings, const Topology& topology);

// "0-3,8"
std::string list_text(const std::vector<int>& sorted);

}  // namespace p5::topo
