// The machine of a job, agreed among all ranks: the hosts as each rank knows them, limits, the backend under test, and
// for `check` without a launcher the free GPUs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "bench/model/plan.hpp"
#include "reports/gdr.hpp"
#include "topo/finding.hpp"
#include "topo/limits.hpp"
#include "topo/platform.hpp"
#include "topo/topology.hpp"

namespace p5 {

// The GPUs of this host that a job without a launcher may use: visible to this process and without other processes.
// Determined before the job starts.
struct OwnGpus {
  std::vector<std::string> usable;   // UUIDs in NVML's order
  std::vector<std::string> skipped;  // "GPU 3 (in use by pid 123, python)"
  // If no GPU is usable, the reason and the exit code: ok if all are in use, unfinished if the driver does not answer,
  // environment if there are none.
  std::string why_none;
  ExitCode code_of_none = ExitCode::ok;
  topo::NvmlAnswer told = {};  // NVML's answer that this follows from
};

// True for `check` on GPUs without a launcher.
bool finds_own_gpus(const Options& options);

// `visible`: CUDA_VISIBLE_DEVICES, null if not set.
OwnGpus choose_gpus(const topo::NvmlAnswer& told, const char* visible);

// The number of GPUs visible to this process.
int visible_gpus(const std::vector<topo::Gpu>& gpus, const char* visible);

// Queries NVML, for at most a quarter of the limit, and restricts CUDA in this process and its children to the usable
// GPUs. Must be called before any thread starts.
OwnGpus take_own_gpus(const Options& options);

// The sketch of all hosts that each rank gets: 13 bytes per host.
struct ClusterSketch {
  std::vector<std::uint16_t> name_of_host, boot_of_host;  // equal numbers: equal names, or equal boot ids
  std::vector<std::uint8_t> traits_of_host;
  std::vector<std::uint64_t> memory_of_host;  // available bytes
};

void fields(auto& archive, Is<ClusterSketch> auto& sketch) {
  archive.must("name_of_host", sketch.name_of_host);
  archive.must("boot_of_host", sketch.boot_of_host);
  archive.must("traits_of_host", sketch.traits_of_host);
  archive.must("memory_of_host", sketch.memory_of_host);
}

ClusterSketch sketch_of(const std::vector<topo::Host>& hosts);

// Hosts with the facts that all ranks need: same kernel, pretended, fabric, links between GPUs, memory. They have
// neither names nor devices.
std::vector<topo::Host> hosts_from(const ClusterSketch& sketch);

// Collective; the JSON of all ranks in order, at the leader. Bytes that are not UTF-8 are replaced.
std::vector<nlohmann::json> gather_json(ControlPlane& control, const nlohmann::json& mine);

// A rank's machine: the name of its host and the kernel's boot id, "" where that is unknown.
struct MachineOfRank {
  std::string name, boot_id;
};

void fields(auto& archive, Is<MachineOfRank> auto& machine) {
  archive.must("name", machine.name);
  archive.must("boot_id", machine.boot_id);
}

// Number of each rank's host, by name, in order of first ranks. Throws EnvironmentError where one name is that of
// several machines: their ranks would count as ranks of one host.
std::vector<std::uint16_t> hosts_of_ranks(const std::vector<MachineOfRank>& machines);

// Collective; the first rank of each host describes it. The leader gets all; other ranks get hosts_from() with their
// own host's name, and the first rank of a host also its full description. The platform's name is not set. Throws like
// hosts_of_ranks().
topo::Topology discover_cluster(ControlPlane& control, const topo::Probes& probes);

// The settings of libfabric alone, which hold where it is measured without NCCL.
topo::JobSettings settings_of_libfabric(Environment environment);

struct Machine {
  topo::Topology topology;                   // complete at the leader only: see discover_cluster()
  const topo::Platform* platform = nullptr;  // null: unknown instance type
  bool has_one_platform = true;              // false: some hosts are of another kind
  std::string backend_name;
  std::unique_ptr<Backend> backend;
  // NVLink domain of each rank, the same on all ranks; empty: each node is a domain of its own.
  NodeOfRank domain_of_rank;
  bool gpus_alike = false;              // JobFacts::gpus_alike
  std::optional<Bytes> memory_of_rank;  // device memory free for buffers, minimum over ranks
  std::string fullest_device;           // the device with this minimum; "": not known
  std::string why_not_judged;           // reason, if ranks share a GPU; else ""
  std::string why_idle;                 // `check`: the reason that nothing can be measured; else ""
  ExitCode code_of_idle = ExitCode::ok;
  std::map<std::string, std::string> software;  // versions of library and driver, for the report's context
  std::vector<std::string> gpu_of_rank;         // UUIDs; at the leader
  bool nics_loop_back = true;                   // FabricBackend::loops_back
  std::string memory_of_nics;                   // FabricBackend::memory
  reports::GpusOfNics gpus_of_nics;             // FabricBackend::gpus
  std::vector<topo::Finding> findings;          // at the leader

  const BackendInfo& backend_info() const { return find_backend(backend_name); }
};

// The probe programs of a live host, and their time limit.
topo::Probes probes_for(const Options& options);
// The same where workers load the libraries, which are then searched for in their environment. Collective.
topo::Probes probes_of_workers(ControlPlane& control, const Options& options);

// Collective. Discovers the machine, or synthesizes it for sim. `own`: the GPUs of a check without a launcher. A check
// without a working backend continues: the discovered facts show the reason, or that all GPUs are in use.
Machine find_machine(ControlPlane& control, const Options& options, std::uint64_t seed, const OwnGpus* own = nullptr);

// For a check of a machine on which nothing can be measured, for this reason.
void make_idle(Machine& machine, std::string why, ExitCode code);

// On the host that has most.
int ranks_on_host(const Machine& machine);
// Predicted time in which the ranks start and join.
Seconds time_to_start(const Machine& machine);

// True if on each host all pairs of GPUs are joined by as many NVLinks, through switches.
bool are_gpus_alike(const topo::Topology& topology);

JobFacts job_facts(const Machine& machine, std::uint64_t seed);

// Limits of GPUs and NICs, from the machine and its platform file; empty without GPUs.
topo::Limits gpu_limits(const Machine& machine);

// Collective; the result is the leader's. Measures the limits that cannot be looked up (host memory), which takes about
// 0.3 s.
topo::Limits find_limits(ControlPlane& control, const Machine& machine);

// Environment variables of an allow-list, so that secrets are not recorded.
std::map<std::string, std::string> context_of_environment(const Environment& environment);
// Software versions, and those of the environment as NCCL sees it.
std::map<std::string, std::string> find_context();

// ---- Findings that endanger the figures: before the first case, and from the log of the library under test

// Collective; findings of the machine, its settings and settings that differ between ranks, at the leader.
std::vector<topo::Finding> preflight_findings(ControlPlane& control, const Options& options, const Machine& machine);

// A single rank started without a launcher on a host with several visible GPUs.
inline constexpr std::string_view without_launcher = "job.without_mpirun";
std::vector<topo::FindingKind> start_finding_kinds();

// Collective, after the last case; findings in what NCCL and its plugins logged or set at the start, in any arm.
std::vector<topo::Finding> library_log_findings(ControlPlane& control, const Machine& machine,
                                                const std::vector<Arm>& arms);

}  // namespace p5
