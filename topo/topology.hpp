// What the machine is, as values: hosts, their NICs and memory, and which host each rank is on. Discovery fills them in
// on each host; they travel as JSON, so a recorded machine reads like a live one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/units.hpp"

namespace p5::topo {

struct Nic {
  std::string name;          // of the device, such as "eth0" or "rdmap79s0"
  std::string kind;          // "ethernet", "infiniband", "efa", "virtual"
  std::string driver;        // kernel driver, "" when it has none (virtual)
  std::string state;         // "up", "down" or what the kernel says
  std::optional<GBps> rate;  // one direction, as the kernel states it; null when it does not or for a virtual device
  int numa_node = -1;        // -1: unknown
};

struct Gpu {
  std::string uuid, name;
  int architecture = 0;               // compute capability x 10: 80, 90, 100; 0: unknown
  int links = 0;                      // active NVLinks
  std::optional<GBps> link_rate_raw;  // one link, one direction, signalling
  std::optional<int> pcie_generation, pcie_width;
  std::optional<int> processes;  // other programs that compute on it
};

struct Host {
  std::string name;           // what tells nodes apart: NCCL_HOSTID where set, else the host name
  std::string host_name;      // the kernel's
  bool pretended = false;     // name comes from NCCL_HOSTID
  std::string boot_id;        // /proc/sys/kernel/random/boot_id: the same on one kernel
  std::string instance;       // cloud instance id, "" when not on a cloud or not readable
  std::string instance_type;  // DMI product name on EC2, such as "p5.48xlarge"; ""
  std::string kernel, cpu_model;
  int packages = 0, numa_nodes = 0, cores = 0, threads = 0;
  int allowed_threads = 0;         // hardware threads that our processes may use, by cpuset and CPU quota; 0: unknown
  int gpus = 0;                    // PCI display and 3D controllers of NVIDIA (vendor 0x10de)
  Bytes memory, memory_available;  // memory_available respects the memory cgroup
  std::vector<Nic> nics;
  std::vector<Gpu> gpu_devices;  // as NVML tells; empty when it was not or could not be asked
  std::string gpu_driver;
  std::string gpu_problem;  // why NVML could not be asked, ""
};

struct Topology {
  std::string provenance = "discovered";  // discovered, synthetic, imported
  std::string platform;                   // name of a platform file, "" when none matches
  std::vector<Host> hosts;
  std::vector<int> host_of_rank;
  std::vector<int> gpus_seen_of_rank = {};  // GPUs that each rank's process may use; empty where no rank has been asked
};

// How this process names its node, and nothing else: cheap.
struct HostName {
  std::string name;
  bool pretended = false;
};
HostName host_name();

// Everything about this host, from hwloc, /proc, /sys and DMI. Never fails for a missing file: the fact is then absent.
// `root` is prepended to /proc and /sys, for recorded machines in tests.
Host discover_host(const std::string& root = "");

// Asks NVML through the probe program, which is ended when it has not answered within `limit`. Fills gpu_devices and
// gpu_driver, or gpu_problem.
void probe_gpus(Host& host, const std::string& program, Seconds limit);

// hwloc's own XML of this machine, for topology.xml.
std::string hwloc_xml();

// A made-up machine of `nodes` hosts "n0", "n1", ... with one rank per GPU.
struct Platform;
Topology synthetic(const Platform& platform, int nodes);

nlohmann::json to_json(const Host& host);
Host host_from_json(const nlohmann::json& j);
nlohmann::json to_json(const Topology& topology);
Topology topology_from_json(const nlohmann::json& j);

}  // namespace p5::topo
