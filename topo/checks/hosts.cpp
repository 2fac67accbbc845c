// host.mixed, host.name_shared, host.split, host.pretended and host.oversubscribed: what the hosts are to each other.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "bench/base/names.hpp"
#include "topo/checks/families.hpp"
#include "topo/platform.hpp"

namespace p5::topo {

// ---- host.mixed: a cluster of unequal hosts runs at the rate of the slowest one.

namespace {

using Features = std::array<std::string, 5>;

// Names of the models of a host's GPUs; "": not all are known.
std::string models_of(const Host& host) {
  std::set<std::string> models;
  for (const Gpu& gpu : host.gpu_devices) models.insert(gpu.name);
  return models.contains("") ? "" : join(std::vector<std::string>(models.begin(), models.end()));
}

// Features that the platform specifies stay empty here: other checks compare each host with them and report it alone.
Features features_of(const Host& host, const Platform* platform, bool with_models) {
  const auto physical =
      std::count_if(host.nics.begin(), host.nics.end(), [](const Nic& nic) { return nic.kind != "virtual"; });
  return {host.instance_type.empty() ? "no known instance type" : host.instance_type,
          fmt::format("{} cores", host.cores), platform ? "" : fmt::format("{} GPUs", host.gpus),
          platform && platform->nics > 0 ? "" : fmt::format("{} NICs", physical), with_models ? models_of(host) : ""};
}

struct Kind {
  Features features;
  std::vector<const Host*> hosts;
};

// Kinds of hosts, most frequent first.
std::vector<Kind> kinds_of(const Topology& topology) {
  const Platform* const platform = platform_of_instance_type(topology.platform);
  const bool with_models =
      std::ranges::all_of(topology.hosts, [](const Host& host) { return !models_of(host).empty(); });
  std::vector<Kind> kinds;
  for (const Host& host : topology.hosts) {
    const Features features = features_of(host, platform, with_models);
    auto at = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& kind) { return kind.features == features; });
    if (at == kinds.end()) at = kinds.insert(at, {features, {}});
    at->hosts.push_back(&host);
  }
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const Kind& a, const Kind& b) { return a.hosts.size() > b.hosts.size(); });
  return kinds;
}

std::string differing(const Features& these, const Features& others) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < these.size(); ++i)
    if (these[i] != others[i]) parts.push_back(these[i]);
  return join(parts);
}

constexpr const char* leave_out =
    "replace or leave out what does not belong, or measure the kinds apart: one odd host slows all";

// No kind is the usual one, so none is to blame.
Finding undecided(const std::vector<Kind>& kinds) {
  std::vector<std::string> parts;
  for (const Kind& kind : kinds) {
    const Features& other = kinds[&kind == &kinds[0] ? 1 : 0].features;
    const std::size_t more = kind.hosts.size() - 1;
    parts.push_back(fmt::format("{}{} has {}", kind.hosts[0]->name, more ? fmt::format(" (and {} like it)", more) : "",
                                differing(kind.features, other)));
  }
  return {"host.mixed", Severity::warning, {}, "hosts differ: " + join(parts, "; "), leave_out};
}

}  // namespace

std::vector<Finding> mixed_hosts(const Topology& topology) {
  const std::vector<Kind> kinds = kinds_of(topology);
  if (kinds.size() < 2) return {};
  if (kinds[0].hosts.size() == kinds[1].hosts.size()) return {undecided(kinds)};
  std::vector<Finding> findings;
  for (std::size_t i = 1; i < kinds.size(); ++i)
    for (const Host* host : kinds[i].hosts)
      findings.push_back(about_host(
          *host, "host.mixed", Severity::warning,
          fmt::format("{} has {}; {} of {} hosts have {}", host->name, differing(kinds[i].features, kinds[0].features),
                      kinds[0].hosts.size(), topology.hosts.size(), differing(kinds[0].features, kinds[i].features)),
          leave_out));
  return findings;
}

// ---- host.name_shared, host.pretended and host.split: whether a host's name means one machine, as everything that
// groups ranks assumes.

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
    findings.push_back(about_host(
        *hosts.front(), "host.split", Severity::warning,
        fmt::format("{} run on one kernel (by boot id), but count as {} nodes: NCCL goes through the network between "
                    "them, not over NVLink or shared memory",
                    join(names), names.size()),
        "give the job one pod or container a machine, with all its GPUs; or let them share host name, IPC and PID "
        "namespaces (or set one NCCL_HOSTID for all of a machine)"));
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

// ---- host.oversubscribed: ranks that take turns on a processor measure the scheduler, not the machine.

namespace {

// Hosts that are really one: several pretended ones, or containers on one kernel.
struct Machine {
  std::vector<std::string> names;
  std::map<std::string, int> allowed_of_container;  // by the kernel's host name
  int threads = 0, ranks = 0;
  std::string instance;
};

std::map<std::string, Machine> machines_of(const Topology& topology) {
  std::map<std::string, Machine> machines;
  for (std::size_t i = 0; i < topology.hosts.size(); ++i) {
    const Host& host = topology.hosts[i];
    Machine& machine = machines[host.boot_id.empty() ? fmt::format("host {}", i) : host.boot_id];
    machine.names.push_back(host.name);
    machine.instance = host.instance;
    machine.threads = std::max(machine.threads, host.threads);
    int& allowed = machine.allowed_of_container[host.host_name];
    allowed = std::max(allowed, host.allowed_threads);
    machine.ranks +=
        static_cast<int>(std::count(topology.host_of_rank.begin(), topology.host_of_rank.end(), static_cast<int>(i)));
  }
  return machines;
}

int allowed_on(const Machine& machine) {
  int sum = 0;
  for (const auto& [container, allowed] : machine.allowed_of_container) sum += allowed;
  return machine.threads > 0 ? std::min(sum, machine.threads) : sum;
}

}  // namespace

std::vector<Finding> oversubscribed_hosts(const Topology& topology) {
  std::vector<Finding> findings;
  for (const auto& [kernel, machine] : machines_of(topology)) {
    const int allowed = allowed_on(machine);
    if (allowed == 0 || machine.ranks <= allowed) continue;
    const std::string subject = machine.names.front();
    const std::string pretending = machine.names.size() > 1 ? fmt::format(" (as {})", join(machine.names)) : "";
    findings.push_back({"host.oversubscribed",
                        Severity::warning,
                        {subject, machine.instance, {}, {}},
                        fmt::format("{} ranks share {} hardware threads on {}{}, so that they take turns",
                                    machine.ranks, allowed, subject, pretending),
                        fmt::format("start at most {} ranks there, or allow the job more processors", allowed)});
  }
  return findings;
}

}  // namespace p5::topo
