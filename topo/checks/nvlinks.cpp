// gpu.links, gpu.link_rate, gpu.link_errors, domain.plane, gpu.fabric, gpu.nvls and fabric.manager: the way between the
// GPUs of an NVLink domain.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "topo/checks/about.hpp"
#include "topo/checks/families.hpp"

namespace p5::topo {

namespace {

// Highest count of replays or CRC errors of an NVLink that is not reported, because any healthy link resends single
// flits. A recovery retrains the link after a fault, so a single one is reported.
constexpr std::uint64_t most_retries = 1000;

std::string inactive_links(const Gpu& gpu) {
  std::vector<std::string> numbers;
  for (const NvLink& link : gpu.nvlinks)
    if (link.active == false) numbers.push_back(fmt::format("{}", link.number));
  return numbers.empty() ? "" : fmt::format(" (not active: {})", join(numbers));
}

// NVLinks expected of a GPU: the number that the platform specifies, else the highest among GPUs of the same model.
int expected_links(const Topology& topology, const Gpu& like) {
  if (const Platform* platform = platform_of(topology)) return platform->links_per_gpu;
  int most = 0;
  for (const Host& host : topology.hosts)
    for (const Gpu& gpu : host.gpu_devices)
      if (gpu.name == like.name) most = std::max(most, gpu.links.value_or(0));
  return most;
}

// GPUs of several hosts in one clique that all lack the same NVLinks: the switches at the other end are missing, not
// the GPUs' links. By the number of their clique.
std::map<int, std::vector<const Gpu*>> gpus_without_plane(const Topology& topology) {
  const std::vector<int> cliques = cliques_of_hosts(topology);
  std::map<int, std::vector<const Gpu*>> all;
  std::map<int, std::set<std::pair<std::optional<int>, std::string>>> missing;
  for (std::size_t host = 0; host < cliques.size(); ++host) {
    if (std::ranges::count(cliques, cliques[host]) < 2) continue;
    for (const Gpu& gpu : topology.hosts[host].gpu_devices) {
      all[cliques[host]].push_back(&gpu);
      missing[cliques[host]].insert({gpu.links, inactive_links(gpu)});
    }
  }
  std::erase_if(all, [&](const auto& of_clique) {
    const auto& [clique, gpus] = of_clique;
    const std::optional<int> links = gpus.front()->links;
    return missing[clique].size() > 1 || !links || *links >= expected_links(topology, *gpus.front());
  });
  return all;
}

std::optional<double> expected_rate(const Topology& topology) {
  if (const Platform* platform = platform_of(topology)) return platform->link_rate_raw.count;
  std::vector<double> rates;
  for (const Host& host : topology.hosts)
    for (const Gpu& gpu : host.gpu_devices)
      for (const NvLink& link : gpu.nvlinks)
        if (link.rate_raw && link.active != false) rates.push_back(link.rate_raw->count);
  return usual(rates);
}

}  // namespace

std::vector<Finding> missing_planes(const Topology& topology) {
  std::vector<Finding> findings;
  for (const auto& [clique, gpus] : gpus_without_plane(topology)) {
    const Gpu& first = *gpus.front();
    const std::vector<int> cliques = cliques_of_hosts(topology);
    const auto host = std::ranges::find(cliques, clique) - cliques.begin();
    findings.push_back(
        {.id = "domain.plane",
         .severity = Severity::error,
         .subject = {},
         .evidence =
             fmt::format("all {} GPUs of NVLink domain d{} (of {} and {}) have {} active NVLinks of {}{}: a "
                         "switch plane is missing, not the links of one GPU",
                         gpus.size(), clique, topology.hosts[static_cast<std::size_t>(host)].name,
                         plural(static_cast<std::size_t>(std::ranges::count(cliques, clique)) - 1, "other host"),
                         *first.links, expected_links(topology, first), inactive_links(first)),
         .action = "look at the switch trays of that domain (their NVOS or BMC, and the fabric manager's log there); "
                   "replace the tray, or the UltraServer"});
  }
  return findings;
}

std::vector<Finding> missing_links(const Topology& topology) {
  std::set<const Gpu*> by_plane;
  for (const auto& [clique, gpus] : gpus_without_plane(topology)) by_plane.insert(gpus.begin(), gpus.end());
  return each_gpu(topology, "gpu.links", Severity::error,
                  "reset the GPU (nvidia-smi --gpu-reset), reboot, or replace the instance",
                  [&](const Gpu& gpu) -> std::string {
                    if (!gpu.links || by_plane.contains(&gpu)) return "";
                    const int expected = expected_links(topology, gpu);
                    if (*gpu.links >= expected) return "";
                    return fmt::format("has {} active NVLinks of {}{}", *gpu.links, expected, inactive_links(gpu));
                  });
}

std::vector<Finding> slow_links(const Topology& topology) {
  const std::optional<double> expected = expected_rate(topology);
  return each_gpu(
      topology, "gpu.link_rate", Severity::error,
      "reset the GPU or reboot, so that the links are trained again; replace the instance if that does not help",
      [&](const Gpu& gpu) -> std::string {
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
            if (count > (kind == "recovery" ? 0 : most_retries))
              troubled.push_back(fmt::format("link {}: {} {}", link.number, count, kind));
        return troubled.empty() ? "" : "counts NVLink errors: " + join(troubled);
      });
}

std::vector<Finding> unready_fabric(const Topology& topology) {
  return each_gpu(
      topology, "gpu.fabric", Severity::error,
      "look at nvidia-fabricmanager (systemctl status; its log) and start it again; right after boot wait a "
      "minute; until then CUDA fails (error 802) or NVLS is off",
      [](const Gpu& gpu) -> std::string {
        if (gpu.fabric_state == "not started" || gpu.fabric_state == "in progress")
          return fmt::format("has not joined the NVSwitch fabric: state '{}'", gpu.fabric_state);
        if (gpu.fabric_state == "completed" && gpu.fabric_status.value_or(0) != 0)
          return fmt::format("failed to join the NVSwitch fabric: NVML status {}", *gpu.fabric_status);
        return "";
      });
}

// A driver that reports no NVSwitch fabric has no multicast either. NCCL's log shows whether NVLS is used in the end
// (nccl.nvls_off).
std::vector<Finding> without_nvls(const Topology& topology) {
  const Platform* const platform = platform_of(topology);
  if (!platform || !platform->nvls || setting(topology, "NCCL_NVLS_ENABLE") == "0") return {};
  return each_gpu(topology, "gpu.nvls", Severity::warning,
                  "see whether all GPUs and NVSwitches are given to this machine or container, and "
                  "nvidia-fabricmanager; an all_reduce on one node is a quarter slower without NVLS",
                  [&](const Gpu& gpu) -> std::string {
                    return gpu.fabric_state == "not supported"
                               ? "has no NVSwitch fabric by its driver, so no NVLS, which " + platform->name + " has"
                               : "";
                  });
}

std::vector<Finding> absent_fabric_manager(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    const bool joined = std::ranges::any_of(host.gpu_devices, [](const Gpu& gpu) {
      return gpu.fabric_state == "not started" || gpu.fabric_state == "in progress";
    });
    // GPUs that wait for the fabric manager are reported by a finding of their own.
    if (host.nvswitches.value_or(0) == 0 || host.fabric_manager_running != false || joined) continue;
    findings.push_back(about_host(
        host, "fabric.manager", Severity::error,
        fmt::format("{} NVSwitches on {}, but no nvidia-fabricmanager runs there", *host.nvswitches, host.name),
        "install nvidia-fabricmanager of the driver's version and enable it (systemctl enable --now)"));
  }
  return findings;
}

}  // namespace p5::topo
