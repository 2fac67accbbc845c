// host.memlock, host.shared_memory, host.gdrcopy, host.acs, host.iommu, host.numa and host.placement: how the host and
// the job's process are set up, and where the host stands.
#include "topo/checks/about.hpp"
#include "topo/checks/families.hpp"

namespace p5::topo {

namespace {

// AWS's health check of GPU clusters asks for this much.
constexpr Bytes enough_locked = GiB(16);
// Docker gives 64 MiB; NCCL keeps some megabytes for each pair of ranks there.
constexpr Bytes enough_shared = MiB(512);

bool has_fabric(const Host& host) { return std::ranges::any_of(host.nics, of_fabric); }

}  // namespace

std::vector<Finding> little_locked_memory(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    const auto& limit = host.limits.locked_memory;
    if (!limit || *limit >= enough_locked || !has_fabric(host)) continue;
    findings.push_back(about_host(
        host, "host.memlock", Severity::error,
        fmt::format(
            "processes on {} may lock {} of memory (ulimit -l); NICs need buffers that stay in place, {} or more",
            host.name, to_text(*limit), to_text(enough_locked)),
        "raise it to unlimited: /etc/security/limits.d for logins, LimitMEMLOCK of slurmd or the kubelet, --ulimit "
        "memlock=-1 for docker"));
  }
  return findings;
}

std::vector<Finding> little_shared_memory(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    const auto& free = host.limits.shared_memory_free;
    if (!free || *free >= enough_shared || host.gpus < 2) continue;
    findings.push_back(about_host(
        host, "host.shared_memory", Severity::error,
        fmt::format("/dev/shm on {} has {} free; NCCL wants {} for the ranks of a host", host.name, to_text(*free),
                    to_text(enough_shared)),
        "remove what earlier jobs left there (/dev/shm/nccl-*); in a container raise --shm-size, or mount an "
        "emptyDir with medium Memory"));
  }
  return findings;
}

std::vector<Finding> without_gdrcopy(const Topology& topology) {
  const Platform* platform = platform_of(topology);
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    if (!platform || !platform->gpu_direct_rdma || !has_efa(host) || !host.modules) continue;
    if (std::ranges::find(*host.modules, "gdrdrv") != host.modules->end()) continue;
    findings.push_back(about_host(host, "host.gdrcopy", Severity::info,
                                  fmt::format("the kernel module gdrdrv is not loaded on {}: small messages between "
                                              "nodes take longer",
                                              host.name),
                                  "install GDRCopy and load gdrdrv"));
  }
  return findings;
}

// In a virtual machine neither can be changed, nor does it show what the hypervisor does.
std::vector<Finding> access_control(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    std::vector<std::string> bridges;
    for (const PciBridge& bridge : host.bridges)
      if (bridge.acs == true) bridges.push_back(bridge.address);
    if (bridges.empty() || host.virtual_machine != false || host.gpus == 0) continue;
    findings.push_back(about_host(
        host, "host.acs", Severity::warning,
        fmt::format("{} PCIe bridges above GPUs and NICs of {} redirect traffic between devices upwards (ACS): {}",
                    bridges.size(), host.name, join(bridges)),
        "switch ACS off on these bridges (setpci, or the firmware's setup): traffic between GPU and NIC otherwise goes "
        "through the root complex, or hangs"));
  }
  return findings;
}

std::vector<Finding> busy_iommu(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts)
    if (host.iommu == true && host.virtual_machine == false && host.gpus > 0)
      findings.push_back(
          about_host(host, "host.iommu", Severity::warning,
                     fmt::format("the IOMMU of {} is at work: traffic between devices may be slow", host.name),
                     "boot with iommu=pt, or switch it off in the firmware's setup"));
  return findings;
}

std::vector<Finding> hidden_numa(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    const auto placed = [](const Gpu& gpu) { return gpu.numa_node >= 0; };
    if (host.packages < 2 || host.gpu_devices.empty() || std::ranges::any_of(host.gpu_devices, placed)) continue;
    findings.push_back(
        about_host(host, "host.numa", Severity::warning,
                   fmt::format("{} has {} processors, but the kernel does not tell which GPU is near which", host.name,
                               host.packages),
                   "in a container do not hide /sys; otherwise ranks may run far from their GPUs"));
  }
  return findings;
}

std::vector<Finding> scattered_hosts(const Topology& topology) {
  std::vector<Finding> findings;
  for (const char* kind : {"availability zone", "placement group"}) {
    std::vector<std::string> all;
    for (const Host& host : topology.hosts)
      if (const auto at = host.placement.find(kind); at != host.placement.end()) all.push_back(at->second);
    if (all.size() != topology.hosts.size() || all.empty()) continue;
    if (std::ranges::count(all, all.front()) == std::ssize(all)) continue;
    const bool zone = std::string_view(kind) == "availability zone";
    const std::optional<std::string> most = usual(all);
    const char* action = "launch all nodes into one cluster placement group in one availability zone";
    const Severity severity = zone ? Severity::error : Severity::warning;
    if (!most) {
      std::vector<std::string> parts;
      for (std::size_t i = 0; i < all.size(); ++i)
        parts.push_back(fmt::format("{} is in '{}'", topology.hosts[i].name, all[i]));
      findings.push_back({"host.placement", severity, {}, fmt::format("{}s differ: {}", kind, join(parts)), action});
    }
    for (std::size_t i = 0; most && i < all.size(); ++i)
      if (all[i] != *most)
        findings.push_back(about_host(
            topology.hosts[i], "host.placement", severity,
            fmt::format("{} is in {} '{}', others in '{}'", topology.hosts[i].name, kind, all[i], *most), action));
    if (zone) break;
  }
  return findings;
}

}  // namespace p5::topo
