#include "bench/app/machine/fabric.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "bench/app/machine/leader.hpp"
#include "bench/app/machine/worker_interfaces.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/names.hpp"
#include "bench/base/wire.hpp"

namespace p5 {

namespace {

// Hosts name their NICs alike, so that there are few different lists: two bytes for each rank.
struct NicsOfRanks {
  std::vector<std::vector<std::string>> lists;
  std::vector<std::uint16_t> list_of_rank;

  void add(const std::vector<std::string>& list) {
    const auto found = std::ranges::find(lists, list);
    list_of_rank.push_back(static_cast<std::uint16_t>(found - lists.begin()));
    if (found == lists.end()) lists.push_back(list);
  }
};

struct SharedFabric {
  std::string library, library_path;
  NicsOfRanks nics;
};

void fields(auto& archive, Is<NicsOfRanks> auto& nics) {
  archive.must("lists", nics.lists);
  archive.must("list_of_rank", nics.list_of_rank);
}

void fields(auto& archive, Is<SharedFabric> auto& shared) {
  archive.must("library", shared.library);
  archive.must("library_path", shared.library_path);
  archive.must("nics", shared.nics);
}

bool shows_efa(const topo::Host& host) {
  return std::ranges::find(host.nics, std::string("efa"), &topo::Nic::kind) != host.nics.end();
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
  // Where the operator says nothing: messages within a host would go through its memory and say nothing of its NICs;
  // the EFA provider would start CUDA in each process, on the first GPU, for memory that is not used here; and PSM,
  // which libfabric loads, would leave a file in the working folder where a provider aborts.
  for (const auto& [name, value] : {std::pair("FI_EFA_ENABLE_SHM_TRANSFER", "0"), std::pair("FI_HMEM", "system"),
                                    std::pair("IPATH_NO_BACKTRACE", "1")})
    if (!current_environment().contains(name)) worker.environment.try_emplace(name, value);
  if (shows_efa(host_of_rank(topology, static_cast<std::size_t>(control.participant())))) worker.local.provider = "efa";
  return worker;
}

FabricBackend make_fabric_backend(ControlPlane& control, const Options& options, const topo::Topology& topology) {
  WorkerOptions worker = fabric_worker(control, options, topology);
  worker.local.interfaces = interfaces_for_libfabric(topology, worker.environment);
  auto backend = std::make_unique<WorkerBackend>(control, std::move(worker));
  const std::vector<std::string> texts = identify_workers(control, *backend);
  FabricBackend made;
  const std::string agreed = from_leader(control, [&] {
    const std::vector<protocol::Identity> identities = parse_identities(texts);
    refuse_mixed_libraries(identities, topology);
    NicsOfRanks nics;
    for (const protocol::Identity& each : identities) nics.add(each.devices);
    return wire::serialize(SharedFabric{identities.front().library, identities.front().library_path, std::move(nics)});
  });
  const auto shared = wire::deserialize<SharedFabric>(agreed);
  made.software = {{"libfabric", shared.library}, {"libfabric.path", shared.library_path}};
  // Each once, and not by rank: of many ranks that would hide all else.
  std::vector<std::string> names;
  for (const std::vector<std::string>& list : shared.nics.lists)
    for (const std::string& name : list)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  made.software["nics"] = join(names);
  for (const std::uint16_t list : shared.nics.list_of_rank) made.nics_of_rank.push_back(shared.nics.lists.at(list));
  made.loops_back = shared.library.find(", efa") == std::string::npos;  // name_of_library()
  made.backend = std::move(backend);
  return made;
}

}  // namespace p5
