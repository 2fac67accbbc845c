// gpu.count, gpu.lost, gpu.unseen, gpu.throttled, gpu.memory_errors, gpu.ecc, gpu.power_cap, gpu.pcie, gpu.mig and
// gpu.compute_mode: single GPUs that are missing, ill, held back or set up for something else.
#include "topo/checks/about.hpp"
#include "topo/checks/families.hpp"

namespace p5::topo {

namespace {

// Clocks that somebody has set, which AWS's own guide does to the highest: no fault.
constexpr std::uint64_t application_clocks = 0x2;

constexpr const char* replace = "replace the instance: the GPU will fail again under load";

std::string of_memory(const GpuMemoryErrors& errors) {
  if (errors.remap_failed.value_or(false)) return "could not remap a faulty row of its memory";
  if (errors.uncorrected.value_or(0) > 0)
    return fmt::format("counts {} uncorrected memory errors since its driver was loaded", *errors.uncorrected);
  if (errors.remap_pending.value_or(false)) return "waits for a reset to remap a faulty row of its memory";
  if (errors.retirement_pending.value_or(false)) return "waits for a reset to retire a faulty page of its memory";
  return "";
}

// What a GPU and its host reach together, and not what they run at: a link that rests lowers its generation. A virtual
// machine may state anything there, so this alone condemns none.
std::vector<Finding> slow_pcie(const Topology& topology) {
  const Platform* const platform = platform_of(topology);
  const auto expected = [&](const Gpu& like) {
    if (platform && platform->gpu_pcie_generation) return platform->gpu_pcie_generation;
    std::vector<int> others;
    for (const Host& host : topology.hosts)
      for (const Gpu& gpu : host.gpu_devices)
        if (gpu.pcie.generation_max && gpu.name == like.name) others.push_back(*gpu.pcie.generation_max);
    return usual(others);
  };
  return each_gpu(topology, "gpu.pcie", Severity::warning,
                  "reboot, so that the link is trained again; see whether firmware or hypervisor hold it back; replace "
                  "the instance if others do better",
                  [&](const Gpu& gpu) -> std::string {
                    const std::optional<int> full = expected(gpu);
                    const int reached = std::max(gpu.pcie.generation_max.value_or(0), gpu.pcie.generation.value_or(0));
                    if (!full || !gpu.pcie.generation_max || reached >= *full) return "";
                    return fmt::format("reaches PCIe generation {} at most of {}", reached, *full);
                  });
}

}  // namespace

std::vector<Finding> wrong_gpu_counts(const Topology& topology) {
  const Platform* platform = platform_of(topology);
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts)
    if (platform && host.gpus != platform->gpus)
      findings.push_back(about_host(
          host, "gpu.count", Severity::error,
          fmt::format("{} shows {} GPUs on PCI, {} has {}", host.name, host.gpus, platform->name, platform->gpus),
          "check that the container gets all devices; look for XID 79 in dmesg; replace the instance"));
  return findings;
}

std::vector<Finding> lost_gpus(const Topology& topology) {
  return each_gpu(
      topology, "gpu.lost", Severity::error,
      "look for XID 79 and 'fallen off the bus' in dmesg; reboot or replace the instance",
      [](const Gpu& gpu) -> std::string { return gpu.problem.empty() ? "" : "does not answer NVML: " + gpu.problem; });
}

// A container or a job that gets some of a host's GPUs sees the others on PCI all the same: that condemns nothing.
std::vector<Finding> unseen_gpus(const Topology& topology) {
  std::vector<Finding> findings =
      each_gpu(topology, "gpu.unseen", Severity::error,
               "let the container or job have all GPUs of its hosts; if it has, look for XID 79 and 'fallen off the "
               "bus' in dmesg",
               [](const Gpu& gpu) -> std::string {
                 return gpu.problem.empty() && gpu.uuid.empty() ? "is on PCI, but NVML does not know it" : "";
               });
  // Where NVML told of none, that is what is wrong (gpu.nvml).
  for (const Host& host : topology.hosts)
    if (!host.gpu_problem.empty() && std::ranges::all_of(host.gpu_devices, &std::string::empty, &Gpu::uuid))
      std::erase_if(findings, [&](const Finding& finding) { return finding.subject.host == host.name; });
  return findings;
}

std::vector<Finding> throttled_gpus(const Topology& topology) {
  return each_gpu(
      topology, "gpu.throttled", Severity::warning,
      "look at temperature, power and clocks (nvidia-smi -q -d PERFORMANCE); replace the instance if it stays",
      [](const Gpu& gpu) -> std::string {
        const std::uint64_t mask = gpu.state.throttle_mask.value_or(0) & ~application_clocks;
        if (!held_back(mask)) return "";
        std::string text = "is held back: " + join(throttle_reasons(mask));
        if (gpu.state.temperature_c) text += fmt::format(", {} degrees C", *gpu.state.temperature_c);
        if (gpu.state.sm_clock_mhz && gpu.sm_clock_max_mhz)
          text += fmt::format(", {} of {} MHz", *gpu.state.sm_clock_mhz, *gpu.sm_clock_max_mhz);
        return text;
      });
}

std::vector<Finding> memory_errors(const Topology& topology) {
  return each_gpu(topology, "gpu.memory_errors", Severity::error, replace,
                  [](const Gpu& gpu) { return of_memory(gpu.errors); });
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

// Lanes that its own slot has not are told by the others'.
std::vector<Finding> narrow_gpus(const Topology& topology) {
  std::vector<int> widths;
  for (const Host& host : topology.hosts)
    for (const Gpu& gpu : host.gpu_devices)
      if (gpu.pcie.width_max) widths.push_back(*gpu.pcie.width_max);
  const std::optional<int> others = usual(widths);
  std::vector<Finding> slow = slow_pcie(topology);
  std::vector<Finding> findings =
      each_gpu(topology, "gpu.pcie", Severity::error,
               "reboot, so that the link is trained again; replace the instance if it stays",
               [&](const Gpu& gpu) -> std::string {
                 const int full = std::max(gpu.pcie.width_max.value_or(0), others.value_or(0));
                 if (!gpu.pcie.width || *gpu.pcie.width >= full) return "";
                 return fmt::format("uses {} PCIe lanes of {}", *gpu.pcie.width, full);
               });
  std::ranges::move(slow, std::back_inserter(findings));
  return findings;
}

std::vector<Finding> split_gpus(const Topology& topology) {
  return each_gpu(topology, "gpu.mig", Severity::error, "switch MIG off (nvidia-smi -mig 0) and reset the GPU",
                  [](const Gpu& gpu) -> std::string {
                    return gpu.mig == true ? "is split into instances (MIG): no NVLink traffic" : "";
                  });
}

std::vector<Finding> forbidden_gpus(const Topology& topology) {
  return each_gpu(topology, "gpu.compute_mode", Severity::error, "set it to default (nvidia-smi -c 0)",
                  [](const Gpu& gpu) -> std::string {
                    return gpu.compute_mode == "prohibited" ? "lets nobody compute on it: compute mode 'prohibited'"
                                                            : "";
                  });
}

}  // namespace p5::topo
