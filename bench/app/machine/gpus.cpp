#include "bench/app/machine/gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/app/machine/leader.hpp"
#include "bench/app/machine/worker_interfaces.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/backends/ras.hpp"
#include "bench/base/error.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* program = "p5bench-worker-nccl";

// How many ranks the fullest GPU has.
int most_ranks_on_a_gpu(const std::vector<protocol::Identity>& identities, const topo::Topology& topology,
                        bool allowed) {
  int most = 1;
  std::map<std::string, std::vector<std::size_t>> ranks_of;
  for (std::size_t rank = 0; rank < identities.size(); ++rank) ranks_of[identities[rank].device_uuid].push_back(rank);
  for (const auto& [uuid, ranks] : ranks_of) {
    most = std::max(most, static_cast<int>(ranks.size()));
    if (ranks.size() > 1 && !allowed)
      throw EnvironmentError(fmt::format(
          "ranks {} and {} on {} have the same GPU ({}, {}): start one rank a GPU, or give "
          "--allow-shared-gpu for figures that "
          "are not to be judged",
          ranks[0], ranks[1], host_of_rank(topology, ranks[0]).name, identities[ranks[0]].device_name, uuid));
  }
  return most;
}

// Where the workers' NCCL answers; the operator's choice, in his variables or for all ranks, stands.
std::string listen_for_status(Environment& changes) {
  const Environment own = current_environment();
  for (const Environment* const variables : {&std::as_const(changes), &own})
    if (const auto chosen = variables->find(ras_variable); chosen != variables->end() && !chosen->second.empty())
      return chosen->second;
  return changes[ras_variable] = ras_address;
}

}  // namespace

bool may_use_gpus() {
  std::error_code problem;
  return fs::exists("/dev/nvidiactl", problem) && fs::exists(file_of_ours(program), problem);
}

GpuBackend make_gpu_backend(ControlPlane& control, const Options& options, const topo::Topology& topology) {
  WorkerOptions worker = worker_options(control, options, topology, program,
                                        "this build found no CUDA toolkit or no NCCL; install them and build again");
  GpuBackend made;
  made.findings = name_interfaces_for_nccl(control, topology, worker.environment);
  const auto named = worker.environment.find("NCCL_SOCKET_IFNAME");
  const std::string interfaces = named == worker.environment.end() ? "" : named->second;
  worker.ras = listen_for_status(worker.environment);
  auto backend = std::make_unique<WorkerBackend>(control, std::move(worker));
  const std::vector<std::string> texts = identify_workers(control, *backend);
  const json agreed = json::parse(from_leader(control, [&] {
    const std::vector<protocol::Identity> identities = parse_identities(texts);
    refuse_mixed_libraries(identities, topology);
    const int most_ranks = most_ranks_on_a_gpu(identities, topology, options.allow_shared_gpu);
    std::uint64_t least = identities.front().free_memory;
    for (const protocol::Identity& each : identities) {
      least = std::min(least, each.free_memory);
      made.gpu_of_rank.push_back(each.device_uuid);
      made.gpus_seen_of_rank.push_back(each.visible_devices);
    }
    return json{{"most_ranks", most_ranks}, {"memory", least}, {"first", protocol::to_json(identities.front())}}.dump();
  }));
  const int most_ranks = agreed.at("most_ranks");
  backend->share_device(most_ranks);
  made.memory_of_rank =
      Bytes{WorkerBackend::usable({agreed.at("memory")}).count / static_cast<std::uint64_t>(most_ranks)};
  if (most_ranks > 1) made.why_not_judged = fmt::format("up to {} ranks share a GPU", most_ranks);
  const protocol::Identity first = protocol::identity_from_json(agreed.at("first"));
  made.software = {{"gpu", first.device_name},
                   {"nccl", first.library},
                   {"nccl.path", first.library_path},
                   {"cuda.driver", first.driver},
                   {"cuda.runtime", first.runtime}};
  if (!interfaces.empty()) made.software["workers.NCCL_SOCKET_IFNAME"] = interfaces;
  made.backend = std::move(backend);
  return made;
}

}  // namespace p5
