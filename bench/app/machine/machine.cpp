#include "bench/app/machine/machine.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "bench/app/machine/backends.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/app/variables.hpp"
#include "bench/backends/backends.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/control/host_tree.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/agreement.hpp"
#include "bench/model/backends.hpp"

namespace p5 {

namespace {

constexpr const char* visible_variable = "CUDA_VISIBLE_DEVICES";

// CUDA's rules: numbers or prefixes of UUIDs; the first entry that matches no GPU ends the list.
bool is_visible(const std::vector<topo::Gpu>& gpus, std::size_t gpu, const char* visible) {
  if (!visible) return true;
  for (const std::string& word : split(visible)) {
    const auto named = std::ranges::find_if(gpus, [&](const topo::Gpu& each) {
      const auto at = static_cast<std::size_t>(&each - gpus.data());
      return word == std::to_string(at) || (word.starts_with("GPU-") && each.uuid.starts_with(word));
    });
    if (named == gpus.end()) return false;
    if (std::cmp_equal(named - gpus.begin(), gpu)) return true;
  }
  return false;
}

// The reason that a GPU cannot be used; else "".
std::string why_not(const topo::Gpu& gpu) {
  if (!gpu.problem.empty()) return gpu.problem;
  if (gpu.uuid.empty()) return "NVML does not report it";
  if (gpu.mig == true) return "in MIG mode";
  if (gpu.compute_mode == "prohibited") return "its compute mode is 'prohibited'";
  if (gpu.processes.value_or(0) == 0) return "";
  if (!gpu.used_by.empty()) return "in use by " + join(gpu.used_by, "; ");
  return fmt::format("in use by {} {}", *gpu.processes, *gpu.processes == 1 ? "process" : "processes");
}

}  // namespace

bool finds_own_gpus(const Options& options) {
  return options.checks() && find_backend(options.backend).on_gpus() && !has_launched_peers();
}

OwnGpus choose_gpus(const topo::NvmlAnswer& told, const char* visible) {
  OwnGpus own;
  bool in_use = false;
  for (std::size_t i = 0; i < told.gpus.size(); ++i) {
    if (!is_visible(told.gpus, i, visible)) continue;
    const topo::Gpu& gpu = told.gpus[i];
    const std::string why = why_not(gpu);
    in_use = in_use || why.starts_with("in use");
    why.empty() ? own.usable.push_back(gpu.uuid) : own.skipped.push_back(fmt::format("GPU {} ({})", i, why));
  }
  if (!own.usable.empty()) return own;
  if (!told.answered) {
    own.why_none = fmt::format("NVML: {}", told.problem);
    own.code_of_none = told.asked ? ExitCode::unfinished : ExitCode::environment;
  } else if (in_use) {
    own.why_none = "no GPU is free";
  } else if (!own.skipped.empty()) {
    own.why_none = "no GPU can be used";
    own.code_of_none = ExitCode::environment;
  } else {
    own.why_none = fmt::format("there is no GPU here{}; --backend mpi, ofi and sim need none",
                               !told.problem.empty() ? fmt::format(" (NVML: {})", told.problem)
                               : visible             ? fmt::format(" ({}={})", visible_variable, visible)
                                                     : "");
    own.code_of_none = ExitCode::environment;
  }
  return own;
}

int visible_gpus(const std::vector<topo::Gpu>& gpus, const char* visible) {
  int count = 0;
  for (std::size_t i = 0; i < gpus.size(); ++i) count += is_visible(gpus, i, visible);
  return count;
}

OwnGpus take_own_gpus(const Options& options) {
  const topo::Probes probes = probes_for(options);
  topo::NvmlAnswer told = topo::ask_nvml(probes.nvml, probes.limit);
  OwnGpus own = choose_gpus(told, std::getenv(visible_variable));
  own.told = std::move(told);
  if (!own.usable.empty()) setenv(visible_variable, join(own.usable, ",").c_str(), /*overwrite=*/1);
  return own;
}

namespace {

using nlohmann::json;

enum HostTrait : std::uint8_t { is_pretended = 1, has_efa = 2, has_infiniband = 4, fabric_is_up = 8, has_links = 16 };

std::uint8_t traits_of(const topo::Host& host) {
  int traits = host.pretended ? is_pretended : 0;
  for (const topo::Nic* const nic : nics_of_fabric(host)) {
    traits |= nic->kind == "efa" ? has_efa : has_infiniband;
    if (nic->state == "up") traits |= fabric_is_up;
  }
  for (const topo::Gpu& gpu : host.gpu_devices)
    if (gpu.links.value_or(0) > 0) traits |= has_links;
  return static_cast<std::uint8_t>(traits);
}

topo::Host host_with(int traits) {
  topo::Host host;
  host.pretended = (traits & is_pretended) != 0;
  for (const auto& [trait, kind] : {std::pair{has_efa, "efa"}, std::pair{has_infiniband, "infiniband"}}) {
    if ((traits & trait) == 0) continue;
    topo::Nic& nic = host.nics.emplace_back();
    nic.kind = kind;
    if (traits & fabric_is_up) nic.state = "up";
  }
  if (traits & has_links) host.gpu_devices.emplace_back().links = 1;
  return host;
}

template <class Member>
std::vector<std::uint16_t> numbers_of(const std::vector<topo::Host>& hosts, Member member) {
  std::vector<std::string> texts;
  for (const topo::Host& host : hosts) texts.push_back(host.*member);
  const std::vector<int> numbers = number_hosts(texts);
  return {numbers.begin(), numbers.end()};
}

}  // namespace

ClusterSketch sketch_of(const std::vector<topo::Host>& hosts) {
  ClusterSketch sketch;
  sketch.name_of_host = numbers_of(hosts, &topo::Host::host_name);
  sketch.boot_of_host = numbers_of(hosts, &topo::Host::boot_id);
  for (const topo::Host& host : hosts) {
    sketch.traits_of_host.push_back(traits_of(host));
    sketch.memory_of_host.push_back(host.memory_available.count);
  }
  return sketch;
}

std::vector<topo::Host> hosts_from(const ClusterSketch& sketch) {
  std::vector<topo::Host> hosts;
  for (std::size_t at = 0; at < sketch.traits_of_host.size(); ++at) {
    topo::Host& host = hosts.emplace_back(host_with(sketch.traits_of_host[at]));
    host.host_name = std::to_string(sketch.name_of_host.at(at));
    host.boot_id = std::to_string(sketch.boot_of_host.at(at));
    host.memory_available = Bytes{sketch.memory_of_host.at(at)};
  }
  return hosts;
}

std::vector<json> gather_json(ControlPlane& control, const json& mine) {
  std::vector<json> all;
  for (const std::string& text : control.gather(mine.dump(-1, ' ', true, json::error_handler_t::replace)))
    all.push_back(json::parse(text));
  return all;
}

std::vector<std::uint16_t> hosts_of_ranks(const std::vector<MachineOfRank>& machines) {
  std::vector<std::string> names;
  std::map<std::string, std::size_t> first_of_name;  // the first rank whose boot id is known
  for (std::size_t rank = 0; rank < machines.size(); ++rank) {
    const auto& [name, boot_id] = machines[rank];
    names.push_back(name);
    if (boot_id.empty()) continue;
    const std::size_t first = first_of_name.try_emplace(name, rank).first->second;
    if (machines[first].boot_id != boot_id)
      throw EnvironmentError(fmt::format(
          "ranks {} and {} are on different machines (by boot id) that both call themselves '{}', and would count as "
          "ranks of one node: give every machine its own host name, or set a different NCCL_HOSTID on each",
          first, rank, printable(name)));
  }
  const std::vector<int> numbers = number_hosts(names);
  return {numbers.begin(), numbers.end()};
}

topo::Topology discover_cluster(ControlPlane& control, const topo::Probes& probes) {
  const std::string name = topo::host_name().name;
  const auto host_of_rank = agree(
      control,
      [&] {
        return MachineOfRank{name, topo::kernel_boot_id()};
      },
      hosts_of_ranks);
  topo::Topology topology;
  topology.host_of_rank.assign(host_of_rank.begin(), host_of_rank.end());
  const bool first = is_first_on_host(control, topology);
  topo::Host host;
  if (first) host = topo::discover_host(probes);
  const std::vector<json> described = gather_json(control, first ? to_json(host) : json());
  topology.taken = utc_now();
  if (control.is_leader()) {
    topology.settings = topo::job_settings(environment_of_nccl(current_environment(), read_file));
    for (const json& each : described)
      if (!each.is_null()) topology.hosts.push_back(topo::host_from_json(each));
  }
  const ClusterSketch sketch = shared_by_leader(control, sketch_of(topology.hosts));
  if (control.is_leader()) return topology;
  topology.hosts = hosts_from(sketch);
  topo::Host& own = topology.hosts.at(host_of_rank[static_cast<std::size_t>(control.participant())]);
  own.name = name;
  if (!first) return topology;
  // The sketch names hosts by number, so this host needs its number to compare with others.
  host.host_name = own.host_name;
  host.boot_id = own.boot_id;
  own = std::move(host);
  return topology;
}

namespace {

// The platform that is named, else that of most hosts.
const topo::Platform* agree_on_platform(ControlPlane& control, const Options& options, const topo::Topology& topology) {
  return topo::platform_of_instance_type(from_leader(control, [&] {
    if (!options.platform.empty()) return topo::platform_named_for(topology, options.platform).name;
    const topo::Platform* const found = topo::platform_of_most(topology.hosts);
    return found ? found->name : std::string();
  }));
}

void refuse_unknown_nics(const Options& options, const topo::Platform& platform) {
  if (options.nodes <= platform.nodes_per_domain || platform.simulated_nics > 0) return;
  const topo::Conflict* const conflict = platform.conflict_about("nics");
  throw UsageError(
      fmt::format("--nodes {}: the NICs of {} are not known{}; simulate one node of it, or another platform",
                  options.nodes, platform.name, conflict ? " (" + conflict->text + ")" : ""));
}

// The backend of a machine with nothing to measure: it performs nothing, so no case is opened.
class IdleBackend final : public Backend {
 public:
  std::unique_ptr<Session> open(const Case&, int) override { throw std::logic_error("an idle backend opens nothing"); }
  Bytes memory_per_rank(const Case&) const override { return {}; }
  CostModel cost() const override { return {}; }
  bool performs(const Collective&) const override { return false; }
  bool recovers() const override { return true; }
  bool joined() const override { return false; }
};

// Domains of ranks, if one has several hosts; else empty.
NodeOfRank wide_domains(const topo::Topology& topology) {
  NodeOfRank domains = domains_of_ranks(topology);
  return count_nodes(domains) == count_nodes(topology.host_of_rank) ? NodeOfRank() : domains;
}

bool allowed(std::string_view variable) {
  constexpr std::array prefixes{"OMPI_MCA_", "UCX_", "PMIX_MCA_"};
  constexpr std::array names{"CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "SLURM_CLUSTER_NAME", "SLURM_JOB_PARTITION",
                             "OMP_NUM_THREADS"};
  return changes_library(variable) ||
         std::ranges::any_of(prefixes, [&](std::string_view prefix) { return variable.starts_with(prefix); }) ||
         std::ranges::find(names, variable) != names.end();
}

}  // namespace

void make_idle(Machine& machine, std::string why, ExitCode code) {
  machine.backend = std::make_unique<IdleBackend>();
  machine.why_idle = std::move(why);
  machine.code_of_idle = code;
}

topo::Probes probes_for(const Options& options) {
  constexpr double share_of_check = 0.25;
  const Seconds longest = options.checks() ? Seconds{options.limit.count * share_of_check} : topo::Probes{}.limit;
  return {.nvml = file_of_ours("p5bench-probe-nvml"),
          .libfabric = file_of_ours("p5bench-probe-libfabric"),
          .metadata = options.platform.empty(),
          .limit = duration_variable("P5BENCH_PROBE_LIMIT").value_or(longest)};
}

topo::JobSettings settings_of_libfabric(Environment environment) {
  std::erase_if(environment, [](const auto& variable) {
    return !variable.first.starts_with("FI_") && !variable.first.starts_with("RDMAV_");
  });
  return topo::job_settings(environment);
}

topo::Probes probes_of_workers(ControlPlane& control, const Options& options) {
  topo::Probes probes = probes_for(options);
  probes.environment = environment_of_nccl(environment_of_workers(control, options), read_file);
  return probes;
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
    topo::Probes probes =
        backend.ranks == BackendInfo::Ranks::workers ? probes_of_workers(control, options) : probes_for(options);
    if (own && own->told.answered) probes.told = &own->told;
    machine.topology = discover_cluster(control, probes);
    machine.platform = agree_on_platform(control, options, machine.topology);
    machine.topology.platform = machine.platform ? machine.platform->name : "";
    // Only the leader knows the GPUs of other hosts.
    machine.has_one_platform = from_leader(control, [&] { return topo::has_one_platform(machine.topology); });
    machine.domain_of_rank = from_leader(control, [&] { return wide_domains(machine.topology); });
    machine.gpus_alike = from_leader(control, [&] { return are_gpus_alike(machine.topology); });
    std::optional<topo::JobSettings>& settings = machine.topology.settings;
    if (settings && backend.parts == BackendInfo::Parts::nics)
      settings = settings_of_libfabric(current_environment());
    else if (!backend.tunable)
      settings.reset();  // NCCL's settings
  }
  if (own && own->usable.empty()) {
    make_idle(machine, own->why_none, own->code_of_none);
    return machine;
  }
  try {
    make_backend(control, options, seed, machine);
    if (backend.simulated()) {  // whose faults change the topology
      machine.domain_of_rank = wide_domains(machine.topology);
      machine.gpus_alike = are_gpus_alike(machine.topology);
    }
  } catch (const EnvironmentError& problem) {  // same on all ranks
    if (!options.checks()) throw;
    make_idle(machine, problem.what(), ExitCode::environment);
  }
  return machine;
}

int ranks_on_host(const Machine& machine) { return turns_on_hosts(machine.topology.host_of_rank); }

Seconds time_to_start(const Machine& machine) { return machine.backend_info().time_to_start(ranks_on_host(machine)); }

bool are_gpus_alike(const topo::Topology& topology) {
  const std::vector<const topo::Platform*> platforms = topo::platforms_of_hosts(topology);
  return std::ranges::all_of(topology.hosts, [&](const topo::Host& host) {
    const topo::Platform* const platform = platforms[static_cast<std::size_t>(&host - topology.hosts.data())];
    if (host.gpu_devices.empty()) return false;
    const topo::Gpu& first = host.gpu_devices.front();
    return std::ranges::all_of(host.gpu_devices, [&](const topo::Gpu& gpu) {
      const auto leads_to_switch = [](const topo::NvLink& link) {
        return link.active == false || link.remote == "switch";
      };
      const bool switched = (platform && platform->nvswitch) ||
                            (!gpu.nvlinks.empty() && std::ranges::all_of(gpu.nvlinks, leads_to_switch));
      return gpu.name == first.name && gpu.links && gpu.links == first.links && *gpu.links > 0 && switched;
    });
  });
}

JobFacts job_facts(const Machine& machine, std::uint64_t seed) {
  JobFacts facts;
  facts.node_of_rank = machine.topology.host_of_rank;
  if (machine.backend_info().parts == BackendInfo::Parts::gpus) facts.domain_of_rank = machine.domain_of_rank;
  facts.seed = seed;
  facts.memory_of_rank = machine.memory_of_rank;
  if (!machine.fullest_device.empty()) facts.fullest_device = machine.fullest_device;
  facts.within_nodes = machine.nics_loop_back;
  facts.gpus_alike = machine.gpus_alike;
  if (machine.backend_info().parts != BackendInfo::Parts::gpus)
    for (const topo::Host& host : machine.topology.hosts) facts.memory_of_node.push_back(host.memory_available);
  return facts;
}

// Measured properties of the machine take precedence over the platform file, which has no limits of hosts of several
// platforms.
topo::Limits gpu_limits(const Machine& machine) {
  const BackendInfo& backend = machine.backend_info();
  if (backend.parts == BackendInfo::Parts::hosts) return {};
  topo::Limits limits = backend.simulated() ? topo::Limits{} : link_limits(machine.topology);
  const topo::Platform* const platform = machine.has_one_platform ? machine.platform : nullptr;
  const bool stated = !platform || platform->nics == 0;
  const topo::Limits others = platform ? limits_of(*platform) : topo::Limits{};
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
    if (machine.platform && machine.has_one_platform)
      std::ranges::move(published_limits(*machine.platform, static_cast<int>(machine.topology.hosts.size())),
                        std::back_inserter(limits));
    return limits;
  }
  // Tests of right data, which set P5BENCH_MOST_SAMPLES, need no rate: writing 128 MiB takes longer than such a run.
  const bool few_samples = count_variable("P5BENCH_MOST_SAMPLES").has_value();
  const Bytes size = few_samples ? MiB(4) : MiB(64);
  const Seconds duration{few_samples ? 0 : 0.15};
  const std::vector<int>& host_of_rank = machine.topology.host_of_rank;
  const bool first = is_first_on_host(control, machine.topology);
  control.barrier();
  const std::vector<double> together = gather_at_leader(control, topo::measure_copy(size, duration).count);
  control.barrier();
  const std::vector<double> alone = gather_at_leader(control, first ? topo::measure_copy(size, duration).count : 0.0);
  topo::Limits limits;
  if (control.is_leader()) {
    std::vector<topo::HostCopy> hosts(machine.topology.hosts.size(), {.one = {}, .all = {}, .ranks = 0});
    for (std::size_t rank = 0; rank < together.size(); ++rank) {
      topo::HostCopy& host = hosts[static_cast<std::size_t>(host_of_rank[rank])];
      host.all.count += together[rank];
      host.one.count += alone[rank];
      ++host.ranks;
    }
    limits = copy_limits(hosts);
    const topo::Limits nics = nic_limits(machine.topology);
    limits.insert(limits.end(), nics.begin(), nics.end());
  }
  return limits;
}

std::map<std::string, std::string> context_of_environment(const Environment& environment) {
  std::map<std::string, std::string> context;
  for (const auto& [name, value] : recorded(environment))
    if (allowed(name)) context["env." + name] = value;
  return context;
}

std::map<std::string, std::string> find_context() {
  std::map<std::string, std::string> context =
      context_of_environment(environment_of_nccl(current_environment(), read_file));
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
  int length = 0;
  MPI_Get_library_version(version.data(), &length);
  context["mpi"] = std::string(version.data());  // some MPIs include the terminator in the length
  context["compiler"] = __VERSION__;
  return context;
}

}  // namespace p5
