// gpu.nvml, gpu.links and gpu.busy: what NVML tells of GPUs that will be slower than they could be.
#include <fmt/format.h>

#include <algorithm>

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
                          "see whether nvidia-smi answers there; if it hangs too, reboot or replace the instance"});
  return findings;
}

std::vector<Finding> missing_links(const Topology& topology) {
  int most = 0;
  for (const Host& host : topology.hosts)
    for (const Gpu& gpu : host.gpu_devices) most = std::max(most, gpu.links);
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts)
    for (std::size_t i = 0; i < host.gpu_devices.size(); ++i)
      if (const Gpu& gpu = host.gpu_devices[i]; gpu.links < most)
        findings.push_back(
            about(host, i, "gpu.links", Severity::error,
                  fmt::format("{} ({}) has {} active NVLinks, others have {}", gpu.uuid, gpu.name, gpu.links, most),
                  "reset the GPU or replace the instance"));
  return findings;
}

std::vector<Finding> busy_gpus(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts)
    for (std::size_t i = 0; i < host.gpu_devices.size(); ++i)
      if (const Gpu& gpu = host.gpu_devices[i]; gpu.processes.value_or(0) > 0)
        findings.push_back(
            about(host, i, "gpu.busy", Severity::warning,
                  fmt::format("{} other {} on {} ({})", *gpu.processes,
                              *gpu.processes == 1 ? "program computes" : "programs compute", gpu.uuid, gpu.name),
                  "end them or wait: the figures are shared with them"));
  return findings;
}

}  // namespace p5::topo
