#include "bench/app/machine/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/app/machine/workers.hpp"
#include "bench/app/variables.hpp"
#include "bench/backends/worker.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/names.hpp"
#include "bench/measure/reachability.hpp"
#include "bench/model/agreement.hpp"
#include "reports/reachability.hpp"

namespace p5 {

namespace {

// Device names per rank, or per host, without repetition: most hosts name their devices alike, so two bytes a rank
// suffice.
struct ListsOfRanks {
  std::vector<std::vector<std::string>> lists;
  std::vector<std::uint16_t> list_of_rank;

  void add(const std::vector<std::string>& list) {
    const auto found = std::ranges::find(lists, list);
    list_of_rank.push_back(static_cast<std::uint16_t>(found - lists.begin()));
    if (found == lists.end()) lists.push_back(list);
  }
  std::vector<std::vector<std::string>> by_rank() const {
    std::vector<std::vector<std::string>> all;
    for (const std::uint16_t list : list_of_rank) all.push_back(lists.at(list));
    return all;
  }
};

struct SharedFabric {
  std::string library, library_path, memory, why_no_gpu;
  bool mixed = false;  // some ranks' data lies elsewhere
  ListsOfRanks nics, gpus, beside;
};

void fields(auto& archive, Is<ListsOfRanks> auto& all) {
  archive.must("lists", all.lists);
  archive.must("list_of_rank", all.list_of_rank);
}

void fields(auto& archive, Is<SharedFabric> auto& shared) {
  archive.must("library", shared.library);
  archive.must("library_path", shared.library_path);
  archive.must("memory", shared.memory);
  archive.must("why_no_gpu", shared.why_no_gpu);
  archive.must("mixed", shared.mixed);
  archive.must("nics", shared.nics);
  archive.must("gpus", shared.gpus);
  archive.must("beside", shared.beside);
}

// As topo::nics_by_place(), which only the leader knows.
std::vector<std::vector<std::string>> nics_of_hosts_by_place(ControlPlane& control, const topo::Topology& topology) {
  ListsOfRanks by_host;
  if (control.is_leader())
    for (const std::vector<std::string>& names : topo::nics_by_place(topology.hosts)) by_host.add(names);
  return shared_by_leader(control, by_host).by_rank();
}

// The libraries, devices and data places of all workers, the same on all ranks.
SharedFabric agree_on_fabric(ControlPlane& control, const topo::Topology& topology, WorkerBackend& backend) {
  const auto describe = [&](const std::vector<std::string>& texts) {
    const std::vector<protocol::Identity> identities = identities_from(texts, topology);
    SharedFabric shared{.library = identities.front().library,
                        .library_path = identities.front().library_path,
                        .memory = identities.front().memory,
                        .why_no_gpu = "",
                        .nics = {},
                        .gpus = {},
                        .beside = {}};
    for (std::size_t rank = 0; rank < identities.size(); ++rank) {
      const protocol::Identity& each = identities[rank];
      shared.nics.add(each.devices);
      shared.gpus.add(each.gpus);
      std::vector<std::string> places;
      for (const int place : each.gpu_beside) places.push_back(std::to_string(place));
      shared.beside.add(places);
      shared.mixed = shared.mixed || each.memory != shared.memory;
      if (shared.why_no_gpu.empty() && !each.why_no_gpu.empty())
        shared.why_no_gpu = fmt::format("rank {} on {}: {}", rank, host_of_rank(topology, rank).name, each.why_no_gpu);
    }
    return shared;
  };
  constexpr std::string_view remedy = "look at that host's NICs (fi_info, dmesg), or run again without it";
  const auto start = [&] {
    try {
      return identify(backend);
    } catch (const LostError& problem) {
      const std::string_view of_loader = remedy_for_loader(problem.what());
      throw LostError(fmt::format("{}; {}", problem.what(), of_loader.empty() ? remedy : of_loader));
    } catch (const StalledError& problem) {
      throw StalledError(fmt::format("{}; {}", problem.what(), remedy));
    }
  };
  return agree(control, start, describe);
}

}  // namespace

WorkerOptions fabric_worker(ControlPlane& control, const Options& options, const topo::Topology& topology) {
  WorkerOptions worker = worker_options(control, options, topology, fabric_worker_program,
                                        "this build found no libfabric (libfabric-dev); install it and build again");
  worker.library = "libfabric";
  worker.device = "nic";
  worker.each_has_id = true;
  worker.messages_only = true;
  worker.cost = {.latency = {20e-6}, .bandwidth = {5}, .burst = {5e-3}, .repetition = {5e-3}, .communicator = {0}};
  // Defaults unless the operator sets these variables: messages within a host would otherwise go through shared memory
  // and not test its NICs, and PSM, which libfabric loads, would leave a file in the working directory when a provider
  // aborts.
  for (const auto& [name, value] : {std::pair("FI_EFA_ENABLE_SHM_TRANSFER", "0"), std::pair("IPATH_NO_BACKTRACE", "1")})
    if (!current_environment().contains(name)) worker.environment.try_emplace(name, value);
  const auto host = static_cast<std::size_t>(topology.host_of_rank[static_cast<std::size_t>(control.participant())]);
  if (topo::has_efa(topology.hosts[host])) worker.local.provider = "efa";
  worker.local.nics = nics_of_hosts_by_place(control, topology).at(host);
  return worker;
}

namespace {

// Between hosts with EFA and others data would go another way than between those with EFA.
void refuse_hosts_without_efa(const topo::Topology& topology, const Environment& environment) {
  std::set<std::string> without;
  for (const topo::Host& host : topology.hosts)
    if (!topo::has_efa(host)) without.insert(host.name);
  if (without.empty() || without.size() == topology.hosts.size() || !value_or_empty(environment, "FI_PROVIDER").empty())
    return;
  throw EnvironmentError(fmt::format(
      "no EFA device on {}, though {} of {} hosts have some: run without the former, or set FI_PROVIDER=tcp to measure "
      "TCP "
      "between all",
      first_hosts({without.begin(), without.end()}), topology.hosts.size() - without.size(), topology.hosts.size()));
}

}  // namespace

FabricBackend make_fabric_backend(ControlPlane& control, const Options& options, const topo::Topology& topology) {
  WorkerOptions worker = fabric_worker(control, options, topology);
  refuse_hosts_without_efa(topology, with_changes(current_environment(), worker.environment));
  worker.local.interfaces = interfaces_for_libfabric(topology, worker.environment);
  worker.local.memory = options.memory;
  FabricBackend made;
  const auto start = [&] {
    auto backend = std::make_unique<WorkerBackend>(control, worker);
    SharedFabric shared = agree_on_fabric(control, topology, *backend);
    made.backend = std::move(backend);
    return shared;
  };
  SharedFabric shared = start();
  if (shared.mixed) {
    worker.local.memory = "host";
    const std::string why = shared.why_no_gpu;
    made.backend.reset();
    shared = start();
    shared.why_no_gpu = why;
  }
  made.memory = shared.memory;
  made.why_no_gpu = shared.why_no_gpu;
  made.software = {{"libfabric", shared.library}, {"libfabric.path", shared.library_path}};
  made.software["libfabric.memory"] =
      made.memory + (made.why_no_gpu.empty() ? "" : fmt::format("; no GPU memory ({})", made.why_no_gpu));
  // Each name is listed once and not by rank, since thousands of ranks would make the report unreadable.
  std::vector<std::string> names;
  for (const std::vector<std::string>& list : shared.nics.lists)
    for (const std::string& name : list)
      if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
  made.software["nics"] = join(names);
  made.nics_of_rank = shared.nics.by_rank();
  made.gpus.gpus_of_rank = shared.gpus.by_rank();
  for (const std::vector<std::string>& places : shared.beside.by_rank()) {
    std::vector<int>& its = made.gpus.beside_of_rank.emplace_back();
    for (const std::string& place : places) its.push_back(std::stoi(place));
  }
  made.loops_back = shared.library.find(", efa") == std::string::npos;  // the text is name_of_library()'s
  return made;
}

namespace {

using nlohmann::json;

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
    const auto way = variables_for_path_of_nccl(all_have_efa(machine.topology),
                                                with_changes(current_environment(), worker.environment), read_file,
                                                list_interfaces());
    clear = way.has_value();
    worker.environment = with_changes(worker.environment, way.value_or(Environment()));
  }
  name_interface_for_libfabric(machine.topology, worker.environment);
  const bool agreed = agree(
      control, [&] { return clear; },
      [](const std::vector<bool>& all) { return std::ranges::find(all, false) == all.end(); });
  return agreed ? std::optional(std::move(worker)) : std::nullopt;
}

// Identities of the last workers of these ranks, known at the leader.
std::vector<reports::ReachabilityHost> describe_hosts(ControlPlane& control, const Machine& machine,
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

bool all_have_efa(const topo::Topology& topology) { return std::ranges::all_of(topology.hosts, topo::has_efa); }

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
  WorkerBackend backend(control, *std::move(worker));
  const Reachability reached = check_reachability(control, backend, ranks, limit);
  const std::vector<reports::ReachabilityHost> hosts = describe_hosts(control, machine, ranks, backend.identity());
  FabricCheck check;
  if (control.is_leader()) check.findings = reports::reachability_findings(reached, hosts, limit);
  check.cut = shared_by_leader(control, std::ranges::any_of(check.findings, topo::condemns));
  return check;
}

}  // namespace p5
