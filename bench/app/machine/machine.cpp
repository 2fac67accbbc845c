#include "bench/app/machine/machine.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <map>

#include <fmt/format.h>

#include "bench/app/machine/backends.hpp"
#include "bench/app/machine/cluster.hpp"
#include "bench/app/machine/own_gpus.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/app/variables.hpp"
#include "bench/backends/backends.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/wire.hpp"

namespace p5 {

namespace {

// Of the first host, which the leader knows.
const topo::Platform* agree_on_platform(ControlPlane& control, const Options& options, const topo::Topology& topology) {
  if (!options.platform.empty()) return &topo::find_platform(options.platform);
  const topo::Platform* const found =
      control.is_leader() && !topology.hosts.empty() ? topo::platform_of(topology.hosts.front()) : nullptr;
  return topo::platform_of_instance_type(control.broadcast(found ? found->name : ""));
}

void refuse_unknown_nics(const Options& options, const topo::Platform& platform) {
  if (options.nodes < 2 || platform.nics > 0) return;
  const topo::Conflict* const conflict = platform.conflict_about("nics");
  throw UsageError(
      fmt::format("--nodes {}: the NICs of {} are not known{}; simulate one node of it, or another platform",
                  options.nodes, platform.name, conflict ? " (" + conflict->text + ")" : ""));
}

void go_idle(Machine& machine, std::string why, ExitCode code) {
  machine.backend = make_idle_backend();
  machine.why_idle = std::move(why);
  machine.code_of_idle = code;
}

bool allowed(std::string_view variable) {
  constexpr std::array prefixes{"NCCL_", "FI_", "OFI_NCCL_", "OMPI_MCA_", "UCX_", "PMIX_MCA_"};
  constexpr std::array names{"LD_LIBRARY_PATH",    "CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID",
                             "SLURM_CLUSTER_NAME", "SLURM_JOB_PARTITION",  "OMP_NUM_THREADS"};
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return variable.starts_with(prefix); }) ||
         std::ranges::find(names, variable) != names.end();
}

}  // namespace

topo::Probes probes_for(const Options& options) {
  constexpr double share_of_check = 0.25;
  const Seconds longest = options.checks() ? Seconds{options.limit.count * share_of_check} : topo::Probes{}.limit;
  return {.nvml = file_of_ours("p5bench-probe-nvml"),
          .libfabric = file_of_ours("p5bench-probe-libfabric"),
          .metadata = options.platform.empty(),
          .limit = duration_variable("P5BENCH_PROBE_LIMIT").value_or(longest)};
}

Machine find_machine(ControlPlane& control, const Options& options, std::uint64_t seed, const OwnGpus* own) {
  Machine machine;
  const BackendInfo& backend = choose_backend(control, options);
  machine.backend_name = backend.name;
  if (backend.simulated()) {
    machine.platform = &topo::find_platform(options.platform);
    refuse_unknown_nics(options, *machine.platform);
    machine.topology = topo::synthetic(*machine.platform, options.nodes);
  } else {
    machine.topology = discover_cluster(control, probes_for(options));
    machine.platform = agree_on_platform(control, options, machine.topology);
    machine.topology.platform = machine.platform ? machine.platform->name : "";
    if (!backend.tunable) machine.topology.settings.reset();  // they concern NCCL
  }
  if (own && own->usable.empty()) {
    go_idle(machine, own->why_none, own->code_of_none);
    return machine;
  }
  try {
    make_backend(control, options, seed, machine);
  } catch (const EnvironmentError& problem) {  // the same on all ranks
    if (!options.checks()) throw;
    go_idle(machine, problem.what(), ExitCode::environment);
  }
  return machine;
}

JobFacts job_facts(const Machine& machine, std::uint64_t seed) {
  JobFacts facts;
  facts.node_of_rank = machine.topology.host_of_rank;
  facts.seed = seed;
  facts.memory_of_rank = machine.memory_of_rank;
  facts.within_nodes = machine.nics_loop_back;
  if (machine.backend_info().parts != BackendInfo::Parts::gpus)
    for (const topo::Host& host : machine.topology.hosts) facts.memory_of_node.push_back(host.memory_available);
  return facts;
}

// What the machine tells of itself counts; the platform file says what cannot be asked.
topo::Limits gpu_limits(const Machine& machine) {
  const BackendInfo& backend = machine.backend_info();
  if (backend.parts == BackendInfo::Parts::hosts) return {};
  topo::Limits limits = backend.simulated() ? topo::Limits{} : link_limits(machine.topology);
  const bool stated = !machine.platform || machine.platform->nics == 0;
  const topo::Limits others = machine.platform ? limits_of(*machine.platform) : topo::Limits{};
  const topo::Limits nics = stated ? nic_limits(machine.topology) : topo::Limits{};
  for (const topo::Limits* more : {&others, &nics})
    for (const topo::Limit& limit : *more)
      if (!find(limits, limit.name, limit.level)) limits.push_back(limit);
  return limits;
}

topo::Limits find_limits(ControlPlane& control, const Machine& machine) {
  const BackendInfo::Parts parts = machine.backend_info().parts;
  if (parts == BackendInfo::Parts::nics) return control.is_leader() ? nic_limits(machine.topology) : topo::Limits{};
  if (parts == BackendInfo::Parts::gpus) {
    if (!control.is_leader()) return {};
    topo::Limits limits = gpu_limits(machine);
    if (machine.platform)
      std::ranges::move(published_limits(*machine.platform, static_cast<int>(machine.topology.hosts.size())),
                        std::back_inserter(limits));
    return limits;
  }
  constexpr Bytes size = MiB(64);
  constexpr Seconds duration{0.15};
  const std::vector<int>& host_of_rank = machine.topology.host_of_rank;
  const auto me = static_cast<std::size_t>(control.participant());
  const bool first = std::ranges::find(host_of_rank, host_of_rank[me]) - host_of_rank.begin() == control.participant();
  control.barrier();
  const std::vector<std::string> together = control.gather(wire::serialize(topo::measure_copy(size, duration).count));
  control.barrier();
  const std::vector<std::string> alone =
      control.gather(wire::serialize(first ? topo::measure_copy(size, duration).count : 0.0));
  topo::Limits limits;
  if (control.is_leader()) {
    std::vector<topo::HostCopy> hosts(machine.topology.hosts.size(), {.one = {}, .all = {}, .ranks = 0});
    for (std::size_t rank = 0; rank < together.size(); ++rank) {
      topo::HostCopy& host = hosts[static_cast<std::size_t>(host_of_rank[rank])];
      host.all.count += wire::deserialize<double>(together[rank]);
      host.one.count += wire::deserialize<double>(alone[rank]);
      ++host.ranks;
    }
    limits = copy_limits(hosts);
    const topo::Limits nics = nic_limits(machine.topology);
    limits.insert(limits.end(), nics.begin(), nics.end());
  }
  return limits;
}

std::map<std::string, std::string> find_context() {
  std::map<std::string, std::string> context;
  for (const auto& [name, value] : recorded(current_environment()))
    if (allowed(name)) context["env." + name] = value;
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
  int length = 0;
  MPI_Get_library_version(version.data(), &length);
  context["mpi"] = std::string(version.data());  // whose length may count its end
  context["compiler"] = __VERSION__;
  return context;
}

}  // namespace p5
