#include "bench/app/machine/fabric.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/app/machine/leader.hpp"
#include "bench/app/machine/worker_interfaces.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/names.hpp"

namespace p5 {

using nlohmann::json;

WorkerOptions fabric_worker(World& world, const Options& options, const topo::Topology& topology) {
  WorkerOptions worker = worker_options(world, options, topology, fabric_worker_program,
                                        "this build found no libfabric (libfabric-dev); install it and build again");
  worker.library = "libfabric";
  worker.device = "nic";
  worker.each_has_id = true;
  worker.messages_only = true;
  worker.cost = {.latency = {20e-6}, .bandwidth = {5}, .burst = {5e-3}, .visit = {5e-3}, .communicator = {0}};
  // Or messages within a host would go through its memory and say nothing of its NICs.
  constexpr const char* around_nics = "FI_EFA_ENABLE_SHM_TRANSFER";
  if (!own_environment().contains(around_nics)) worker.environment.try_emplace(around_nics, "0");
  return worker;
}

FabricBackend make_fabric_backend(World& world, const Options& options, const topo::Topology& topology) {
  WorkerOptions worker = fabric_worker(world, options, topology);
  worker.seat.interfaces = interfaces_for_libfabric(topology, worker.environment);
  auto backend = std::make_unique<WorkerBackend>(world, std::move(worker));
  const std::vector<std::string> texts = identify_workers(world, *backend);
  FabricBackend made;
  const json agreed = json::parse(from_leader(world, [&] {
    const std::vector<protocol::Identity> identities = parse_identities(texts);
    refuse_mixed_libraries(identities, topology);
    std::map<std::string, std::string> software{{"libfabric", identities.front().library},
                                                {"libfabric.path", identities.front().library_path}};
    // Each once, and not by rank: of many ranks that would hide all else.
    std::vector<std::string> nics;
    std::vector<std::vector<std::string>> of_rank;
    for (const protocol::Identity& each : identities) {
      of_rank.push_back(each.devices);
      for (const std::string& name : each.devices)
        if (std::ranges::find(nics, name) == nics.end()) nics.push_back(name);
    }
    software["nics"] = join(nics);
    return json{software, of_rank}.dump();
  }));
  made.software = agreed.at(0).get<std::map<std::string, std::string>>();
  made.nics_of_rank = agreed.at(1).get<std::vector<std::vector<std::string>>>();
  made.backend = std::move(backend);
  return made;
}

}  // namespace p5
