// host.name_shared, host.pretended and host.split: whether a host's name means one machine, as everything that groups
// ranks assumes.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "bench/base/names.hpp"
#include "topo/checks/families.hpp"

namespace p5::topo {

std::vector<Finding> shared_host_names(const Topology& topology) {
  std::map<std::string, std::set<std::string>> kernels_of_name;
  for (const Host& host : topology.hosts)
    if (!host.boot_id.empty()) kernels_of_name[host.name].insert(host.boot_id);
  std::vector<Finding> findings;
  for (const auto& [name, kernels] : kernels_of_name) {
    if (kernels.size() < 2) continue;
    findings.push_back(
        {"host.name_shared",
         Severity::error,
         {name, "", {}, {}},
         fmt::format("{} different kernels (by boot id) call themselves '{}': their ranks would count as one node",
                     kernels.size(), name),
         "give every machine its own host name, or set a different NCCL_HOSTID on each"});
  }
  return findings;
}

// NCCL also identifies a node by host name and boot id together (src/misc/utils.cc, getHostHash).
std::vector<Finding> split_machines(const Topology& topology) {
  std::map<std::string, std::vector<const Host*>> hosts_of_kernel;
  for (const Host& host : topology.hosts)
    if (!host.boot_id.empty()) hosts_of_kernel[host.boot_id].push_back(&host);
  std::vector<Finding> findings;
  for (const auto& [kernel, hosts] : hosts_of_kernel) {
    if (hosts.size() < 2 || std::ranges::any_of(hosts, &Host::pretended)) continue;
    std::vector<std::string> names;
    for (const Host* host : hosts) names.push_back(host->name);
    findings.push_back(
        {"host.split",
         Severity::warning,
         {names.front(), hosts.front()->instance, {}, {}},
         fmt::format("{} run on one kernel (by boot id), but count as {} nodes: NCCL goes through the network between "
                     "them, not over NVLink or shared memory",
                     join(names), names.size()),
         "give the job one pod or container a machine, with all its GPUs; or let them share host name, IPC and PID "
         "namespaces (or set one NCCL_HOSTID for all of a machine)"});
  }
  return findings;
}

std::vector<Finding> pretended_hosts(const Topology& topology) {
  std::vector<std::string> names;
  std::string instance;
  for (const Host& host : topology.hosts)
    if (host.pretended) names.push_back(host.name), instance = host.instance;
  if (names.empty()) return {};
  const bool single = names.size() == 1;
  return {
      {"host.pretended",
       Severity::info,
       {single ? names.front() : "", single ? instance : "", {}, {}},
       fmt::format("{} of {} host names come from NCCL_HOSTID: {}. Nodes are what it says, not what the machines are",
                   names.size(), topology.hosts.size(), join(names)),
       "unset NCCL_HOSTID to measure the real nodes"}};
}

}  // namespace p5::topo
