// The parts of discovery, each in its own file. Internal to topo: the rest of the program uses topology.hpp.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/units.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

struct Processors {
  int packages = 0, numa_nodes = 0, cores = 0, threads = 0;
  int allowed_threads = 0;  // by cpuset and CPU quota
  std::string model;
  std::map<int, std::vector<int>> cores_of_node;  // logical numbers by NUMA node
};
// Processors as hwloc reports them. `root` is the file system of the machine, "" for this one.
Processors discover_processors(const std::string& root);

std::vector<NumaNode> discover_numa(const std::filesystem::path& root);

// NICs of the host: RDMA devices first, then network devices, without the loopback and second views of one port.
std::vector<Nic> discover_nics(const std::filesystem::path& root);

// Counters of a device's first port in /sys/class/infiniband, by sysfs name: bytes, drops, retries.
std::map<std::string, std::uint64_t> nic_counters(const std::filesystem::path& root, const std::string& device);

// ---- PCI. `device` is a folder or a link to one, such as /sys/class/infiniband/rdmap79s0/device.
PciPosition pci_position_of(const std::filesystem::path& device);
// By its gigatransfers per second, such as 2.5 and 16; null: no generation has this rate.
std::optional<int> pcie_generation(double rate);
PcieLink pcie_link_of(const std::filesystem::path& device);
int numa_node_of(const std::filesystem::path& device);

struct PciDevices {
  std::vector<Gpu> gpus;                                  // place, link and NUMA node only
  std::optional<int> nvswitches{}, efa_without_driver{};  // absent when there is no PCI to look at
};
PciDevices discover_pci(const std::filesystem::path& root);
// PCIe bridges above the host's GPUs and NICs, outermost first.
std::vector<PciBridge> discover_bridges(const std::filesystem::path& root, const Host& host);

// ---- GPUs that the driver has, whether NVML lists them or not.
// A GPU of NVIDIA's driver, by PCI address, and the file that programs open to use it.
struct DriverGpu {
  std::string address;
  std::filesystem::path file;
  std::string problem = {};
};
std::vector<DriverGpu> gpus_of_driver(const std::filesystem::path& root);
// Opens the file, at which the driver starts the GPU: may take seconds, or block. The reason if the driver cannot start
// it; "" also where this process may not open it, or has no such file, as in a container that has other GPUs.
std::string why_not_started(const std::filesystem::path& device_file);
// The GPUs of the driver that have a problem and are none of those that NVML lists; none where one of the latter has no
// address, since it may be the same.
std::vector<Gpu> unlisted_gpus(const std::vector<Gpu>& listed, const std::vector<DriverGpu>& of_driver);

// Memory that the cgroups of this process leave it: the minimum over all levels; absent when none sets a limit.
std::optional<Bytes> memory_left_by_cgroup(const std::filesystem::path& root);

// Processors' worth of time that the CPU cgroups of this process grant: the least over all levels; absent without a
// quota.
std::optional<double> processors_left_by_cgroup(const std::filesystem::path& root);

// True if RLIMIT_MEMLOCK does not hold for this process's NICs: it has CAP_IPC_LOCK in the first user namespace.
bool locks_without_limit(const std::filesystem::path& root);

// Huge pages of 2 MiB that the control groups of this process leave it: the least over all levels; absent without a
// limit.
std::optional<std::uint64_t> huge_pages_left_by_cgroup(const std::filesystem::path& root);

// Adds software versions, kernel modules, NCCL plugins, and whether this is a container or a virtual machine.
// `environment`: that of the processes that load the libraries; a recorded root has none.
void add_software(Host& host, const std::filesystem::path& root, const Environment& environment = {});
// The Xid or SXid in a line of the kernel's log, whatever stands in front of it; null: none.
std::optional<Xid> xid_in(std::string_view line);
// True if the driver starts there: Xids of before no longer apply.
bool starts_driver(std::string_view line);
// Xid errors of GPUs in the kernel log; null where the log cannot be read.
std::optional<std::vector<Xid>> discover_xids(const std::filesystem::path& root);
// The GPU's last `count` Xids of that code, of which NVML states the code only, by the texts that the kernel log has of
// them `now` and did not have `before`. Those that it has not yet: with the text of the last one that it has.
std::vector<Xid> xids_by_text(const std::vector<Xid>& before, const std::vector<Xid>& now, std::string_view pci,
                              int code, int count);
// Limits of this process; a recorded root holds none.
ProcessLimits discover_process_limits();
// Addresses of network devices, by device name.
std::map<std::string, std::vector<std::string>> interface_addresses();

// ---- Queries through other programs or services. Each reports a failure in the value that it fills.
// First line of JSON that a probe program printed, or the reason why there is none.
struct ProbeAnswer {
  std::string json, problem;
  bool started = true;
};
// `environment`: absent for that of this process.
ProbeAnswer ask_probe(const std::vector<std::string>& command, Seconds limit,
                      const std::optional<Environment>& environment = std::nullopt);

// Merges the GPUs that NVML reports with those on PCI, by PCI address.
void merge_gpus(Host& host, NvmlAnswer told, std::vector<Gpu> on_pci);

Libfabric ask_libfabric(const std::string& program, Seconds limit, const std::optional<Environment>& environment);

// EC2's instance metadata: "instance", "instance type", "availability zone", "vpc", "subnet", "placement group",
// "partition", and the number of "network cards" that have an interface; what it does not answer within the limit is
// not there.
std::map<std::string, std::string> ask_instance_metadata(Seconds limit);

}  // namespace p5::topo
