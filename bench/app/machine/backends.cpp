#include "bench/app/machine/backends.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/app/machine/fabric.hpp"
#include "bench/app/machine/gpus.hpp"
#include "bench/backends/backends.hpp"

namespace p5 {

namespace {

void make_nccl(ControlPlane& control, const Options& options, std::uint64_t, Machine& machine) {
  GpuBackend made = make_gpu_backend(control, options, machine.topology);
  machine.backend = std::move(made.backend);
  machine.memory_of_rank = made.memory_of_rank;
  machine.why_not_judged = std::move(made.why_not_judged);
  machine.software = std::move(made.software);
  machine.findings = std::move(made.findings);
  machine.gpu_of_rank = std::move(made.gpu_of_rank);
  machine.topology.gpu_of_rank = machine.gpu_of_rank;
  machine.topology.gpus_seen_of_rank = std::move(made.gpus_seen_of_rank);
}

void make_mpi(ControlPlane&, const Options&, std::uint64_t, Machine& machine) { machine.backend = make_mpi_backend(); }

void make_ofi(ControlPlane& control, const Options& options, std::uint64_t, Machine& machine) {
  FabricBackend made = make_fabric_backend(control, options, machine.topology);
  machine.backend = std::move(made.backend);
  machine.software = std::move(made.software);
  machine.topology.nics_of_rank = std::move(made.nics_of_rank);
  machine.nics_loop_back = made.loops_back;
}

SimMachine sim_machine(const Options& options, const topo::Platform& platform, std::uint64_t seed) {
  SimMachine machine;
  machine.nodes = options.nodes;
  machine.gpus = platform.gpus;
  machine.nics = std::max(platform.nics, 1);
  // The only GPU of its node has no link in its way.
  constexpr GBps unbounded{1e6};
  machine.link = platform.links_per_gpu > 0 ? platform.link_rate_achievable * platform.links_per_gpu : unbounded;
  machine.nic = platform.nic_rate * platform.nic_efficiency.value_or(1);
  machine.link_latency = platform.link_latency;
  machine.nic_latency = platform.nic_latency;
  machine.seed = seed;
  for (const std::string& text : options.faults)
    machine.faults.push_back(parse_fault(text, machine.nodes, machine.gpus, machine.nics));
  return machine;
}

void make_sim(ControlPlane&, const Options& options, std::uint64_t seed, Machine& machine) {
  machine.backend = make_sim_backend(sim_machine(options, *machine.platform, seed));
  if (machine.platform->nics == 0) return;
  std::map<int, std::size_t> seen;
  for (const int node : machine.topology.host_of_rank)
    machine.topology.nics_of_rank.push_back(
        machine.topology.hosts[static_cast<std::size_t>(node)].gpu_devices.at(seen[node]++).nics);
}

// In the order in which they are tried where nobody asks for one.
struct BackendFactory {
  std::string name;
  void (*make)(ControlPlane& control, const Options& options, std::uint64_t seed, Machine& machine);
  // Whether this host has what it takes; null: only who asks for the backend gets it.
  bool (*here)() = nullptr;
};

const std::vector<BackendFactory> makers{
    {"nccl", make_nccl, may_use_gpus},
    {"mpi", make_mpi, [] { return true; }},
    {"ofi", make_ofi},
    {"sim", make_sim},
};

const BackendFactory& maker_of(const std::string& backend) {
  const auto found = std::ranges::find(makers, backend, &BackendFactory::name);
  if (found == makers.end()) throw std::logic_error("nothing here makes the backend " + backend);
  return *found;
}

// Of each maker: y where this host has what it takes.
std::string found_here() {
  std::string found;
  for (const BackendFactory& each : makers) found += each.here && each.here() ? 'y' : 'n';
  return found;
}

const BackendInfo& first_found(const std::vector<std::string>& on_hosts) {
  std::size_t at = 0;
  while (!std::ranges::all_of(on_hosts, [&](const std::string& found) { return found.at(at) == 'y'; })) ++at;
  return find_backend(makers.at(at).name);
}

}  // namespace

bool simulates(const Options& options) {
  const BackendInfo* const asked = requested_backend(options.backend);
  return asked && asked->simulated();
}

const BackendInfo& likely_backend(const Options& options) {
  const BackendInfo* const asked = requested_backend(options.backend);
  return asked ? *asked : first_found({found_here()});
}

const BackendInfo& choose_backend(ControlPlane& control, const Options& options) {
  if (const BackendInfo* const asked = requested_backend(options.backend)) return *asked;
  const std::vector<std::string> on_hosts = control.gather(found_here());
  return find_backend(control.broadcast(control.is_leader() ? first_found(on_hosts).name : ""));
}

void make_backend(ControlPlane& control, const Options& options, std::uint64_t seed, Machine& machine) {
  maker_of(machine.backend_name).make(control, options, seed, machine);
}

}  // namespace p5
