// Findings about NVLink between hosts: domain.clique, domain.plane, domain.imex, domain.imex_channel,
// domain.imex_nodes, domain.off, domain.order, gpu.fabric_health and version.imex.
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "topo/checks/about.hpp"
#include "topo/checks/families.hpp"

namespace p5::topo {

namespace {

using std::size_t;

// Hosts by their clique, of cliques with several hosts only.
std::vector<std::vector<size_t>> wide_cliques(const Topology& topology) {
  std::map<int, std::vector<size_t>> all;
  const std::vector<int> cliques = cliques_of_hosts(topology);
  for (size_t host = 0; host < cliques.size(); ++host) all[cliques[host]].push_back(host);
  std::vector<std::vector<size_t>> wide;
  for (auto& [clique, hosts] : all)
    if (hosts.size() > 1) wide.push_back(std::move(hosts));
  return wide;
}

std::string text_of(const Gpu& gpu) {
  return gpu.fabric_cluster.empty()
             ? "no clique"
             : fmt::format("clique {} of cluster {}", gpu.fabric_clique.value_or(0), gpu.fabric_cluster);
}

// "no clique", "clique 0 of cluster ...", or "different cliques".
std::string clique_text(const Host& host) {
  std::set<std::string> all;
  for (const Gpu& gpu : host.gpu_devices) all.insert(text_of(gpu));
  return all.size() == 1 ? *all.begin() : "different cliques";
}

bool is_of_cluster(const Host& host, const std::string& cluster) {
  return std::ranges::any_of(host.gpu_devices, [&](const Gpu& gpu) { return gpu.fabric_cluster == cluster; });
}

// One finding for each host of a wide clique of which `problem_of` returns text.
template <class ProblemOf>
std::vector<Finding> each_host_of_cliques(const Topology& topology, const char* id, const char* action,
                                          ProblemOf problem_of) {
  std::vector<Finding> findings;
  for (const std::vector<size_t>& hosts : wide_cliques(topology))
    for (const size_t host : hosts)
      if (const std::string problem = problem_of(topology.hosts[host]); !problem.empty())
        findings.push_back(
            about_host(topology.hosts[host], id, Severity::error,
                       fmt::format("{} shares an NVLink domain with {} of this job, {}", topology.hosts[host].name,
                                   plural(hosts.size() - 1, "other host"), problem),
                       action));
  return findings;
}

}  // namespace

// A host alone in its clique, though others of its cluster, or of a job whose hosts all are in domains, are together.
// Hosts of different clusters are in different domains by design.
std::vector<Finding> outside_clique(const Topology& topology) {
  std::vector<Finding> findings;
  const std::vector<int> cliques = cliques_of_hosts(topology);
  const std::vector<std::vector<size_t>> wide = wide_cliques(topology);
  if (wide.empty()) return {};
  const Platform* const platform = platform_of(topology);
  for (size_t host = 0; host < cliques.size(); ++host) {
    const Host& its = topology.hosts[host];
    if (its.gpu_devices.empty() || std::ranges::count(cliques, cliques[host]) > 1) continue;
    const std::string text = clique_text(its);
    const auto beside = std::ranges::find_if(wide, [&](const std::vector<size_t>& hosts) {
      return is_of_cluster(its, topology.hosts[hosts.front()].gpu_devices.front().fabric_cluster);
    });
    const bool should_be_in_one = text == "no clique" && platform && platform->nodes_per_domain > 1;
    if (beside == wide.end() && !should_be_in_one && text != "different cliques") continue;
    const std::vector<size_t>& others = beside == wide.end() ? wide.front() : *beside;
    findings.push_back(about_host(
        its, "domain.clique", Severity::error,
        fmt::format("{} is outside the NVLink clique of the others: its GPUs say {}, those of {} {}", its.name, text,
                    plural(others.size(), "host"), clique_text(topology.hosts[others.front()])),
        "look at its GPUs' fabric state (nvidia-smi -q, Fabric) and at the fabric manager's partitions on the switch "
        "trays; until it is in the clique, its traffic goes over NICs and slows the whole job: leave it out or replace "
        "it"));
  }
  return findings;
}

std::vector<Finding> without_imex(const Topology& topology) {
  return each_host_of_cliques(
      topology, "domain.imex",
      "start nvidia-imex there (systemctl enable --now nvidia-imex); in Kubernetes give the job a ComputeDomain",
      [](const Host& host) {
        return host.imex && host.imex->running == false
                   ? "but no nvidia-imex runs there: NCCL cannot use NVLink between the hosts"
                   : "";
      });
}

std::vector<Finding> without_imex_channel(const Topology& topology) {
  return each_host_of_cliques(
      topology, "domain.imex_channel",
      "create one (NVreg_CreateImexChannel0=1 for the nvidia module, or nvidia-modprobe -i) and pass it into the "
      "container; Slurm: switch/nvidia_imex, Kubernetes: a ComputeDomain",
      [](const Host& host) {
        return host.imex && host.imex->channels == 0
                   ? "but has no IMEX channel in /dev/nvidia-caps-imex-channels that the job may use"
                   : "";
      });
}

// nodes_config.cfg has to be the same on all hosts of a domain, and to name them all.
std::vector<Finding> other_imex_nodes(const Topology& topology) {
  constexpr const char* action =
      "write one list of all nodes into /etc/nvidia-imex/nodes_config.cfg on each of them and restart nvidia-imex";
  std::vector<Finding> findings;
  for (const std::vector<size_t>& hosts : wide_cliques(topology)) {
    std::vector<std::vector<std::string>> lists;
    for (const size_t host : hosts)
      if (const auto& imex = topology.hosts[host].imex; imex && imex->nodes) lists.push_back(*imex->nodes);
    const auto most = usual(lists);
    for (const size_t at : hosts) {
      const Host& host = topology.hosts[at];
      if (!host.imex || !host.imex->nodes) continue;
      const std::vector<std::string>& its = *host.imex->nodes;
      std::string problem;
      if (!most)
        problem = fmt::format("{} names {}, and other hosts of its NVLink domain name others", host.name,
                              plural(its.size(), "node"));
      else if (its != *most)
        problem = fmt::format("{} names {} that are not those of most hosts of its NVLink domain ({})", host.name,
                              plural(its.size(), "node"), plural(most->size(), "node"));
      else if (its.size() < hosts.size())
        problem = fmt::format("{} names {}, and {} of its NVLink domain are in this job", host.name,
                              plural(its.size(), "node"), plural(hosts.size(), "host"));
      if (!problem.empty())
        findings.push_back(
            about_host(host, "domain.imex_nodes", Severity::error, "nodes_config.cfg of " + problem, action));
    }
  }
  return findings;
}

std::vector<Finding> domains_off(const Topology& topology) {
  const std::string variable = variable_against_domains(topology);
  const std::vector<std::vector<size_t>> wide = wide_cliques(topology);
  if (variable.empty() || wide.empty()) return {};
  return {{.id = "domain.off",
           .severity = Severity::warning,
           .subject = {},
           .evidence = fmt::format("{} keeps NCCL from using the NVLinks between {} of one domain: their traffic goes "
                                   "over NICs",
                                   variable, plural(wide.front().size(), "host")),
           .action = "unset it, unless it works around IMEX; p5bench ab --a NCCL_MNNVL_ENABLE=0 --b "
                     "NCCL_MNNVL_ENABLE=1 shows what the domain is worth"}};
}

// Frameworks give consecutive ranks to the groups that communicate most.
std::vector<Finding> ranks_across_domains(const Topology& topology) {
  if (wide_cliques(topology).empty()) return {};
  const std::vector<int> domains = domains_of_ranks(topology);
  std::set<int> left;
  int returns = 0;
  for (size_t rank = 1; rank < domains.size(); ++rank) {
    if (domains[rank] == domains[rank - 1]) continue;
    left.insert(domains[rank - 1]);
    returns += left.contains(domains[rank]) ? 1 : 0;
  }
  if (returns == 0) return {};
  return {{.id = "domain.order",
           .severity = Severity::warning,
           .subject = {},
           .evidence = fmt::format("the ranks are not ordered by NVLink domain: {} to a domain that earlier ranks are "
                                   "in, so neighbours in rings and groups of consecutive ranks meet over NICs",
                                   plural(static_cast<size_t>(returns), "return")),
           .action = "start with hosts.healthy of this run, which lists the hosts by domain; Slurm: topology/block and "
                     "--segment, "
                     "Kubernetes: one ComputeDomain a domain"}};
}

std::vector<Finding> unhealthy_fabric(const Topology& topology) {
  return each_gpu(topology, "gpu.fabric_health", Severity::error,
                  "see nvidia-smi -q (Fabric, Health) and the fabric manager's log on the switch trays; reset the GPU, "
                  "reboot, or replace the instance",
                  [](const Gpu& gpu) -> std::string {
                    const std::vector<std::string> troubles = gpu.fabric_trouble.value_or(std::vector<std::string>{});
                    return troubles.empty() ? "" : "says of its NVLink fabric: " + join(troubles);
                  });
}

std::vector<Finding> other_imex(const Topology& topology) {
  std::vector<Finding> findings;
  for (const std::vector<size_t>& hosts : wide_cliques(topology))
    for (const size_t at : hosts) {
      const Host& host = topology.hosts[at];
      const std::string imex = version_of(host, "imex"), driver = version_of(host, "nvidia driver");
      if (imex.empty() || driver.empty() || imex == driver) continue;
      findings.push_back(
          about_host(host, "version.imex", Severity::warning,
                     fmt::format("nvidia-imex {} beside NVIDIA driver {} on {}: it belongs to one driver", imex, driver,
                                 host.name),
                     "install nvidia-imex of exactly the driver's version on all nodes of the domain"));
    }
  return findings;
}

}  // namespace p5::topo
