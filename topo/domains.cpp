// NVLink domains: hosts whose GPUs share NVSwitches, as NCCL finds them (src/mnnvl.cc): same cluster UUID and clique,
// unless NCCL_MNNVL_UUID or NCCL_MNNVL_CLIQUE_ID gives them (of its values -2, the chassis, is not known here).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "bench/base/text.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

namespace {

using Clique = std::pair<std::string, int>;

// The value of a variable of all ranks by which NCCL replaces what the driver tells; null: unset, or -1, NCCL's
// default.
std::optional<int> forced(const Topology& topology, const char* variable) {
  if (!topology.settings) return std::nullopt;
  const auto found = topology.settings->variables.find(variable);
  if (found == topology.settings->variables.end()) return std::nullopt;
  const std::optional<int> value = as_number<int>(found->second);
  return value && *value >= 0 ? value : std::nullopt;
}

// The clique of all GPUs of the host whose fabric the driver reports; null: none that spans hosts, or unknown.
std::optional<Clique> clique_of(const Topology& topology, const Host& host) {
  const std::optional<int> cluster = forced(topology, "NCCL_MNNVL_UUID"),
                           clique = forced(topology, "NCCL_MNNVL_CLIQUE_ID");
  std::optional<Clique> all;
  for (const Gpu& gpu : host.gpu_devices) {
    if (!is_clique_known(gpu)) continue;
    if (gpu.fabric_cluster.empty()) return std::nullopt;
    const Clique its{cluster ? std::to_string(*cluster) : gpu.fabric_cluster,
                     clique.value_or(gpu.fabric_clique.value_or(0))};
    if (all && *all != its) return std::nullopt;
    all = its;
  }
  return all;
}

}  // namespace

bool is_clique_known(const Gpu& gpu) { return !gpu.fabric_cluster.empty() || !gpu.fabric_state.empty(); }

bool is_clique_known(const Host& host) {
  return std::ranges::any_of(host.gpu_devices, [](const Gpu& gpu) { return is_clique_known(gpu); });
}

std::vector<int> cliques_of_hosts(const Topology& topology) {
  std::map<Clique, int> known;
  std::vector<int> domains;
  int count = 0;
  for (const Host& host : topology.hosts) {
    const std::optional<Clique> clique = clique_of(topology, host);
    const int domain = clique ? known.try_emplace(*clique, count).first->second : count;
    count = std::max(count, domain + 1);
    domains.push_back(domain);
  }
  return domains;
}

std::string variable_that_disables_domains(const Topology& topology) {
  if (!topology.settings) return "";
  const auto& variables = topology.settings->variables;
  for (const auto& [name, off] : {std::pair("NCCL_MNNVL_ENABLE", "0"), {"NCCL_CUMEM_ENABLE", "0"}})
    if (const auto found = variables.find(name); found != variables.end() && found->second == off)
      return fmt::format("{}={}", name, off);
  return "";
}

std::vector<int> domains_of_hosts(const Topology& topology) {
  if (variable_that_disables_domains(topology).empty()) return cliques_of_hosts(topology);
  std::vector<int> each(topology.hosts.size());
  std::iota(each.begin(), each.end(), 0);
  return each;
}

std::vector<int> domains_of_ranks(const Topology& topology) {
  const std::vector<int> of_host = domains_of_hosts(topology);
  std::vector<int> domains;
  for (const int host : topology.host_of_rank) domains.push_back(of_host.at(static_cast<std::size_t>(host)));
  return domains;
}

}  // namespace p5::topo
