// gpu.nvml, gpu.busy and gpu.hidden: GPUs that NVML cannot query, that other programs use, or that ranks may not see.
#include <fmt/format.h>

#include <algorithm>

#include "bench/base/names.hpp"
#include "topo/checks/families.hpp"

namespace p5::topo {

namespace {

Finding about(const Host& host, std::size_t gpu, std::string id, Severity severity, std::string evidence,
              std::string action) {
  return {std::move(id),
          severity,
          {host.name, host.instance, static_cast<int>(gpu), {}},
          std::move(evidence),
          std::move(action)};
}

}  // namespace

std::vector<Finding> silent_nvml(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts)
    if (!host.gpu_problem.empty())
      findings.push_back({"gpu.nvml",
                          Severity::warning,
                          {host.name, host.instance, {}, {}},
                          fmt::format("NVML: {}", host.gpu_problem),
                          "check whether nvidia-smi answers there; if it hangs too, reboot or replace the instance"});
  return findings;
}

std::vector<Finding> busy_gpus(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts)
    for (std::size_t i = 0; i < host.gpu_devices.size(); ++i)
      if (const Gpu& gpu = host.gpu_devices[i]; gpu.processes.value_or(0) > 0)
        findings.push_back(about(host, i, "gpu.busy", Severity::warning,
                                 fmt::format("{} other {} on {} ({}){}", *gpu.processes,
                                             *gpu.processes == 1 ? "program computes" : "programs compute", gpu.uuid,
                                             gpu.name, gpu.used_by.empty() ? "" : ": " + join(gpu.used_by, "; ")),
                                 "end them or wait: they share the GPU's performance with this run"));
  return findings;
}

// One finding a host: its first rank that sees fewer GPUs than the ranks there use.
std::vector<Finding> hidden_gpus(const Topology& topology) {
  std::vector<Finding> findings;
  for (std::size_t h = 0; h < topology.hosts.size(); ++h) {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < topology.gpus_seen_of_rank.size(); ++rank)
      if (topology.host_of_rank[rank] == static_cast<int>(h)) ranks.push_back(rank);
    const int used = std::min(static_cast<int>(ranks.size()), topology.hosts[h].gpus);
    const auto restricted =
        std::ranges::find_if(ranks, [&](std::size_t rank) { return topology.gpus_seen_of_rank[rank] < used; });
    if (restricted == ranks.end()) continue;
    findings.push_back(
        {"gpu.hidden",
         Severity::error,
         {topology.hosts[h].name, topology.hosts[h].instance, {}, {}},
         fmt::format("rank {} sees {} of the {} GPUs that the ranks on {} use", *restricted,
                     topology.gpus_seen_of_rank[*restricted], used, topology.hosts[h].name),
         "let all ranks of a host see all its GPUs (Slurm: --gpus-per-node instead of --gpus-per-task, no "
         "--gpu-bind; no CUDA_VISIBLE_DEVICES per rank): NCCL may otherwise go through host memory"});
  }
  return findings;
}

}  // namespace p5::topo
