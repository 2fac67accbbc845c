#include "bench/app/machine/workers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/app/variables.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/model/agreement.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Variables that change the library's behaviour and must be equal on all ranks. NCCL_HOSTID may differ.
Environment library_environment() {
  constexpr std::array prefixes{"NCCL_", "FI_", "OFI_NCCL_", "P5BENCH_TUNER_", "LD_LIBRARY_PATH"};
  Environment found = current_environment();
  std::erase_if(found, [&](const auto& variable) {
    const bool of_library =
        std::ranges::any_of(prefixes, [&](const char* prefix) { return variable.first.starts_with(prefix); });
    return !of_library || variable.first == "NCCL_HOSTID";
  });
  return found;
}

// Rank 0's variables; variables that only this rank has are unset.
Environment worker_environment(ControlPlane& control, const Options& options) {
  const Environment mine = library_environment();
  const Environment leaders = shared_by_leader(control, mine);  // values may be any bytes
  if (!options.environment_of_rank0) return {};
  Environment changes = leaders;
  for (const auto& [name, value] : mine) changes.try_emplace(name, "");
  return changes;
}

// Local rank among the ranks on the same kernel: pretended nodes share devices.
protocol::LocalRank local_rank_of(const topo::Topology& topology, std::size_t me) {
  protocol::LocalRank local{.local_rank = 0, .local_ranks = 0};
  for (std::size_t rank = 0; rank < topology.host_of_rank.size(); ++rank) {
    const topo::Host &a = host_of_rank(topology, rank), &b = host_of_rank(topology, me);
    if (a.host_name != b.host_name || a.boot_id != b.boot_id) continue;
    ++local.local_ranks;
    if (rank < me) ++local.local_rank;
  }
  return local;
}

}  // namespace

std::string file_of_ours(const std::string& name) {
  std::error_code problem;
  const fs::path beside = fs::read_symlink("/proc/self/exe", problem).parent_path();
  const fs::path installed = beside.parent_path() / "lib" / "p5bench";
  if (fs::exists(beside / name, problem) || !fs::is_directory(installed, problem)) return (beside / name).string();
  return (installed / name).string();
}

const topo::Host& host_of_rank(const topo::Topology& topology, std::size_t rank) {
  return topology.hosts[static_cast<std::size_t>(topology.host_of_rank[rank])];
}

WorkerOptions worker_options(ControlPlane& control, const Options& options, const topo::Topology& topology,
                             const std::string& program, const std::string& why_missing) {
  const auto me = static_cast<std::size_t>(control.participant());
  WorkerOptions worker;
  worker.program = file_of_ours(program);
  worker.environment = worker_environment(control, options);
  worker.host = host_of_rank(topology, me).name;
  worker.local = local_rank_of(topology, me);
  worker.timeout = options.timeout;
  worker.deadline = options.deadline;
  worker.join_limit = join_limit(options);
  from_leader(control, [&] {
    if (!fs::exists(worker.program))
      throw EnvironmentError(fmt::format("there is no '{}': {}", worker.program, why_missing));
  });
  return worker;
}

Seconds join_limit(const Options& options) {
  constexpr double join_share_of_check = 0.25;  // so that there is time to find out who it is
  constexpr Seconds least{10};                  // a healthy GPU's first start may take longer than any operation
  if (const auto wanted = duration_variable("P5BENCH_JOIN_LIMIT")) return *wanted;
  if (options.checks()) return {options.limit.count * join_share_of_check};
  if (!options.given.contains("--timeout")) return default_join_limit;
  return {std::min(default_join_limit.count, std::max(least.count, options.timeout.count))};
}

std::string identify(WorkerBackend& backend) { return protocol::to_json(backend.identify()).dump(); }

std::vector<protocol::Identity> identities_from(const std::vector<std::string>& texts, const topo::Topology& topology) {
  std::vector<protocol::Identity> identities;
  for (const std::string& text : texts) identities.push_back(protocol::identity_from_json(json::parse(text)));
  for (std::size_t rank = 1; rank < identities.size(); ++rank)
    if (identities[rank].library != identities[0].library)
      throw EnvironmentError(
          fmt::format("rank {} on {} has {} ({}), rank 0 has {} ({}): the library has to be the same on all nodes",
                      rank, host_of_rank(topology, rank).name, identities[rank].library, identities[rank].library_path,
                      identities[0].library, identities[0].library_path));
  return identities;
}

}  // namespace p5
