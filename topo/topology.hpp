// The machine as values: hosts, their GPUs, NICs and memory, and the host of each rank. Discovery fills them in on each
// host; they are passed as JSON, so a recorded machine is read like a live one.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/units.hpp"
#include "topo/devices.hpp"

namespace p5::topo {

// Limits of this process that matter for registering memory and for shared memory.
struct ProcessLimits {
  // RLIMIT_MEMLOCK; the largest Bytes there are: unlimited, also by the capability CAP_IPC_LOCK
  std::optional<Bytes> locked_memory{};
  std::optional<std::uint64_t> open_files{};
  std::optional<Bytes> shared_memory{}, shared_memory_free{};  // /dev/shm
  // Number of 2 MiB pages: of the host, and those that are free and that the control groups leave this process.
  std::optional<std::uint64_t> huge_pages{}, huge_pages_free{};
};

// NVLink between hosts needs NVIDIA's IMEX daemon, which passes memory handles on, and a channel to use it.
struct Imex {
  std::optional<bool> running{};                    // unknown where other processes cannot be seen
  std::optional<std::vector<std::string>> nodes{};  // addresses in nodes_config.cfg; null: there is no such file
  int channels = 0;                                 // in /dev/nvidia-caps-imex-channels, that this process may use
};

struct Host {
  std::string name;           // identity of the node: NCCL_HOSTID where set, else the host name
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
  std::vector<Gpu> gpu_devices;  // in NVML's order; then those that only PCI shows, which have no uuid
  std::string gpu_driver;
  std::string gpu_problem;  // reason why NVML could not be queried; "": none

  std::vector<NumaNode> numa{};
  std::vector<PciBridge> bridges{};         // above the GPUs and NICs
  std::optional<int> nvswitches{};          // on PCI; in a virtual machine they may be hidden
  std::optional<int> efa_without_driver{};  // EFA functions on PCI that the driver `efa` does not serve
  std::optional<int> network_cards{};       // to which EC2 has attached an interface, by its metadata
  std::optional<bool> virtual_machine{}, container{};
  std::optional<bool> iommu{};                        // it translates addresses of GPUs or NICs
  std::optional<std::vector<std::string>> modules{};  // loaded, of those in interesting_modules()
  std::optional<bool> fabric_manager_running{};       // unknown where other processes cannot be seen
  std::optional<Imex> imex{};                         // null: not looked for
  // Software versions by name: "efa driver", "efa installer", "libfabric", "aws-ofi-nccl", "nvidia driver", "fabric
  // manager", "cuda driver", "gdrcopy driver", "os", ...; unknown ones are absent.
  std::map<std::string, std::string> versions{};
  std::optional<std::vector<std::string>> net_plugins{};  // paths of libnccl-net*.so that NCCL could find
  std::vector<std::string> other_net_plugins{};           // those of them that are not aws-ofi-nccl
  std::optional<Libfabric> libfabric{};                   // null: not queried
  // "availability zone", "vpc", "subnet", "placement group", "partition" on EC2.
  std::map<std::string, std::string> placement{};
  std::optional<std::vector<Xid>> xids{};  // by last occurrence; null: the kernel's log could not be read
  ProcessLimits limits{};
  double discovery_s = 0;  // duration of the discovery
  // "nccl": GPUs are those of a job, and NICs are NCCL's devices, which may be several NICs each; "": the machine's.
  std::string seen_by = {};
};

// The kernel modules that matter here: "efa", "gdrdrv", "nvidia_peermem", ...
const std::vector<std::string>& interesting_modules();

// The variables that shape NCCL, its plugins and libfabric, as reports keep them (bench/base/environment.hpp).
struct JobSettings {
  std::map<std::string, std::string> variables;
  std::vector<std::string> dangling;  // names of those whose value is a path where nothing is
};

struct Topology {
  std::string provenance = "discovered";  // discovered, synthetic, imported, recorded: not this machine
  std::string platform;                   // name of a platform file, "" when none matches
  std::vector<Host> hosts;
  std::vector<int> host_of_rank;
  std::vector<int> gpus_seen_of_rank = {};    // GPUs that each rank's process may use; empty if no rank was queried
  std::vector<std::string> gpu_of_rank = {};  // UUIDs; empty where no rank has a GPU
  // Names of the NICs that each rank can use one by one, "" for one that its host lacks; empty if no rank was queried.
  std::vector<std::vector<std::string>> nics_of_rank = {};
  std::optional<JobSettings> settings = {};  // rank 0's; null: irrelevant or unknown
  std::string taken = {};                    // time in UTC, "2026-11-20T12:00:00Z"; "": unknown
};

// False if the driver does not report the NVLink fabric of the GPU, or of any GPU of the host. A missing clique is then
// not an error.
bool is_clique_known(const Gpu& gpu);
bool is_clique_known(const Host& host);
// The NVLink clique of each host, from 0 in order of their first host. Hosts share one if all GPUs of
// both whose fabric the driver reports have the same cluster and clique; other hosts are cliques of their own.
std::vector<int> cliques_of_hosts(const Topology& topology);
// The variable that keeps NCCL from using NVLink between hosts, "NCCL_MNNVL_ENABLE=0"; "": none.
std::string variable_that_disables_domains(const Topology& topology);
// The NVLink domain of each host: its clique, or the host alone where such a variable is set.
std::vector<int> domains_of_hosts(const Topology& topology);
// The same by rank.
std::vector<int> domains_of_ranks(const Topology& topology);

// Name that this process gives its node; cheap, because nothing else is discovered.
struct HostName {
  std::string name;
  bool pretended = false;
};
HostName host_name();

// The boot id of the kernel whose files lie below `root`; "": unknown.
std::string kernel_boot_id(const std::string& root = "");

// The settings that shape the transport in an environment.
JobSettings job_settings(const Environment& environment);

// Sources to query on a live host besides its files.
struct NvmlAnswer;

struct Probes {
  std::string nvml, libfabric;       // paths of the probe programs; "": not queried
  bool metadata = false;             // EC2's instance metadata, for at most a second, and only on an EC2 instance
  Seconds limit{20};                 // time limit of a probe, because a driver may hang
  const NvmlAnswer* told = nullptr;  // NVML's answer, if this process has it already: asking 8 GPUs takes a second
  // The environment of the job's processes on this host, by which its libraries are searched for; absent: that of this
  // process.
  std::optional<Environment> environment{};
};

// NVML's report through its probe alone: uses no thread and takes little more than the limit.
struct NvmlAnswer {
  std::string driver, cuda, problem;
  bool asked = true;      // false: the probe could not be started, had no threads to query NVML, or is of another build
  bool answered = false;  // within the limit, even if only to report that there is no driver
  std::vector<Gpu> gpus;
};
NvmlAnswer ask_nvml(const std::string& program, Seconds limit);

// Everything about this host, from hwloc, /proc, /sys, DMI and the probes, which run beside each other. Never fails for
// what is missing: the fact is then absent.
Host discover_host(const Probes& probes);

// A host whose files were copied below `root`, which is prepended to /proc, /sys, /etc and /opt.
Host discover_host(const std::string& root);

// A host as hwloc's XML shows it: processors, and the PCI devices and NICs that hwloc kept. `name` stands where the XML
// has none. Throws UsageError.
Host host_from_hwloc_xml(const std::string& text, const std::string& name);

// The host, or the hosts that NVLink joins, as NCCL itself writes them (NCCL_TOPO_DUMP_FILE): the GPUs and NICs of its
// job, with their links. `name` is the host's, which the file has not; of several NAME-1, NAME-2, ... In a file that
// NCCL reads (NCCL_TOPO_FILE), GPUs and NICs are told by their PCI class, and a NIC's name is its address. Throws
// UsageError.
bool is_nccl_xml(std::string_view text);
Topology topology_from_nccl_xml(std::string_view xml, const std::string& name);

bool has_efa(const Host& host);
// The NICs that carry a job's traffic between hosts: EFA, else InfiniBand. None where the host has faster Ethernet
// ports with RDMA than all its InfiniBand ports together: these then serve storage, or manage a board's NVSwitches.
std::vector<const Nic*> nics_of_fabric(const Host& host);
// The NICs that may carry a job's traffic by RDMA: those of the fabric, else Ethernet ports with verbs (RoCE).
std::vector<const Nic*> nics_with_rdma(const Host& host);

// Names of each host's NICs of the fabric (EFA, else InfiniBand), so that an index means corresponding NICs on all
// hosts. The order is that of the PCI addresses (of names where those are unknown) of the first host with the most
// NICs. "" means that the host has no NIC there; NICs at other addresses fill the remaining places in order. NICs that
// this job cannot open, while it can open others of the host, have no place.
std::vector<std::vector<std::string>> nics_by_place(const std::vector<Host>& hosts);

// Sets each GPU's rails: the NICs of the fabric nearest to it on PCIe, or by NUMA node where PCIe does not decide.
void find_rails(Host& host);

// hwloc's own XML of this machine, for topology.xml.
std::string hwloc_xml();

// A made-up machine of `nodes` hosts "n0", "n1", ... with one rank per GPU.
struct Platform;
Topology synthetic(const Platform& platform, int nodes);

// Remedy where a program is missing or of another build.
inline constexpr std::string_view beside_each_other = "the programs of p5bench have to be installed beside each other";

// The output of another program, if of this build. Throws not_of_this_build().
UsageError not_of_this_build(std::string_view what, const char* why);
nlohmann::json parse_output(std::string_view what, std::string_view text);

nlohmann::json to_json(const GpuState& state);
GpuState gpu_state_from_json(const nlohmann::json& j);
nlohmann::json to_json(const Gpu& gpu);
nlohmann::json to_json(const Libfabric& libfabric);
Libfabric libfabric_from_json(const nlohmann::json& j);
NvmlAnswer nvml_answer_from_json(const nlohmann::json& j);
nlohmann::json to_json(const Host& host);
Host host_from_json(const nlohmann::json& j);
nlohmann::json to_json(const Topology& topology);
Topology topology_from_json(const nlohmann::json& j);

}  // namespace p5::topo
