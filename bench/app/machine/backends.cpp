#include "bench/app/machine/backends.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/app/machine/fabric.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/backends/backends.hpp"
#include "bench/backends/worker.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "bench/model/agreement.hpp"
#include "reports/judge.hpp"
#include "reports/local_checks.hpp"
#include "topo/discover.hpp"
#include "topo/system_files.hpp"

namespace p5 {

namespace {

using nlohmann::json;

constexpr const char* program = "p5bench-worker-nccl";

// The GPUs of a host that CUDA does not show its ranks, which see `seen`, and the findings that say why; "" if it shows
// all.
std::string about_missing_gpus(const topo::Topology& topology, const topo::Host& host, int seen) {
  const std::size_t gpus = std::max(static_cast<std::size_t>(std::max(host.gpus, 0)), host.gpu_devices.size());
  if (std::cmp_greater_equal(seen, gpus)) return "";
  constexpr std::array why{"gpu.lost", "gpu.mig", "gpu.compute_mode", "gpu.unseen", "gpu.count"};
  std::vector<std::string> causes;
  for (const topo::Finding& finding : topo::look(topology))
    if (finding.subject.host == host.name && std::ranges::find(why, finding.id) != why.end())
      causes.push_back(fmt::format("{}: {}", finding.id, finding.evidence));
  return fmt::format(
      "{} has {} GPUs, of which CUDA shows its ranks {} ({}): leave it out, or ", host.name, gpus, seen,
      causes.empty() ? "see CUDA_VISIBLE_DEVICES, and the devices of the container" : join(causes, "; "));
}

}  // namespace

int max_ranks_per_gpu(const std::vector<protocol::Identity>& identities, const topo::Topology& topology, bool allowed) {
  int most = 1;
  std::map<std::string, std::vector<std::size_t>> ranks_of;
  for (std::size_t rank = 0; rank < identities.size(); ++rank) ranks_of[identities[rank].device_uuid].push_back(rank);
  for (const auto& [uuid, ranks] : ranks_of) {
    most = std::max(most, static_cast<int>(ranks.size()));
    if (ranks.size() < 2 || allowed) continue;
    const topo::Host& host = host_of_rank(topology, ranks[0]);
    const protocol::Identity& identity = identities[ranks[0]];
    throw EnvironmentError(fmt::format(
        "ranks {} and {} on {} have the same GPU ({}, {}): {}start one rank per GPU, or, for figures that are not to "
        "be judged, give --allow-shared-gpu and each of its ranks an NCCL_HOSTID of its own",
        ranks[0], ranks[1], host.name, identity.device_name, uuid,
        about_missing_gpus(topology, host, identity.visible_devices)));
  }
  return most;
}

namespace {

// The address of NCCL's RAS service in the workers, unless the user has set one.
std::string choose_ras_address(Environment& changes) {
  const std::string chosen = value_or_empty(with_changes(current_environment(), changes), ras_variable);
  if (!chosen.empty()) return chosen;
  return changes[ras_variable] = ras_address;
}

std::vector<protocol::Identity>::const_iterator fullest_of(const std::vector<protocol::Identity>& identities) {
  return std::ranges::min_element(identities, {}, &protocol::Identity::free_memory);
}

// Names of problems that are no problem of all ranks: of the worker's device, a worker that ended, and one that does
// not answer.
constexpr const char *device_problem = "device_problem", *loss = "loss", *silence = "silence";

std::string as_answer(const char* kind, const CaseError& problem) {
  return json{{kind, problem.what()}}.dump(-1, ' ', true, json::error_handler_t::replace);
}

// The worker's identity as JSON, or such a problem.
std::string identity_or_problem(WorkerBackend& backend) try {
  return identify(backend);
} catch (const LostError& problem) {
  return as_answer(loss, problem);
} catch (const StalledError& problem) {
  return as_answer(silence, problem);
} catch (const CaseError& problem) {
  if (!is_of_device(problem.what())) throw;
  return as_answer(device_problem, problem);
}

// By rank; "" without one.
std::vector<std::string> problems_in(const std::vector<std::string>& answers, const char* kind) {
  std::vector<std::string> problems;
  for (const std::string& each : answers) problems.push_back(json::parse(each).value(kind, ""));
  return problems;
}

bool has_one_of(const std::string& problem, std::span<const char* const> errors) {
  return std::ranges::any_of(errors, [&](const char* name) { return problem.find(name) != std::string::npos; });
}

// Errors that no program, driver or container causes.
constexpr std::array errors_of_hardware{"cudaErrorECCUncorrectable", "cudaErrorNvlinkUncorrectable"};

}  // namespace

void refuse_failed_starts(const std::vector<std::string>& of_ranks) {
  const auto first = std::ranges::find_if_not(of_ranks, &std::string::empty);
  if (first == of_ranks.end()) return;
  const auto others = std::ranges::count_if(first + 1, of_ranks.end(), [](const auto& each) { return !each.empty(); });
  const bool all_fail = std::ranges::find(of_ranks, "") == of_ranks.end();
  std::string_view remedy = remedy_for_loader(*first);
  if (remedy.empty())
    remedy = all_fail ? "no worker starts: look at the driver and the GPUs (nvidia-smi, dmesg), and at the libraries "
                        "and variables of the job"
                      : "look at that host's GPUs (nvidia-smi, dmesg), or run again without it";
  throw EnvironmentError(fmt::format("rank {}{}: {}; {}", first - of_ranks.begin(),
                                     others > 0 ? fmt::format(" and {} more", others) : "", *first, remedy));
}

bool is_of_device(const std::string& problem) {
  constexpr std::array others{"cudaErrorHardwareStackError", "cudaErrorContained", "cudaErrorLaunchFailure"};
  return has_one_of(problem, errors_of_hardware) || has_one_of(problem, others);
}

std::vector<topo::Finding> failed_gpus(const topo::Topology& topology, const std::vector<std::string>& problems,
                                       const char* visible, const std::set<std::size_t>& unanswered) {
  reports::Report known;
  known.topology = topology;
  known.topology.gpu_of_rank.clear();
  if (topology.hosts.size() == 1 && visible) known.topology.gpu_of_rank = split(visible);
  if (known.topology.gpu_of_rank.size() != problems.size()) known.topology.gpu_of_rank.clear();
  const auto works_there = [&](int host) {
    for (std::size_t rank = 0; rank < problems.size(); ++rank)
      if (topology.host_of_rank.at(rank) == host && problems[rank].empty() && !unanswered.contains(rank)) return true;
    return false;
  };
  std::vector<topo::Finding> findings;
  for (std::size_t rank = 0; rank < problems.size(); ++rank)
    if (!problems[rank].empty() &&
        (has_one_of(problems[rank], errors_of_hardware) || works_there(topology.host_of_rank.at(rank))))
      findings.push_back(reports::failed_check(known, static_cast<int>(rank), problems[rank]));
  return findings;
}

std::string describe_fullest_device(const std::vector<protocol::Identity>& identities, const topo::Topology& topology) {
  const auto fullest = fullest_of(identities);
  const auto rank = fullest - identities.begin();
  const std::vector<topo::Gpu>& gpus = host_of_rank(topology, static_cast<std::size_t>(rank)).gpu_devices;
  const auto gpu = std::ranges::find(gpus, fullest->device_uuid, &topo::Gpu::uuid);
  const auto text = [](std::uint64_t bytes) { return to_rounded_text(static_cast<double>(bytes)); };
  return fmt::format("{} ({}) of {}, which has {} of {} free",
                     gpu == gpus.end() ? "the GPU" : fmt::format("GPU {}", gpu - gpus.begin()), fullest->device_uuid,
                     reports::name_of_rank(topology, static_cast<int>(rank)), text(fullest->free_memory),
                     text(fullest->total_memory));
}

std::vector<topo::Finding> unanswered_ranks(const topo::Topology& topology, const std::vector<std::string>& silences,
                                            const std::vector<std::string>& losses) {
  reports::Report known;
  known.topology = topology;
  known.topology.gpu_of_rank.clear();
  const bool some_start = std::ranges::find(losses, "") != losses.end();
  std::vector<topo::Finding> findings;
  for (std::size_t rank = 0; rank < silences.size(); ++rank) {
    const auto add = [&](const std::string& what) -> topo::Finding& {
      return findings.emplace_back(reports::unanswered_check(known, static_cast<int>(rank), what));
    };
    if (!silences[rank].empty())
      add(silences[rank]).action =
          "check whether nvidia-smi answers there; if it hangs too, reboot or replace the instance";
    if (!losses[rank].empty() && some_start) add(losses[rank]);
  }
  return findings;
}

std::string why_no_gpus() {
  const std::string worker = file_of_ours(program);
  if (!topo::present(worker)) return fmt::format("there is no '{}'", worker);
  // Without a driver the file counts on a machine that has a GPU, whose driver is then to be mended.
  const char* const device = "/dev/nvidiactl";
  const bool may = topo::has_driver(device) || (topo::present(device) && !topo::discover_pci("/").gpus.empty());
  return may ? "" : fmt::format("there is no driver of GPUs ({})", device);
}

namespace {

// Collective; starts a worker for each rank. Throws EnvironmentError naming the rank and host whose worker has no GPU,
// shares a GPU (unless allowed), or has a library of another version than rank 0's. Adds the leader's findings, of a
// check also those of failed_gpus() and unanswered_ranks().
void make_nccl(ControlPlane& control, const Options& options, std::uint64_t, Machine& machine) {
  const topo::Topology& topology = machine.topology;
  std::vector<topo::Finding>& findings = machine.findings;
  WorkerOptions worker = worker_options(control, options, topology, program,
                                        "this build found no CUDA toolkit or no NCCL; install them and build again");
  findings = name_interfaces_for_nccl(control, topology, worker.environment);
  const std::string interfaces = value_or_empty(worker.environment, "NCCL_SOCKET_IFNAME");
  worker.ras = choose_ras_address(worker.environment);
  auto backend = std::make_unique<WorkerBackend>(control, std::move(worker));
  const auto decide = [&](const std::vector<std::string>& texts) {
    const std::vector<std::string> problems = problems_in(texts, device_problem),
                                   silences = problems_in(texts, silence), losses = problems_in(texts, loss);
    if (options.checks()) {
      std::set<std::size_t> unanswered;
      for (std::size_t rank = 0; rank < texts.size(); ++rank)
        if (!silences[rank].empty() || !losses[rank].empty()) unanswered.insert(rank);
      std::ranges::move(failed_gpus(topology, problems, std::getenv("CUDA_VISIBLE_DEVICES"), unanswered),
                        std::back_inserter(findings));
      std::ranges::move(unanswered_ranks(topology, silences, losses), std::back_inserter(findings));
    }
    for (const std::vector<std::string>* const each : {&losses, &problems, &silences}) refuse_failed_starts(*each);
    const std::vector<protocol::Identity> identities = identities_from(texts, topology);
    const int most_ranks = max_ranks_per_gpu(identities, topology, options.allow_shared_gpu);
    for (const protocol::Identity& each : identities) {
      machine.gpu_of_rank.push_back(each.device_uuid);
      machine.topology.gpus_seen_of_rank.push_back(each.visible_devices);
    }
    return json{{"most_ranks", most_ranks},
                {"memory", fullest_of(identities)->free_memory},
                {"fullest_device", describe_fullest_device(identities, topology)},
                {"first", protocol::to_json(identities.front())}}
        .dump();
  };
  const json agreed = json::parse(agree(
      control, [&] { return identity_or_problem(*backend); }, decide));
  const int most_ranks = agreed.at("most_ranks");
  backend->share_device(most_ranks);
  machine.memory_of_rank =
      Bytes{WorkerBackend::usable({agreed.at("memory")}).count / static_cast<std::uint64_t>(most_ranks)};
  machine.fullest_device = agreed.at("fullest_device");
  if (most_ranks > 1) machine.why_not_judged = fmt::format("up to {} ranks share a GPU", most_ranks);
  const protocol::Identity first = protocol::identity_from_json(agreed.at("first"));
  machine.software = {{"gpu", first.device_name},
                      {"nccl", first.library},
                      {"nccl.path", first.library_path},
                      {"cuda.driver", first.driver},
                      {"cuda.runtime", first.runtime}};
  if (!interfaces.empty()) machine.software["workers.NCCL_SOCKET_IFNAME"] = interfaces;
  machine.backend = std::move(backend);
  machine.topology.gpu_of_rank = machine.gpu_of_rank;
}

void make_mpi(ControlPlane&, const Options&, std::uint64_t, Machine& machine) { machine.backend = make_mpi_backend(); }

void make_ofi(ControlPlane& control, const Options& options, std::uint64_t, Machine& machine) {
  FabricBackend made = make_fabric_backend(control, options, machine.topology);
  machine.backend = std::move(made.backend);
  machine.software = std::move(made.software);
  machine.topology.nics_of_rank = std::move(made.nics_of_rank);
  machine.nics_loop_back = made.loops_back;
  machine.memory_of_nics = made.memory;
  machine.gpus_of_nics = std::move(made.gpus);
}

SimMachine sim_machine(const Options& options, const topo::Platform& platform, std::uint64_t seed) {
  SimMachine machine;
  machine.nodes = options.nodes;
  machine.gpus = platform.gpus;
  machine.nodes_per_domain = platform.nodes_per_domain;
  machine.nics = std::max(platform.simulated_nics, 1);
  // A single GPU per node has no link on its path.
  constexpr GBps unbounded{1e6};
  machine.link = platform.links_per_gpu > 0 ? platform.link_rate_achievable * platform.links_per_gpu : unbounded;
  machine.nic = platform.simulated_nic_rate * platform.nic_efficiency.value_or(1);
  machine.link_latency = platform.link_latency;
  machine.nic_latency = platform.nic_latency;
  machine.seed = seed;
  for (const std::string& text : options.faults) machine.faults.push_back(parse_fault(text, machine));
  if (const char* const outside = std::getenv(sim_fault_variable); outside && *outside)
    throw UsageError(fmt::format("{}={} has no effect from outside; give --fault, or name it in an arm of `ab`",
                                 sim_fault_variable, in_quotes(outside)));
  return machine;
}

// Sets the fields by which NVML would show the faults.
void show_faults(const SimMachine& sim, topo::Topology& topology) {
  for (const Fault& fault : sim.faults)
    for (std::size_t host = 0; host < topology.hosts.size(); ++host) {
      const int node = static_cast<int>(host);
      for (topo::Gpu& gpu : topology.hosts[host].gpu_devices) {
        if (fault.mode == Fault::Mode::clique && fault.node == node) gpu.fabric_clique = node + 1;
        if (fault.mode == Fault::Mode::plane && fault.node == sim.domain_of(node) && gpu.links_possible)
          gpu.links = static_cast<int>(std::lround(*gpu.links_possible * fault.factor));
      }
    }
}

void make_sim(ControlPlane&, const Options& options, std::uint64_t seed, Machine& machine) {
  const SimMachine sim = sim_machine(options, *machine.platform, seed);
  show_faults(sim, machine.topology);
  machine.backend = make_sim_backend(sim);
  machine.memory_of_rank = WorkerBackend::usable(machine.platform->gpu_memory);
  if (machine.platform->simulated_nics == 0) return;
  std::map<int, std::size_t> seen;
  for (const int node : machine.topology.host_of_rank)
    machine.topology.nics_of_rank.push_back(
        machine.topology.hosts[static_cast<std::size_t>(node)].gpu_devices.at(seen[node]++).nics);
}

// Backends in the order in which `auto` tries them.
struct BackendFactory {
  std::string name;
  void (*make)(ControlPlane& control, const Options& options, std::uint64_t seed, Machine& machine);
  // True if this host can run the backend; null: only on explicit request.
  bool (*here)() = nullptr;
};

const std::vector<BackendFactory> factories{
    {"nccl", make_nccl, [] { return why_no_gpus().empty(); }},
    {"mpi", make_mpi, [] { return true; }},
    {"ofi", make_ofi},
    {"sim", make_sim},
};

const BackendFactory& find_factory(const std::string& backend) {
  const auto found = std::ranges::find(factories, backend, &BackendFactory::name);
  if (found == factories.end()) throw std::logic_error("no factory for the backend " + backend);
  return *found;
}

// One letter per backend: y if this host can run it.
std::string usable_backends() {
  std::string found;
  for (const BackendFactory& each : factories) found += each.here && each.here() ? 'y' : 'n';
  return found;
}

std::string first_usable_everywhere(const std::vector<std::string>& on_hosts) {
  std::size_t at = 0;
  while (!std::ranges::all_of(on_hosts, [&](const std::string& found) { return found.at(at) == 'y'; })) ++at;
  return factories.at(at).name;
}

}  // namespace

std::string choose_for_all(const std::vector<BackendsOfHost>& hosts) {
  std::vector<std::string> usable;
  const bool some = std::ranges::any_of(hosts, [](const BackendsOfHost& each) { return each.why_no_gpus.empty(); });
  for (const BackendsOfHost& each : hosts) {
    if (some && !each.why_no_gpus.empty())
      throw EnvironmentError(
          fmt::format("{}: {}, and other hosts of this job can use their GPUs: mend or leave out this host, or give "
                      "--backend mpi to measure host memory",
                      printable(each.host), each.why_no_gpus));
    usable.push_back(each.usable);
  }
  return first_usable_everywhere(usable);
}

bool simulates(const Options& options) {
  const BackendInfo* const asked = requested_backend(options.backend);
  return asked && asked->simulated();
}

const BackendInfo& likely_backend(const Options& options) {
  const BackendInfo* const asked = requested_backend(options.backend);
  return asked ? *asked : find_backend(first_usable_everywhere({usable_backends()}));
}

const BackendInfo& choose_backend(ControlPlane& control, const Options& options) {
  if (const BackendInfo* const asked = requested_backend(options.backend)) return *asked;
  return find_backend(agree(
      control,
      [] {
        return BackendsOfHost{topo::host_name().name, usable_backends(), why_no_gpus()};
      },
      choose_for_all));
}

void make_backend(ControlPlane& control, const Options& options, std::uint64_t seed, Machine& machine) {
  find_factory(machine.backend_name).make(control, options, seed, machine);
}

}  // namespace p5
