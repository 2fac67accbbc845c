#include "bench/app/machine/fabric_check.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "bench/app/machine/fabric.hpp"
#include "bench/app/machine/worker_interfaces.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/app/variables.hpp"
#include "bench/backends/worker.hpp"
#include "bench/measure/reachability.hpp"
#include "bench/model/agreement.hpp"
#include "reports/reachability.hpp"

namespace p5 {

namespace {

using nlohmann::json;

// First abort epoch of these workers, above all epochs of the workers under test.
constexpr std::uint32_t own_abort_epochs = 1u << 31;

// The leader's time limit, agreed by all ranks; 0: no check.
Seconds agree_on_limit(ControlPlane& control) {
  return {from_leader(control, [] {
    std::error_code problem;
    if (!std::filesystem::exists(file_of_ours(fabric_worker_program), problem)) return 0.0;
    return duration_variable("P5BENCH_REACH_LIMIT").value_or(message_limit).count;
  })};
}

// Worker options for the path that data will take; nullopt if a rank cannot determine it.
std::optional<WorkerOptions> agree_on_path(ControlPlane& control, const Options& options, const Machine& machine) {
  WorkerOptions worker = fabric_worker(control, options, machine.topology);
  bool clear = true;
  if (machine.backend_info().parts == BackendInfo::Parts::gpus) {
    name_interfaces_for_nccl(control, machine.topology, worker.environment);
    const auto way =
        path_of_nccl(all_have_efa(machine.topology), with_changes(worker.environment), read_file, list_interfaces());
    clear = way.has_value();
    for (const auto& [name, value] : way.value_or(Environment())) worker.environment[name] = value;
  }
  name_interface_for_libfabric(machine.topology, worker.environment);
  const bool agreed = agree(
      control, [&] { return clear; },
      [](const std::vector<bool>& all) { return std::ranges::find(all, false) == all.end(); });
  return agreed ? std::optional(std::move(worker)) : std::nullopt;
}

// Identities of the last workers of these ranks, known at the leader.
std::vector<reports::ReachabilityHost> describe(ControlPlane& control, const Machine& machine,
                                                const std::vector<int>& ranks, const protocol::Identity& mine) {
  const std::vector<json> all = gather_json(control, protocol::to_json(mine));
  std::vector<reports::ReachabilityHost> hosts;
  if (!control.is_leader()) return hosts;
  for (const int each : ranks) {
    const auto rank = static_cast<std::size_t>(each);
    const topo::Host& host = host_of_rank(machine.topology, rank);
    const protocol::Identity said = protocol::identity_from_json(all.at(rank));
    hosts.push_back({.name = host.name,
                     .instance = host.instance,
                     .nics = said.devices.empty() ? std::vector{said.device_name} : said.devices,
                     .address = said.address,
                     .library = said.library});
  }
  return hosts;
}

}  // namespace

bool all_have_efa(const topo::Topology& topology) {
  return std::ranges::all_of(topology.hosts, [](const topo::Host& host) {
    return std::ranges::find(host.nics, std::string("efa"), &topo::Nic::kind) != host.nics.end();
  });
}

std::vector<int> first_ranks(const topo::Topology& topology) {
  std::set<std::pair<std::string, std::string>> seen;
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < topology.host_of_rank.size(); ++rank) {
    const topo::Host& host = host_of_rank(topology, rank);
    if (seen.emplace(host.host_name, host.boot_id).second) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

FabricCheck check_fabric(ControlPlane& control, const Options& options, const Machine& machine) {
  const std::vector<int> ranks = first_ranks(machine.topology);
  if (ranks.size() < 2) return {};
  const Seconds limit = agree_on_limit(control);
  if (limit.count <= 0) return {};
  std::optional<WorkerOptions> worker = agree_on_path(control, options, machine);
  if (!worker) return {};
  worker->timeout = limit;
  // One rank of each host uses all its NICs.
  worker->local.local_rank = 0;
  worker->local.local_ranks = 1;
  worker->abort_epochs_from = own_abort_epochs;
  WorkerBackend backend(control, *std::move(worker));
  const Reachability reached = check_reachability(control, backend, ranks, limit);
  const std::vector<reports::ReachabilityHost> hosts = describe(control, machine, ranks, backend.identity());
  FabricCheck check;
  if (control.is_leader()) check.findings = reports::reachability_findings(reached, hosts, limit);
  check.cut = shared_by_leader(control, std::ranges::any_of(check.findings, topo::condemns));
  return check;
}

}  // namespace p5
