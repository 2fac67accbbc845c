// The parts of a host as values: GPUs, NICs, PCIe bridges, NUMA nodes, libfabric's view. Every fact that a driver, a
// container or an old kernel may not report is optional: absent means unknown, never a fault.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/units.hpp"

namespace p5::topo {

// A PCIe link: generation 1 to 6 and lanes, now and at most. A link may rest at a lower generation while nothing moves.
struct PcieLink {
  std::optional<int> generation{}, width{}, generation_max{}, width_max{};
};

// PCI location of a device: its address such as "0000:53:00.0", and the host bridge and the bridges above it, outermost
// first. "" and empty: unknown, or not on PCI.
struct PciPosition {
  std::string address{};
  std::vector<std::string> path{};  // "pci0000:50", "0000:50:00.0", ...
};

struct NumaNode {
  int index = 0;
  std::string cpus{};        // list in the format of the kernel: "0-47,96-143"
  std::vector<int> cores{};  // logical numbers, as hwloc and Open MPI count them
  Bytes memory{};
};

struct PciBridge {
  std::string address{};
  PcieLink link{};            // its upper side
  std::optional<bool> acs{};  // access control redirects requests of its neighbours upwards: peers get slow
};

struct Nic {
  std::string name;            // device name, such as "eth0" or "rdmap79s0"
  std::string kind;            // "ethernet", "infiniband", "efa", "virtual"
  std::string driver;          // kernel driver, "" when it has none (virtual)
  std::string state;           // "up", "down" or another state that the kernel reports
  std::optional<GBps> rate{};  // one direction, as the kernel states it; null when it does not or for a virtual device
  int numa_node = -1;          // -1: unknown
  PciPosition pci{};
  PcieLink pcie{};
  std::string hardware_address{};      // MAC address or node GUID
  std::string firmware{};              // version that the kernel reports
  std::optional<bool> gdr{};           // EFA: the driver can reach GPU memory through peer-to-peer (sysfs `gdr`)
  std::string verbs{};                 // "uverbs3", for RDMA devices
  std::optional<bool> verbs_usable{};  // /dev/infiniband/uverbs3 can be opened by us
  std::map<std::string, std::uint64_t> counters{};  // ports/1/hw_counters at discovery; since boot
  std::vector<std::string> addresses{};             // IPv4 with prefix, "10.0.0.1/20"
  std::optional<int> mtu{};                         // network devices only, in bytes
};

// One NVLink of a GPU.
struct NvLink {
  int number = 0;
  std::optional<bool> active{};
  std::optional<GBps> rate_raw{};  // one direction, signalling
  std::string remote{};            // "gpu", "switch" or "" (unknown)
  std::string remote_pci{};        // address of the other end
  // "replay", "recovery", "crc_flit", "crc_data"; from NVLink 5 on "recovery", "recovery_failed"; since the driver's
  // start.
  std::map<std::string, std::uint64_t> errors{};
};

// Counts that do not go away by themselves, as NVML keeps them.
struct GpuMemoryErrors {
  std::optional<bool> ecc{};                                // error correction is on
  std::optional<std::uint64_t> corrected{}, uncorrected{};  // since the driver was loaded
  std::optional<std::uint64_t> corrected_ever{}, uncorrected_ever{};
  std::optional<int> retired_pages{};  // GPUs before A100
  std::optional<bool> retirement_pending{};
  std::optional<int> remapped_corrected{}, remapped_uncorrected{};  // rows; A100 and later
  std::optional<bool> remap_pending{}, remap_failed{};
};

// GPU values that change from second to second.
struct GpuState {
  std::optional<int> sm_clock_mhz{}, memory_clock_mhz{};
  std::optional<int> temperature_c{};
  std::optional<double> power_w{};
  std::optional<std::uint64_t> throttle_mask{};  // NVML's clocks event reasons
};

// Names of the bits set in a throttle mask: "idle", "application clocks", "power cap", "hardware slowdown", "sync
// boost", "software thermal", "hardware thermal", "power brake", "display clock"; others as "0x...".
std::vector<std::string> throttle_reasons(std::uint64_t mask);
// True if the mask shows a GPU held back by more than idling or its ordinary power cap.
bool held_back(std::uint64_t mask);

// What NVML's mask of the health of a GPU's fabric says is wrong: "degraded bandwidth", "insufficient NVLinks", ...
std::vector<std::string> fabric_troubles(unsigned mask);
// One of them: the GPU may be sound, and the fabric manager has given it to nobody.
inline constexpr const char* no_partition = "no partition";

struct Gpu {
  std::string uuid{}, name{};           // "": NVML does not report it, only PCI does
  int architecture = 0;                 // compute capability x 10: 80, 90, 100; 0: unknown
  std::optional<int> links{};           // active NVLinks
  std::optional<GBps> link_rate_raw{};  // one link, one direction, signalling
  PcieLink pcie{};
  std::optional<int> processes{};      // other programs that compute on it
  std::vector<std::string> used_by{};  // the ones that could be identified: "pid 123, python"
  PciPosition pci{};
  int numa_node = -1;
  std::string serial{};
  std::optional<Bytes> memory{};
  std::vector<NvLink> nvlinks{};
  std::optional<int> links_possible{};  // NVLinks that the GPU reports, active or not
  std::string fabric_state{};           // "not supported", "not started", "in progress", "completed", "" unknown
  std::optional<int> fabric_status{};   // NVML's return code of joining the fabric, 0: well
  std::string fabric_cluster{};         // UUID of the NVLink domain, 32 hexadecimal digits; "": none that spans hosts
  std::optional<int> fabric_clique{};   // GPUs of one cluster reach each other if they are of one clique too
  std::optional<std::vector<std::string>> fabric_trouble{};  // "degraded bandwidth", "route unhealthy", ...
  std::optional<bool> mig{};                                 // split into instances
  std::string compute_mode{};                                // "default", "exclusive process", "prohibited"
  std::optional<bool> persistence{};
  GpuMemoryErrors errors{};
  std::optional<std::uint64_t> pcie_replays{};
  GpuState state{};  // at discovery, when nothing runs
  std::optional<int> sm_clock_max_mhz{}, memory_clock_max_mhz{};
  std::optional<double> power_cap_w{}, power_cap_default_w{};
  std::optional<int> slowdown_temperature_c{};
  std::string problem{};             // message about a call that failed or did not return
  std::vector<std::string> nics{};   // its rails: names of the nearest NICs of the fabric
  std::string nics_by{};             // the criterion: "pcie switch", "host bridge", "numa node", "host"; "": none
  std::optional<int> nics_shared{};  // GPUs that have the same ones, itself included
  std::optional<int> nccl_device{};  // NCCL's number of the GPU, where NCCL's topology lacks others before it
};

// Number of NVLinks that join two GPUs of a host directly, without a switch.
int links_between(const Gpu& one, const Gpu& other);

// Xid errors of a GPU, or SXid errors of an NVSwitch, in the kernel log since the machine booted and its driver was
// loaded.
struct Xid {
  std::string pci{};   // address in the format of the driver: "0000:53:00"; of a switch "0000:05:00.0"
  int code = 0;        // NVIDIA, XID Errors; from 10000 on NVIDIA, Fabric Manager User Guide
  int count = 1;       // occurrences of the code with this remedy; `text` is from the last one
  std::string text{};  // message after the code
};

// Providers and domains that libfabric reports, queried in a separate process.
struct Libfabric {
  std::string version{};
  std::string path{};  // path of the loaded library
  std::vector<std::string> providers{};
  struct Domain {
    std::string name{}, provider{}, fabric{};
    std::string nic{};  // kernel's name of the device; "": not reported by libfabric
    std::string pci{};
    std::optional<GBps> rate{};
    std::string state{};  // "up", "down", ""
  };
  std::vector<Domain> domains{};  // domains of provider efa, else of all providers that name a device; each device once
  std::string problem{};          // error message; "": the query succeeded
  bool answered = true;           // false: the query process did not finish, so the providers are unknown
};

}  // namespace p5::topo
