// The parts of discovery, each in its own file. Internal to topo: the rest of the program uses topology.hpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/units.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

struct Processors {
  int packages = 0, numa_nodes = 0, cores = 0, threads = 0;
  int allowed_threads = 0;  // by cpuset and CPU quota
  std::string model;
};
// From hwloc. `root` is the file system of the machine, "" for this one.
Processors discover_processors(const std::string& root);

// RDMA devices first, then network devices; the loopback and second views of one port are left out.
std::vector<Nic> discover_nics(const std::filesystem::path& root);

// What the memory cgroups of this process leave it: the least over all levels; absent when none sets a limit.
std::optional<Bytes> memory_left_by_cgroup(const std::filesystem::path& root);

// Processors' worth of time that the CPU cgroups of this process grant: the least over all levels; absent without a
// quota.
std::optional<double> processors_left_by_cgroup(const std::filesystem::path& root);

}  // namespace p5::topo
