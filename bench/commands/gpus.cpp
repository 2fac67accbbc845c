#include "bench/commands/gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/backends/worker.hpp"
#include "bench/commands/leader.hpp"
#include "bench/environment.hpp"
#include "bench/error.hpp"
#include "bench/protocol.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string worker_program() { return program_beside_this("p5bench-worker-nccl"); }

// What shapes the library's behaviour and has to be alike on all ranks. NCCL_HOSTID differs on purpose.
Environment library_environment() {
  constexpr std::array prefixes{"NCCL_", "FI_", "OFI_NCCL_", "LD_LIBRARY_PATH"};
  Environment found = own_environment();
  std::erase_if(found, [&](const auto& variable) {
    const bool of_library =
        std::ranges::any_of(prefixes, [&](const char* prefix) { return variable.first.starts_with(prefix); });
    return !of_library || variable.first == "NCCL_HOSTID";
  });
  return found;
}

// Rank 0's variables; what only this rank has is removed.
Environment worker_environment(World& world, const Options& options) {
  const Environment mine = library_environment();
  const Environment leaders = json::parse(world.broadcast(world.leads() ? json(mine).dump() : "")).get<Environment>();
  if (!options.environment_of_rank0) return {};
  Environment changes = leaders;
  for (const auto& [name, value] : mine) changes.try_emplace(name, "");
  return changes;
}

const topo::Host& host_of(const topo::Topology& topology, std::size_t rank) {
  return topology.hosts[static_cast<std::size_t>(topology.host_of_rank[rank])];
}

// Among the ranks on the same kernel: pretended nodes share its GPUs.
int local_rank(const topo::Topology& topology, std::size_t me) {
  int earlier = 0;
  for (std::size_t rank = 0; rank < me; ++rank) {
    const topo::Host &a = host_of(topology, rank), &b = host_of(topology, me);
    if (a.host_name == b.host_name && a.boot_id == b.boot_id) ++earlier;
  }
  return earlier;
}

// The identity of each rank's device, or why there is none, as text: a failure of its own, or that it was given up.
std::string identify(WorkerBackend& backend) {
  try {
    return "+" + protocol::to_json(backend.identify()).dump();
  } catch (const StalledError& problem) {
    return std::string("~") + problem.what();
  } catch (const CaseError& problem) {
    return std::string("-") + problem.what();
  }
}

// At the leader.
std::vector<protocol::Identity> parse_identities(const std::vector<std::string>& texts) {
  for (const char kind : {'-', '~'})
    for (std::size_t rank = 0; rank < texts.size(); ++rank)
      if (texts[rank].front() == kind) throw EnvironmentError(fmt::format("rank {}: {}", rank, texts[rank].substr(1)));
  std::vector<protocol::Identity> identities;
  for (const std::string& text : texts) identities.push_back(protocol::identity_from_json(json::parse(text.substr(1))));
  return identities;
}

// How many ranks the fullest GPU has.
int most_ranks_on_a_gpu(const std::vector<protocol::Identity>& identities, const topo::Topology& topology,
                        bool allowed) {
  int most = 1;
  std::map<std::string, std::vector<std::size_t>> ranks_of;
  for (std::size_t rank = 0; rank < identities.size(); ++rank) ranks_of[identities[rank].device_uuid].push_back(rank);
  for (const auto& [uuid, ranks] : ranks_of) {
    most = std::max(most, static_cast<int>(ranks.size()));
    if (ranks.size() > 1 && !allowed)
      throw EnvironmentError(
          fmt::format("ranks {} and {} on {} have the same GPU ({}, {}): start one rank a GPU, or give "
                      "--allow-shared-gpu for figures that "
                      "are not to be judged",
                      ranks[0], ranks[1], host_of(topology, ranks[0]).name, identities[ranks[0]].device_name, uuid));
  }
  return most;
}

void refuse_mixed_libraries(const std::vector<protocol::Identity>& identities, const topo::Topology& topology) {
  for (std::size_t rank = 1; rank < identities.size(); ++rank)
    if (identities[rank].library != identities[0].library)
      throw EnvironmentError(
          fmt::format("rank {} on {} has {} ({}), rank 0 has {} ({}): the library has to be the same on all nodes",
                      rank, host_of(topology, rank).name, identities[rank].library, identities[rank].library_path,
                      identities[0].library, identities[0].library_path));
}

}  // namespace

std::string program_beside_this(const std::string& name) {
  std::error_code problem;
  return (fs::read_symlink("/proc/self/exe", problem).parent_path() / name).string();
}

bool may_use_gpus(const Options& options) {
  if (options.backend == "nccl") return true;
  std::error_code problem;
  return options.backend == "auto" && fs::exists("/dev/nvidiactl", problem) && fs::exists(worker_program(), problem);
}

bool use_gpus(World& world, const Options& options) {
  const std::vector<std::string> all = world.gather(may_use_gpus(options) ? "y" : "n");
  const bool everywhere = std::ranges::find(all, "n") == all.end();
  return world.broadcast(everywhere ? "y" : "n") == "y";
}

GpuBackend make_gpu_backend(World& world, const Options& options, const topo::Topology& topology) {
  const auto me = static_cast<std::size_t>(world.participant());
  WorkerOptions worker{.program = worker_program(),
                       .environment = worker_environment(world, options),
                       .host = host_of(topology, me).name,
                       .local_rank = local_rank(topology, me),
                       .timeout = options.timeout};
  from_leader(world, [&]() -> std::string {
    if (fs::exists(worker.program)) return "";
    throw EnvironmentError(fmt::format(
        "there is no '{}': this build found no CUDA toolkit or no NCCL; install them and build again", worker.program));
  });
  auto backend = std::make_unique<WorkerBackend>(world, std::move(worker));
  const std::vector<std::string> texts = world.gather(identify(*backend));
  GpuBackend made;
  const json agreed = json::parse(from_leader(world, [&] {
    const std::vector<protocol::Identity> identities = parse_identities(texts);
    refuse_mixed_libraries(identities, topology);
    const int crowd = most_ranks_on_a_gpu(identities, topology, options.allow_shared_gpu);
    std::uint64_t least = identities.front().free_memory;
    json gpus = json::array(), seen = json::array();
    for (const protocol::Identity& each : identities) {
      least = std::min(least, each.free_memory);
      gpus.push_back(each.device_uuid);
      seen.push_back(each.visible_devices);
    }
    return json{{"crowd", crowd},
                {"memory", least},
                {"gpus", gpus},
                {"seen", seen},
                {"first", protocol::to_json(identities.front())}}
        .dump();
  }));
  const int crowd = agreed.at("crowd");
  backend->share_device(crowd);
  made.memory_of_rank = Bytes{WorkerBackend::usable({agreed.at("memory")}).count / static_cast<std::uint64_t>(crowd)};
  if (crowd > 1) made.why_not_judged = fmt::format("up to {} ranks share a GPU", crowd);
  made.gpu_of_rank = agreed.at("gpus").get<std::vector<std::string>>();
  made.gpus_seen_of_rank = agreed.at("seen").get<std::vector<int>>();
  const protocol::Identity first = protocol::identity_from_json(agreed.at("first"));
  made.software = {{"gpu", first.device_name},
                   {"nccl", first.library},
                   {"nccl.path", first.library_path},
                   {"cuda.driver", first.driver},
                   {"cuda.runtime", first.runtime}};
  made.backend = std::move(backend);
  return made;
}

}  // namespace p5
