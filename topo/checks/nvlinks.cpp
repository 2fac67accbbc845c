// The findings of NVLinks and NVLink domains.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "topo/checks/families.hpp"

namespace p5::topo {

// ---- gpu.links, gpu.link_rate, gpu.link_errors, domain.plane, gpu.fabric, gpu.nvls and fabric.manager: the way
// between the GPUs of an NVLink domain.

namespace {

// Highest count of replays or CRC errors of an NVLink that is not reported, because any healthy link resends single
// flits. A recovery retrains the link after a fault, so a single one is reported.
constexpr std::uint64_t most_retries = 1000;

bool waits_for_fabric(const Gpu& gpu) { return gpu.fabric_state == "not started" || gpu.fabric_state == "in progress"; }

std::string inactive_links(const Gpu& gpu) {
  std::vector<std::string> numbers;
  for (const NvLink& link : gpu.nvlinks)
    if (link.active == false) numbers.push_back(fmt::format("{}", link.number));
  return numbers.empty() ? "" : fmt::format(" (not active: {})", join(numbers));
}

// NVLinks expected of a GPU: the number that its host's platform specifies, else the highest among GPUs of the same
// model.
int expected_links(const Topology& topology, const Platform* platform, const Gpu& like) {
  if (platform) return platform->links_per_gpu;
  int most = 0;
  for (const Host& host : topology.hosts)
    for (const Gpu& gpu : host.gpu_devices)
      if (gpu.name == like.name) most = std::max(most, gpu.links.value_or(0));
  return most;
}

// True if each GPU of this model that has NVLinks is joined to one other GPU only, as bridges do: a GPU without a
// bridge is no faulty one.
bool is_bridged_in_twos(const Topology& topology, const Gpu& like) {
  bool joined = false;
  for (const Host& host : topology.hosts)
    for (const Gpu& gpu : host.gpu_devices) {
      if (gpu.name != like.name || gpu.links.value_or(0) == 0) continue;
      std::set<std::string> partners;
      for (const NvLink& link : gpu.nvlinks) {
        if (link.active == false) continue;
        if (link.remote != "gpu") return false;
        partners.insert(link.remote_pci);
      }
      if (partners.size() != 1) return false;
      joined = true;
    }
  return joined;
}

// The GPUs of one clique of hosts.
struct CliqueGpus {
  std::vector<std::string> hosts;
  const Platform* platform = nullptr;  // of the first host
  std::vector<const Gpu*> gpus;
  std::set<std::pair<std::optional<int>, std::string>> links;  // active links, and those that are not
};

// Cliques of several hosts whose GPUs all lack the same NVLinks: the switches at the other end are missing, not the
// GPUs' links. By the number of the clique.
std::map<int, CliqueGpus> cliques_without_plane(const Topology& topology) {
  const std::vector<int> cliques = cliques_of_hosts(topology);
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  std::map<int, CliqueGpus> all;
  for (std::size_t host = 0; host < cliques.size(); ++host) {
    CliqueGpus& its = all[cliques[host]];
    if (its.hosts.empty()) its.platform = platforms[host];
    its.hosts.push_back(topology.hosts[host].name);
    for (const Gpu& gpu : topology.hosts[host].gpu_devices) {
      its.gpus.push_back(&gpu);
      its.links.insert({gpu.links, inactive_links(gpu)});
    }
  }
  std::erase_if(all, [&](const auto& clique) {
    const CliqueGpus& its = clique.second;
    if (its.hosts.size() < 2 || its.links.size() != 1) return true;
    const Gpu& first = *its.gpus.front();
    return !first.links || *first.links >= expected_links(topology, its.platform, first);
  });
  return all;
}

// Where the NVSwitches are on other machines, as in NVLink domains, their fabric manager is too.
bool lacks_fabric_manager(const Host& host) {
  return host.nvswitches.value_or(0) > 0 && host.fabric_manager_running == false;
}

// True if the fabric manager, which trains the NVLinks of A100, is not there to do so. Links of later GPUs come up by
// themselves, and these GPUs wait for it in a state of their own.
bool links_wait_for_manager(const Host& host) {
  const auto of_known_links = [](const Gpu& gpu) { return gpu.links.has_value(); };
  return lacks_fabric_manager(host) && std::ranges::any_of(host.gpu_devices, of_known_links) &&
         std::ranges::all_of(host.gpu_devices,
                             [](const Gpu& gpu) { return gpu.links.value_or(0) == 0 && !waits_for_fabric(gpu); });
}

// The usual rate of the links of each model of GPUs.
std::map<std::string, std::optional<double>> usual_rates(const Topology& topology) {
  std::map<std::string, std::vector<double>> rates;
  for (const Host& host : topology.hosts)
    for (const Gpu& gpu : host.gpu_devices)
      for (const NvLink& link : gpu.nvlinks)
        if (link.rate_raw && link.active != false) rates[gpu.name].push_back(link.rate_raw->count);
  std::map<std::string, std::optional<double>> of_models;
  for (const auto& [model, its] : rates) of_models[model] = usual(its);
  return of_models;
}

}  // namespace

std::vector<Finding> missing_planes(const Topology& topology) {
  std::vector<Finding> findings;
  for (const auto& [clique, its] : cliques_without_plane(topology)) {
    const Gpu& first = *its.gpus.front();
    findings.push_back(
        {.id = "domain.plane",
         .severity = Severity::error,
         .subject = {},
         .evidence = fmt::format("all {} GPUs of NVLink domain d{} (of {} and {}) have {} active NVLinks of {}{}: a "
                                 "switch plane is missing, not the links of one GPU",
                                 its.gpus.size(), clique, its.hosts.front(), plural(its.hosts.size() - 1, "other host"),
                                 *first.links, expected_links(topology, its.platform, first), inactive_links(first)),
         .action = "look at the switch trays of that domain (their NVOS or BMC, and the fabric manager's log there); "
                   "replace the tray, or the UltraServer",
         .hosts = its.hosts});
  }
  return findings;
}

std::vector<Finding> missing_links(const Topology& topology) {
  std::set<const Gpu*> by_plane;
  for (const auto& [clique, its] : cliques_without_plane(topology)) by_plane.insert(its.gpus.begin(), its.gpus.end());
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  const auto lacking = [&](bool without_bridge) {
    return [&topology, &by_plane, &platforms, without_bridge](std::size_t host, const Gpu& gpu) -> std::string {
      if (!gpu.links || by_plane.contains(&gpu) || links_wait_for_manager(topology.hosts[host])) return "";
      const int expected = expected_links(topology, platforms[host], gpu);
      if (*gpu.links >= expected) return "";
      if ((*gpu.links == 0 && is_bridged_in_twos(topology, gpu)) != without_bridge) return "";
      return fmt::format("has {} active NVLinks of {}{}", *gpu.links, expected, inactive_links(gpu));
    };
  };
  return both(each_gpu(topology, "gpu.links", Severity::error,
                       "reset the GPU (nvidia-smi --gpu-reset), reboot, or replace the instance", lacking(false)),
              each_gpu(topology, "gpu.links", Severity::warning,
                       "look whether this GPU is meant to have an NVLink bridge as the others have; if so, look "
                       "how it is seated",
                       lacking(true)));
}

std::vector<Finding> slow_links(const Topology& topology) {
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  const std::map<std::string, std::optional<double>> usual_of_models = usual_rates(topology);
  const auto expected_rate = [&](std::size_t host, const Gpu& gpu) -> std::optional<double> {
    if (platforms[host]) return platforms[host]->link_rate_raw.count;
    const auto usual_rate = usual_of_models.find(gpu.name);
    return usual_rate == usual_of_models.end() ? std::nullopt : usual_rate->second;
  };
  return each_gpu(
      topology, "gpu.link_rate", Severity::error,
      "reset the GPU or reboot, so that the links are trained again; replace the instance if that does not help",
      [&](std::size_t host, const Gpu& gpu) -> std::string {
        const std::optional<double> expected = expected_rate(host, gpu);
        std::vector<std::string> slow;
        for (const NvLink& link : gpu.nvlinks)
          if (expected && link.active != false && link.rate_raw && link.rate_raw->count < 0.99 * *expected)
            slow.push_back(fmt::format("{} at {:.6g}", link.number, link.rate_raw->count));
        return slow.empty() ? ""
                            : fmt::format("has NVLinks below {:.6g} GB/s of raw signalling: {}", *expected, join(slow));
      });
}

std::vector<Finding> link_errors(const Topology& topology) {
  return each_gpu(
      topology, "gpu.link_errors", Severity::warning,
      "watch whether the counts rise during the run (nvidia-smi nvlink -e); replace the instance if they do",
      [](const Gpu& gpu) -> std::string {
        std::vector<std::string> troubled;
        for (const NvLink& link : gpu.nvlinks)
          for (const auto& [kind, count] : link.errors)
            if (count > (kind.starts_with("recovery") ? 0 : most_retries))
              troubled.push_back(fmt::format("link {}: {} {}", link.number, count, kind));
        return troubled.empty() ? "" : "counts NVLink errors: " + join(troubled);
      });
}

std::vector<Finding> unready_fabric(const Topology& topology) {
  return each_gpu(
      topology, "gpu.fabric", Severity::error,
      "look at nvidia-fabricmanager (systemctl status; its log) and start it again; right after boot wait a "
      "minute; until then CUDA fails (error 802) or NVLS is off",
      [&](std::size_t host, const Gpu& gpu) -> std::string {
        if (waits_for_fabric(gpu))
          return fmt::format("has not joined the NVSwitch fabric: state '{}'{}", gpu.fabric_state,
                             lacks_fabric_manager(topology.hosts[host]) ? "; no nvidia-fabricmanager runs there" : "");
        if (gpu.fabric_state == "completed" && gpu.fabric_status.value_or(0) != 0)
          return fmt::format("failed to join the NVSwitch fabric: NVML status {}", *gpu.fabric_status);
        return "";
      });
}

// A driver that reports no NVSwitch fabric has no multicast either. NCCL's log shows whether NVLS is used in the end
// (nccl.nvls_off).
std::vector<Finding> without_nvls(const Topology& topology) {
  if (setting(topology, "NCCL_NVLS_ENABLE") == "0") return {};
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  return each_gpu(topology, "gpu.nvls", Severity::warning,
                  "see whether all GPUs and NVSwitches are given to this machine or container, and "
                  "nvidia-fabricmanager; an all_reduce on one node is a quarter slower without NVLS",
                  [&](std::size_t host, const Gpu& gpu) -> std::string {
                    const Platform* const platform = platforms[host];
                    return platform && platform->nvls && gpu.fabric_state == "not supported"
                               ? "has no NVSwitch fabric by its driver, so no NVLS, which " + platform->name + " has"
                               : "";
                  });
}

// Without NVLinks the host is as unsound as one whose GPUs have not joined the fabric.
std::vector<Finding> absent_fabric_manager(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    // GPUs that wait for the fabric manager are reported by a finding of their own.
    if (!lacks_fabric_manager(host) || std::ranges::any_of(host.gpu_devices, waits_for_fabric)) continue;
    const bool without_links = links_wait_for_manager(host);
    findings.push_back(
        about_host(host, "fabric.manager", Severity::error,
                   fmt::format("{} NVSwitches on {}, but no nvidia-fabricmanager runs there{}", *host.nvswitches,
                               host.name, without_links ? ", and no NVLink of its GPUs is active" : ""),
                   "install nvidia-fabricmanager of the driver's version and enable it (systemctl enable --now)"));
    if (without_links) findings.back().about = About::fabric;
  }
  return findings;
}

// ---- Findings about NVLink between hosts: domain.clique, domain.plane, domain.imex, domain.imex_channel,
// domain.imex_nodes, domain.off, domain.order, gpu.fabric_health and version.imex.

namespace {

using std::size_t;

bool is_no_partition(const std::string& trouble) { return trouble == no_partition; }

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
  for (const Gpu& gpu : host.gpu_devices)
    if (is_clique_known(gpu)) all.insert(text_of(gpu));
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

constexpr const char* look_at_partitions =
    "look at its GPUs' fabric state (nvidia-smi -q, Fabric) and at the fabric manager's partitions on the switch "
    "trays; ";

// "" where its GPUs are in none.
std::string cluster_of(const Host& host) {
  const auto gpu = std::ranges::find_if(host.gpu_devices, [](const Gpu& each) { return !each.fabric_cluster.empty(); });
  return gpu == host.gpu_devices.end() ? "" : gpu->fabric_cluster;
}

bool is_in_clique(const Host& host) {
  const std::string text = clique_text(host);
  return is_clique_known(host) && text != "no clique" && text != "different cliques";
}

// Hosts of the job that should share an NVLink domain, of which no two do, and nothing tells which of them is right.
Finding no_common_clique(const std::vector<std::string>& hosts, const std::string& problem) {
  return {.id = "domain.clique",
          .severity = Severity::error,
          .subject = {},
          .evidence = fmt::format("{} of this job share no NVLink domain: {}", plural(hosts.size(), "host"), problem),
          .action = std::string(look_at_partitions) +
                    "until the hosts are in one clique, all traffic between them goes over NICs",
          .hosts = hosts};
}

}  // namespace

// A host alone in its clique, though others of its cluster, or of a job whose hosts all are in domains, are together;
// and hosts of which no two are together, though they are of one cluster, or in none though their platform has domains.
// Hosts of different clusters are in different domains by design.
std::vector<Finding> outside_clique(const Topology& topology) {
  std::vector<Finding> findings;
  if (topology.hosts.size() < 2) return {};
  const std::vector<int> cliques = cliques_of_hosts(topology);
  const std::vector<std::vector<size_t>> wide = wide_cliques(topology);
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  std::vector<std::string> without_clique;
  std::map<std::string, std::vector<std::string>> apart_of_cluster;
  const auto in_clique = std::ranges::find_if(topology.hosts, is_in_clique);
  for (size_t host = 0; host < cliques.size(); ++host) {
    const Host& its = topology.hosts[host];
    if (!is_clique_known(its) || std::ranges::count(cliques, cliques[host]) > 1) continue;
    const std::string text = clique_text(its);
    const auto beside = std::ranges::find_if(wide, [&](const std::vector<size_t>& hosts) {
      return is_of_cluster(its, cluster_of(topology.hosts[hosts.front()]));
    });
    const Platform* const platform = platforms[host];
    const bool should_be_in_one = text == "no clique" && platform && platform->nodes_per_domain > 1;
    if (beside == wide.end() && !should_be_in_one && text != "different cliques") {
      if (is_in_clique(its)) apart_of_cluster[cluster_of(its)].push_back(its.name);
      continue;
    }
    if (should_be_in_one && in_clique == topology.hosts.end()) {
      without_clique.push_back(its.name);
      continue;
    }
    // Those beside it, else those of any clique, else the first host in one, which is alone there.
    const size_t others = beside != wide.end() ? beside->size() : wide.empty() ? 1 : wide.front().size();
    const auto other = beside != wide.end() ? topology.hosts.begin() + static_cast<std::ptrdiff_t>(beside->front())
                       : wide.empty()       ? in_clique
                                      : topology.hosts.begin() + static_cast<std::ptrdiff_t>(wide.front().front());
    findings.push_back(
        about_host(its, "domain.clique", Severity::error,
                   other == topology.hosts.end()
                       ? fmt::format("{} is in no NVLink clique: its GPUs say {}", its.name, text)
                       : fmt::format("{} is outside the NVLink clique of the others: its GPUs say {}, those of {} {}",
                                     its.name, text, plural(others, "host"), clique_text(*other)),
                   std::string(look_at_partitions) + "until it is in the clique, its traffic goes over NICs and slows "
                                                     "the whole job: leave it out or replace it"));
  }
  if (without_clique.size() > 1) findings.push_back(no_common_clique(without_clique, "the GPUs of each say no clique"));
  for (const auto& [cluster, hosts] : apart_of_cluster)
    if (hosts.size() > 1)
      findings.push_back(
          no_common_clique(hosts, fmt::format("all are of cluster {}, and each is in a clique of its own", cluster)));
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
  const std::string variable = variable_that_disables_domains(topology);
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
  std::vector<int> domains = domains_of_ranks(topology);
  for (size_t rank = domains.size(); rank-- > 0;)
    if (!is_clique_known(topology.hosts.at(static_cast<size_t>(topology.host_of_rank[rank]))))
      domains.erase(domains.begin() + static_cast<std::ptrdiff_t>(rank));
  std::set<int> left;
  int returns = 0;
  for (size_t rank = 1; rank < domains.size(); ++rank) {
    if (domains[rank] == domains[rank - 1]) continue;
    left.insert(domains[rank - 1]);
    returns += left.contains(domains[rank]) ? 1 : 0;
  }
  if (returns == 0) return {};
  // In hosts.healthy hosts are by domain; it helps only if they are not so already.
  const char* const action =
      std::ranges::is_sorted(domains_of_hosts(topology))
          ? "the hosts are in order, so give consecutive ranks to each host: mpirun --map-by slot, srun "
            "--distribution=block"
          : "start with hosts.healthy of this run, which lists the hosts by domain; Slurm: topology/block and "
            "--segment, Kubernetes: one ComputeDomain a domain";
  return {{.id = "domain.order",
           .severity = Severity::warning,
           .subject = {},
           .evidence = fmt::format("the ranks are not ordered by NVLink domain: {} to a domain that earlier ranks are "
                                   "in, so neighbours in rings and groups of consecutive ranks meet over NICs",
                                   plural(returns, "return")),
           .action = action}};
}

std::vector<Finding> unhealthy_fabric(const Topology& topology) {
  const auto with_troubles = [](bool in_no_partition) {
    return [in_no_partition](const Gpu& gpu) -> std::string {
      const std::vector<std::string> troubles = gpu.fabric_trouble.value_or(std::vector<std::string>{});
      if (troubles.empty() || std::ranges::all_of(troubles, is_no_partition) != in_no_partition) return "";
      return "says of its NVLink fabric: " + join(troubles);
    };
  };
  return both(
      each_gpu(topology, "gpu.fabric_health", Severity::error,
               "see nvidia-smi -q (Fabric, Health) and the fabric manager's log on the switch trays; reset the GPU, "
               "reboot, or replace the instance",
               with_troubles(false)),
      each_gpu(topology, "gpu.fabric_health", Severity::warning,
               "let the fabric manager on the switch trays assign it to a partition, if hosts are to "
               "share its NVLink domain",
               with_troubles(true)));
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
