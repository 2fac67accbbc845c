// The families of findings, in the files beside this one, and what they share; the table of them is checks.cpp.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/base/names.hpp"
#include "topo/finding.hpp"
#include "topo/platform.hpp"

namespace p5::topo {

std::vector<Finding> oversubscribed_hosts(const Topology& topology);
std::vector<Finding> shared_host_names(const Topology& topology);
std::vector<Finding> pretended_hosts(const Topology& topology);
std::vector<Finding> split_machines(const Topology& topology);
std::vector<Finding> mixed_hosts(const Topology& topology);

std::vector<Finding> wrong_gpu_counts(const Topology& topology);
std::vector<Finding> lost_gpus(const Topology& topology);
std::vector<Finding> unseen_gpus(const Topology& topology);
std::vector<Finding> silent_nvml(const Topology& topology);
std::vector<Finding> busy_gpus(const Topology& topology);
std::vector<Finding> hidden_gpus(const Topology& topology);
std::vector<Finding> throttled_gpus(const Topology& topology);
std::vector<Finding> memory_errors(const Topology& topology);
std::vector<Finding> earlier_xids(const Topology& topology);
std::vector<Finding> without_ecc(const Topology& topology);
std::vector<Finding> capped_power(const Topology& topology);
std::vector<Finding> narrow_gpus(const Topology& topology);
std::vector<Finding> mig_gpus(const Topology& topology);
std::vector<Finding> without_persistence(const Topology& topology);
std::vector<Finding> prohibited_gpus(const Topology& topology);

std::vector<Finding> missing_links(const Topology& topology);
std::vector<Finding> missing_planes(const Topology& topology);
std::vector<Finding> slow_links(const Topology& topology);
std::vector<Finding> link_errors(const Topology& topology);
std::vector<Finding> unready_fabric(const Topology& topology);
std::vector<Finding> without_nvls(const Topology& topology);
std::vector<Finding> absent_fabric_manager(const Topology& topology);

std::vector<Finding> outside_clique(const Topology& topology);
std::vector<Finding> without_imex(const Topology& topology);
std::vector<Finding> without_imex_channel(const Topology& topology);
std::vector<Finding> other_imex_nodes(const Topology& topology);
std::vector<Finding> domains_off(const Topology& topology);
std::vector<Finding> ranks_across_domains(const Topology& topology);
std::vector<Finding> unhealthy_fabric(const Topology& topology);
std::vector<Finding> other_imex(const Topology& topology);

std::vector<Finding> nics_down(const Topology& topology);
std::vector<Finding> wrong_nic_counts(const Topology& topology);
std::vector<Finding> nic_counts_at_launch(const Topology& topology);
std::vector<Finding> without_efa_driver(const Topology& topology);
std::vector<Finding> slow_nics(const Topology& topology);
std::vector<Finding> old_efa_drivers(const Topology& topology);
std::vector<Finding> narrow_nics(const Topology& topology);
std::vector<Finding> without_gdr(const Topology& topology);
std::vector<Finding> unusable_nics(const Topology& topology);
std::vector<Finding> renamed_nics(const Topology& topology);
std::vector<Finding> odd_nic_mtus(const Topology& topology);
std::vector<Finding> without_peermem(const Topology& topology);
std::vector<Finding> absent_hcas(const Topology& topology);

std::vector<Finding> absent_provider(const Topology& topology);
std::vector<Finding> missing_domains(const Topology& topology);
std::vector<Finding> absent_plugins(const Topology& topology);

std::vector<Finding> mixed_versions(const Topology& topology);
std::vector<Finding> old_software(const Topology& topology);
std::vector<Finding> other_fabric_manager(const Topology& topology);

std::vector<Finding> little_locked_memory(const Topology& topology);
std::vector<Finding> few_open_files(const Topology& topology);
std::vector<Finding> no_huge_pages(const Topology& topology);
std::vector<Finding> odd_mtus(const Topology& topology);
std::vector<Finding> little_shared_memory(const Topology& topology);
std::vector<Finding> without_gdrcopy(const Topology& topology);
std::vector<Finding> access_control(const Topology& topology);
std::vector<Finding> active_iommu(const Topology& topology);
std::vector<Finding> hidden_numa(const Topology& topology);
std::vector<Finding> scattered_hosts(const Topology& topology);

// ---- Helpers that the families of checks share: naming a subject, and the value that most parts have.

inline Finding about_host(const Host& host, std::string id, Severity severity, std::string evidence,
                          std::string action) {
  return {std::move(id), severity, {host.name, host.instance, {}, {}}, std::move(evidence), std::move(action)};
}

inline Finding about_gpu(const Host& host, std::size_t gpu, std::string id, Severity severity, std::string evidence,
                         std::string action) {
  Finding finding = about_host(host, std::move(id), severity, std::move(evidence), std::move(action));
  finding.subject.gpu = static_cast<int>(gpu);
  return finding;
}

// "GPU 3 (NVIDIA H100 80GB HBM3, GPU-...)"
inline std::string named(const Host& host, std::size_t gpu) {
  const Gpu& each = host.gpu_devices[gpu];
  return fmt::format("GPU {} ({}{})", gpu, each.name, each.uuid.empty() ? each.pci.address : ", " + each.uuid);
}

// "1 host", "2 hosts"
std::string plural(std::integral auto count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// Calls it with the number of the host too, where it takes that.
template <class Function, class Part>
auto call_for_host(const Function& function, std::size_t host, const Part& part) {
  if constexpr (std::is_invocable_v<const Function&, std::size_t, const Part&>)
    return function(host, part);
  else
    return function(part);
}

inline std::vector<Finding> both(std::vector<Finding> findings, std::vector<Finding> more) {
  std::ranges::move(more, std::back_inserter(findings));
  return findings;
}

// One finding for each host for which `evidence_of` returns text.
template <class EvidenceOf>
std::vector<Finding> each_host(const Topology& topology, const char* id, Severity severity, const char* action,
                               EvidenceOf evidence_of) {
  std::vector<Finding> findings;
  for (std::size_t at = 0; at < topology.hosts.size(); ++at)
    if (std::string evidence = call_for_host(evidence_of, at, topology.hosts[at]); !evidence.empty())
      findings.push_back(about_host(topology.hosts[at], id, severity, std::move(evidence), action));
  return findings;
}

// One finding for each GPU for which `problem_of` returns text, or one for the host if that holds for all of its GPUs.
template <class ProblemOf>
std::vector<Finding> each_gpu(const Topology& topology, const char* id, Severity severity, const char* action,
                              ProblemOf problem_of) {
  std::vector<Finding> findings;
  for (std::size_t at = 0; at < topology.hosts.size(); ++at) {
    const Host& host = topology.hosts[at];
    std::vector<Finding> here;
    for (std::size_t i = 0; i < host.gpu_devices.size(); ++i)
      if (const std::string problem = call_for_host(problem_of, at, host.gpu_devices[i]); !problem.empty())
        here.push_back(about_gpu(host, i, id, severity, named(host, i) + " " + problem, action));
    if (here.size() > 1 && here.size() == host.gpu_devices.size())
      here = {about_host(host, id, severity,
                         fmt::format("all {} GPUs of {}; the first: {}", here.size(), host.name, here.front().evidence),
                         action)};
    std::ranges::move(here, std::back_inserter(findings));
  }
  return findings;
}

// The machines that the hosts are: several may be one, by pretence or in containers.
inline int machines_in(const Topology& topology) {
  std::set<std::string> kernels;
  int unknown = 0;
  for (const Host& host : topology.hosts)
    if (host.boot_id.empty()) {
      ++unknown;
    } else {
      kernels.insert(host.boot_id);
    }
  return static_cast<int>(kernels.size()) + unknown;
}

// Software versions of a host by name, from Host::versions and its fields for "kernel", "nvidia driver", "libfabric".
std::map<std::string, std::string> versions_of(const Host& host);
// "": not known.
std::string version_of(const Host& host, const std::string& name);

// Value that the operator set for a variable; "": unset or unknown.
inline std::string setting(const Topology& topology, const std::string& variable) {
  if (!topology.settings) return "";
  const auto at = topology.settings->variables.find(variable);
  return at == topology.settings->variables.end() ? "" : at->second;
}

// The NICs of each host that carry a job's traffic, as far as this is known. Some instance types show InfiniBand
// devices of their boards beside EFA, which carry nothing. An Ethernet port of RoCE carries it if one of its name has
// the rate of most names on any host of the kind; the others manage hosts or serve storage.
using NicsOfHosts = std::vector<std::set<const Nic*>>;
NicsOfHosts carrying_nics(const Topology& topology);
// Those that could carry it, with all Ethernet ports of RoCE.
NicsOfHosts all_nics_with_rdma(const Topology& topology);

// The ports of each host that are down, though ports of their names carry traffic on most other hosts of its kind, two
// at least, and it has fewer that do.
std::vector<std::vector<const Nic*>> ports_down_alone(const Topology& topology);

// One finding for all NICs of a host with the same problem: about the NIC if it is a single one, else about the host.
inline Finding about_nics(const Host& host, const std::vector<const Nic*>& nics, std::string id, Severity severity,
                          const std::string& evidence, std::string action) {
  constexpr std::size_t most_named = 8;
  std::vector<std::string> names;
  for (const Nic* nic : nics)
    if (names.size() < most_named) names.push_back(nic->name);
  if (nics.size() > most_named) names.push_back(fmt::format("and {} more", nics.size() - most_named));
  const auto devices = std::ranges::count(host.nics, nics.front()->kind, &Nic::kind);
  Finding finding = about_host(host, std::move(id), severity,
                               fmt::format("{} ({} of {} {} devices on {}) {}", join(names), nics.size(), devices,
                                           nics.front()->kind, host.name, evidence),
                               std::move(action));
  if (nics.size() == 1) finding.subject.nic = nics.front()->name;
  return finding;
}

// `evidence` describes the problem of a host's first affected NIC; the text follows the names of all affected NICs.
// `nics`: those of each host that are looked at.
template <class Troubled, class Evidence>
std::vector<Finding> nics_of_each_host(const Topology& topology, const char* id, Severity severity, Evidence evidence,
                                       const char* action, Troubled troubled, const NicsOfHosts& nics) {
  std::vector<Finding> findings;
  for (std::size_t at = 0; at < topology.hosts.size(); ++at) {
    const Host& host = topology.hosts[at];
    std::vector<const Nic*> found;
    for (const Nic* const nic : nics[at])
      if (call_for_host(troubled, at, *nic)) found.push_back(nic);
    if (!found.empty())
      findings.push_back(about_nics(host, found, id, severity, call_for_host(evidence, at, *found.front()), action));
  }
  return findings;
}

// The same of the NICs that carry a job's traffic.
template <class Troubled, class Evidence>
std::vector<Finding> nics_of_each_host(const Topology& topology, const char* id, Severity severity, Evidence evidence,
                                       const char* action, Troubled troubled) {
  return nics_of_each_host(topology, id, severity, evidence, action, troubled, carrying_nics(topology));
}

// The value that most have; null where there is none, or none that more have than any other.
template <class Value>
std::optional<Value> usual(const std::vector<Value>& values) {
  std::map<Value, int> counts;
  for (const Value& value : values) ++counts[value];
  std::optional<Value> best;
  int most = 0;
  bool tied = false;
  for (const auto& [value, count] : counts) {
    if (count > most) {
      best = value, most = count, tied = false;
    } else if (count == most) {
      tied = true;
    }
  }
  return tied ? std::nullopt : best;
}

}  // namespace p5::topo
