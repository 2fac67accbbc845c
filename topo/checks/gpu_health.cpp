// The findings of single GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/base/names.hpp"
#include "topo/checks/families.hpp"
#include "topo/tables.hpp"

namespace p5::topo {

// ---- gpu.count, gpu.lost, gpu.unseen, gpu.throttled, gpu.memory_errors, gpu.ecc, gpu.power_cap, gpu.pcie, gpu.mig and
// gpu.compute_mode: single GPUs that are missing, faulty, throttled or configured for another purpose.

namespace {

// Memory faults of a GPU, worst first: only the first that applies is reported. NVIDIA, GPU Memory Error Management.
struct MemoryTrouble {
  std::string (*of)(const GpuMemoryErrors& errors);
  const char* action;
};
constexpr std::array memory_troubles{
    MemoryTrouble{[](const GpuMemoryErrors& errors) -> std::string {
                    return errors.remap_failed.value_or(false) ? "could not remap a faulty row of its memory" : "";
                  },
                  "replace the instance: the GPU will fail again under load"},
    MemoryTrouble{[](const GpuMemoryErrors& errors) -> std::string {
                    return errors.uncorrected.value_or(0) == 0
                               ? ""
                               : fmt::format("counts {} uncorrected memory errors since its driver was loaded",
                                             *errors.uncorrected);
                  },
                  "reset the GPU (nvidia-smi --gpu-reset) or reboot; replace the instance if they come back"},
    MemoryTrouble{[](const GpuMemoryErrors& errors) -> std::string {
                    if (errors.remap_pending.value_or(false))
                      return "waits for a reset to remap a faulty row of its memory";
                    return errors.retirement_pending.value_or(false)
                               ? "waits for a reset to retire a faulty page of its memory"
                               : "";
                  },
                  "reset the GPU (nvidia-smi --gpu-reset) or reboot: the row is then remapped; replace the instance if "
                  "it comes back"}};

// The value that most GPUs of each model have; null: none.
std::map<std::string, std::optional<int>> usual_of_each_model(const Topology& topology,
                                                              std::optional<int> PcieLink::*value) {
  std::map<std::string, std::vector<int>> all;
  for (const Host& host : topology.hosts)
    for (const Gpu& gpu : host.gpu_devices) {
      std::vector<int>& its = all[gpu.name];
      if (gpu.pcie.*value) its.push_back(*(gpu.pcie.*value));
    }
  std::map<std::string, std::optional<int>> of_models;
  for (const auto& [model, its] : all) of_models[model] = usual(its);
  return of_models;
}

// Compares the highest PCIe generation that GPU and host support, not the current one: an idle link lowers its
// generation. A virtual machine may report any value, so this finding is only a warning.
std::vector<Finding> slow_pcie(const Topology& topology) {
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  const std::map<std::string, std::optional<int>> usual_of_models =
      usual_of_each_model(topology, &PcieLink::generation_max);
  const auto expected = [&](std::size_t host, const Gpu& gpu) {
    if (platforms[host] && platforms[host]->gpu_pcie_generation) return platforms[host]->gpu_pcie_generation;
    return usual_of_models.at(gpu.name);
  };
  return each_gpu(topology, "gpu.pcie", Severity::warning,
                  "reboot, so that the link is trained again; see whether firmware or hypervisor hold it back; replace "
                  "the instance if others do better",
                  [&](std::size_t host, const Gpu& gpu) -> std::string {
                    const std::optional<int> full = expected(host, gpu);
                    const int reached = std::max(gpu.pcie.generation_max.value_or(0), gpu.pcie.generation.value_or(0));
                    if (!full || !gpu.pcie.generation_max || reached >= *full) return "";
                    return fmt::format("reaches PCIe generation {} at most of {}", reached, *full);
                  });
}

}  // namespace

std::vector<Finding> wrong_gpu_counts(const Topology& topology) {
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  return each_host(topology, "gpu.count", Severity::error,
                   "check that the container gets all devices; look for XID 79 in dmesg; replace the instance",
                   [&](std::size_t at, const Host& host) -> std::string {
                     const Platform* const platform = platforms[at];
                     if (!platform || !host.seen_by.empty() || host.gpus == platform->gpus) return "";
                     return fmt::format("{} shows {} GPUs on PCI, {} has {}", host.name, host.gpus, platform->name,
                                        platform->gpus);
                   });
}

namespace {

// True if NVML, or the program that asks it, did not answer in time.
bool is_of_silence(const std::string& problem) { return problem.find("answer within") != std::string::npos; }

}  // namespace

// Without persistence mode the driver initializes GPUs one after the other before they answer, seconds each.
std::vector<Finding> lost_gpus(const Topology& topology) {
  std::vector<Finding> findings = each_gpu(
      topology, "gpu.lost", Severity::error,
      "look for XID 79, 'fallen off the bus' and 'RmInitAdapter failed' in dmesg; reboot or replace the instance",
      [](const Gpu& gpu) -> std::string { return gpu.problem.empty() ? "" : "does not answer NVML: " + gpu.problem; });
  for (const Host& host : topology.hosts) {
    if (std::ranges::find(host.gpu_devices, std::optional(false), &Gpu::persistence) == host.gpu_devices.end())
      continue;
    for (Finding& finding : findings)
      if (finding.subject.host == host.name && is_of_silence(finding.evidence))
        finding.action =
            "start nvidia-persistenced (or nvidia-smi -pm 1) and check again, since GPUs without persistence mode take "
            "seconds to answer. If it is still silent: " +
            finding.action;
  }
  return findings;
}

// A container or a job that gets some of a host's GPUs sees the others on PCI all the same: that condemns nothing. One
// that the driver cannot start has a problem, and is gpu.lost.
std::vector<Finding> unseen_gpus(const Topology& topology) {
  std::vector<Finding> findings =
      each_gpu(topology, "gpu.unseen", Severity::error,
               "let the container or job have all GPUs of its hosts; if it has, look for XID 79 and 'fallen off the "
               "bus' in dmesg",
               [](const Gpu& gpu) -> std::string {
                 return gpu.problem.empty() && gpu.uuid.empty() ? "is on PCI, but NVML does not know it" : "";
               });
  // Hosts where NVML reported no GPU are skipped, because gpu.nvml covers them; so are hosts where NVML was not
  // queried, such as those imported from a file with PCI devices only.
  for (const Host& host : topology.hosts)
    if (host.gpu_driver.empty() ||
        (!host.gpu_problem.empty() && std::ranges::all_of(host.gpu_devices, &std::string::empty, &Gpu::uuid)))
      std::erase_if(findings, [&](const Finding& finding) { return finding.subject.host == host.name; });
  return findings;
}

std::vector<Finding> throttled_gpus(const Topology& topology) {
  return each_gpu(
      topology, "gpu.throttled", Severity::warning,
      "check temperature, power and clocks (nvidia-smi -q -d PERFORMANCE); replace the instance if it persists",
      [](const Gpu& gpu) -> std::string {
        const std::uint64_t mask = gpu.state.throttle_mask.value_or(0);
        if (!held_back(mask)) return "";
        std::string text = "is held back: " + join(throttle_reasons(mask));
        if (gpu.state.temperature_c) text += fmt::format(", {} degrees C", *gpu.state.temperature_c);
        if (gpu.state.sm_clock_mhz && gpu.sm_clock_max_mhz)
          text += fmt::format(", {} of {} MHz", *gpu.state.sm_clock_mhz, *gpu.sm_clock_max_mhz);
        return text;
      });
}

std::vector<Finding> memory_errors(const Topology& topology) {
  std::vector<Finding> findings;
  for (const MemoryTrouble& trouble : memory_troubles) {
    const auto worst = [&](const Gpu& gpu) -> std::string {
      const auto first = std::ranges::find_if(memory_troubles,
                                              [&](const MemoryTrouble& each) { return !each.of(gpu.errors).empty(); });
      return first == &trouble ? trouble.of(gpu.errors) : "";
    };
    std::ranges::move(each_gpu(topology, "gpu.memory_errors", Severity::error, trouble.action, worst),
                      std::back_inserter(findings));
  }
  return findings;
}

std::vector<Finding> without_ecc(const Topology& topology) {
  return each_gpu(topology, "gpu.ecc", Severity::warning, "switch it on (nvidia-smi -e 1) and reboot",
                  [](const Gpu& gpu) -> std::string {
                    return gpu.errors.ecc == false ? "does not correct memory errors: ECC is off" : "";
                  });
}

std::vector<Finding> capped_power(const Topology& topology) {
  return each_gpu(topology, "gpu.power_cap", Severity::warning,
                  "set it back (nvidia-smi -pl), or accept slower kernels", [](const Gpu& gpu) -> std::string {
                    if (!gpu.power_cap_w || !gpu.power_cap_default_w) return "";
                    if (*gpu.power_cap_w >= 0.99 * *gpu.power_cap_default_w) return "";
                    return fmt::format("has a power cap of {:.0f} W, the default is {:.0f} W", *gpu.power_cap_w,
                                       *gpu.power_cap_default_w);
                  });
}

// Lanes that a GPU's slot lacks show in comparison with the other GPUs of its model: other cards have fewer by design.
std::vector<Finding> narrow_gpus(const Topology& topology) {
  std::map<std::string, std::optional<int>> others = usual_of_each_model(topology, &PcieLink::width_max);
  // A GPU that only PCI shows has no name: it is like the others where these are of one model.
  if (others.size() == 2 && others.contains("")) others.at("") = others.rbegin()->second;
  return both(each_gpu(topology, "gpu.pcie", Severity::error,
                       "reboot, so that the link is trained again; replace the instance if that does not help",
                       [&](const Gpu& gpu) -> std::string {
                         const int full = std::max(gpu.pcie.width_max.value_or(0), others.at(gpu.name).value_or(0));
                         if (!gpu.pcie.width || *gpu.pcie.width >= full) return "";
                         return fmt::format("uses {} PCIe lanes of {}", *gpu.pcie.width, full);
                       }),
              slow_pcie(topology));
}

std::vector<Finding> mig_gpus(const Topology& topology) {
  return each_gpu(topology, "gpu.mig", Severity::error, "switch MIG off (nvidia-smi -mig 0) and reset the GPU",
                  [](const Gpu& gpu) -> std::string {
                    return gpu.mig == true ? "is split into instances (MIG): no NVLink traffic" : "";
                  });
}

// Persistence mode keeps the GPU initialized: without it the driver releases the GPU when its last program exits, and
// takes seconds to initialize it again.
std::vector<Finding> without_persistence(const Topology& topology) {
  return each_gpu(
      topology, "gpu.persistence", Severity::info,
      "start nvidia-persistenced (or nvidia-smi -pm 1): programs start seconds faster, and the driver "
      "keeps its error counters",
      [](const Gpu& gpu) -> std::string {
        return gpu.persistence == false ? "has persistence mode off: the driver releases it when nothing runs" : "";
      });
}

std::vector<Finding> prohibited_gpus(const Topology& topology) {
  return each_gpu(topology, "gpu.compute_mode", Severity::error, "set it to default (nvidia-smi -c 0)",
                  [](const Gpu& gpu) -> std::string {
                    return gpu.compute_mode == "prohibited"
                               ? "has the compute mode 'prohibited', in which no process can use it"
                               : "";
                  });
}

// ---- gpu.nvml, gpu.busy and gpu.hidden: GPUs that NVML cannot query, that other programs use, or that ranks may not
// see.

std::vector<Finding> silent_nvml(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts)
    if (!host.gpu_problem.empty())
      findings.push_back(
          about_host(host, "gpu.nvml", is_of_silence(host.gpu_problem) ? Severity::error : Severity::warning,
                     "NVML: " + host.gpu_problem,
                     "check whether nvidia-smi answers there; if it hangs too, reboot or replace the instance"));
  return findings;
}

std::vector<Finding> busy_gpus(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts)
    for (std::size_t i = 0; i < host.gpu_devices.size(); ++i)
      if (const Gpu& gpu = host.gpu_devices[i]; gpu.processes.value_or(0) > 0)
        findings.push_back(
            about_gpu(host, i, "gpu.busy", Severity::warning,
                      fmt::format("{} other {} on {} ({}){}", *gpu.processes,
                                  *gpu.processes == 1 ? "program computes" : "programs compute", gpu.uuid, gpu.name,
                                  gpu.used_by.empty() ? "" : ": " + join(gpu.used_by, "; ")),
                      "end them or wait: they share the GPU's performance with this run"));
  return findings;
}

// One finding per host: its first rank that sees fewer GPUs than the ranks there use.
std::vector<Finding> hidden_gpus(const Topology& topology) {
  std::vector<Finding> findings;
  for (std::size_t h = 0; h < topology.hosts.size(); ++h) {
    const Host& host = topology.hosts[h];
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < topology.gpus_seen_of_rank.size(); ++rank)
      if (topology.host_of_rank[rank] == static_cast<int>(h)) ranks.push_back(rank);
    const int used = std::min(static_cast<int>(ranks.size()), host.gpus);
    const auto restricted =
        std::ranges::find_if(ranks, [&](std::size_t rank) { return topology.gpus_seen_of_rank[rank] < used; });
    if (restricted == ranks.end()) continue;
    findings.push_back(
        about_host(host, "gpu.hidden", Severity::error,
                   fmt::format("rank {} sees {} of the {} GPUs that the ranks on {} use", *restricted,
                               topology.gpus_seen_of_rank[*restricted], used, host.name),
                   "let all ranks of a host see all its GPUs (Slurm: --gpus-per-node instead of --gpus-per-task, no "
                   "--gpu-bind; no CUDA_VISIBLE_DEVICES per rank): NCCL may otherwise go through host memory"));
  }
  return findings;
}

// ---- gpu.xid_before: Xid errors of a GPU and SXid errors of an NVSwitch that the kernel log keeps from before the
// run. The watch reports those during it (gpu.xid).

namespace {

// The driver writes addresses without the function: "0000:53:00".
std::optional<std::size_t> gpu_at(const Host& host, const std::string& pci) {
  for (std::size_t i = 0; i < host.gpu_devices.size(); ++i)
    if (!pci.empty() && host.gpu_devices[i].pci.address.starts_with(pci)) return i;
  return std::nullopt;
}

}  // namespace

std::vector<Finding> earlier_xids(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    if (!host.xids) continue;
    for (auto each = host.xids->begin(); each != host.xids->end(); ++each) {
      const Xid& xid = *each;
      const XidClass& kind =
          class_at_last(each, host.xids->end(), [&](const Xid& other) { return other.pci == xid.pci; });
      const std::optional<std::size_t> gpu = gpu_at(host, xid.pci);
      std::string evidence =
          fmt::format("{} on {}: {} {}{} since the machine and its driver were started{}",
                      gpu ? fmt::format("{} at {}", named(host, *gpu), xid.pci)
                          : fmt::format("the {} at {}", kind.of_switch ? "NVSwitch" : "device", xid.pci),
                      host.name, kind.of_switch ? "SXid" : "Xid", xid.code,
                      xid.count == 1 ? "" : fmt::format(" ({} times)", xid.count),
                      xid.text.empty() ? "" : fmt::format(": \"{}\"", xid.text));
      // A reset leaves the line in the kernel's log, and not every driver tells of its end.
      constexpr const char* after_reset =
          "; after a reset that the log does not tell of (Xid 154 to None), this stays until the driver is loaded "
          "again "
          "or the host reboots";
      findings.push_back(about_host(host, "gpu.xid_before", kind.severity, std::move(evidence),
                                    kind.action + (kind.name == "reset" ? after_reset : "")));
      if (gpu) findings.back().subject.gpu = static_cast<int>(*gpu);
      findings.back().subject.xid = xid.code;
      if (kind.of_switch) findings.back().about = About::fabric;
    }
  }
  return findings;
}

}  // namespace p5::topo
