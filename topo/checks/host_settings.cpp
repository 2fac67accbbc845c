// host.memlock, host.open_files, host.huge_pages, host.mtu, host.shared_memory, host.gdrcopy, host.acs, host.iommu,
// host.numa and host.placement: how the host and the job's process are set up, and where the host stands.
#include "topo/checks/families.hpp"

namespace p5::topo {

namespace {

// AWS's health check of GPU clusters requires this much locked memory.
constexpr Bytes enough_locked = GiB(16);
// Docker sets /dev/shm to 64 MiB by default; NCCL keeps some megabytes for each pair of ranks there.
constexpr Bytes enough_shared = MiB(512);

// Soft limit of open files that systemd and most distributions set. A lower one was restricted explicitly.
constexpr std::uint64_t usual_files = 1024;
// A process's libraries and devices, and its connections within the host: an estimate. Besides, each rank connects to
// the first (NCCL src/bootstrap.cc), and to that of the framework's store.
constexpr std::uint64_t files_of_a_process = 512, files_of_a_rank = 2;

}  // namespace

std::vector<Finding> little_locked_memory(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    const auto& limit = host.limits.locked_memory;
    if (!limit || *limit >= enough_locked || nics_with_rdma(host).empty()) continue;
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

std::vector<Finding> few_open_files(const Topology& topology) {
  const std::uint64_t needed = files_of_a_process + files_of_a_rank * topology.host_of_rank.size();
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    const auto& limit = host.limits.open_files;
    if (!limit || *limit >= std::max(usual_files, needed) || host.gpus == 0) continue;
    findings.push_back(about_host(
        host, "host.open_files", Severity::warning,
        fmt::format("processes on {} may open {} files (ulimit -n); {} ranks want {} or more for their connections",
                    host.name, *limit, topology.host_of_rank.size(), std::max(usual_files, needed)),
        "raise it, for instance to 65536: /etc/security/limits.d for logins, LimitNOFILE of slurmd or the kubelet, "
        "--ulimit nofile=65536 for docker; 'Too many open files' otherwise ends jobs at their start"));
  }
  return findings;
}

// Libfabric's EFA provider takes its buffers from huge pages of 2 MiB, which the EFA installer sets aside, and does
// with small ones where there are none: a device can register only so many pages
// (github.com/ofiwg/libfabric/issues/9739).
std::vector<Finding> no_huge_pages(const Topology& topology) {
  if (setting(topology, "FI_EFA_USE_HUGE_PAGE") == "0") return {};
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    const auto& pages = host.limits.huge_pages_free ? host.limits.huge_pages_free : host.limits.huge_pages;
    if (!has_efa(host) || !pages || *pages > 0) continue;
    findings.push_back(about_host(
        host, "host.huge_pages", Severity::warning,
        fmt::format("none of {} huge pages of 2 MiB is free for this job on {}: EFA's buffers take small pages, of "
                    "which a device registers only so many",
                    host.limits.huge_pages.value_or(0), host.name),
        "set some aside (sysctl vm.nr_hugepages, as the EFA installer does; Kubernetes: hugepages-2Mi: 5120Mi), or "
        "set FI_EFA_USE_HUGE_PAGE=0 where they are meant for others"));
  }
  return findings;
}

namespace {

// True if NCCL's bootstrap connections may use this interface: one that NCCL_SOCKET_IFNAME selects, or without it any
// that does not belong to containers (NCCL src/misc/socket.cc).
bool may_bootstrap(const Nic& nic, const std::string& setting) {
  if (nic.addresses.empty() || !nic.mtu) return false;
  const bool out = setting.starts_with('^'), exact = setting.find('=') <= 1;
  const std::string names = setting.substr(std::min(setting.size(), setting.find_first_not_of("^=")));
  const auto begins = [&](const std::string& name) { return exact ? nic.name == name : nic.name.starts_with(name); };
  const std::vector<std::string> listed = split(setting.empty() ? "docker,virbr,cni,br-,veth" : names);
  return std::ranges::any_of(listed, begins) != (setting.empty() || out);
}

// Null: not known, or several interfaces that differ.
std::optional<int> bootstrap_mtu(const Host& host, const std::string& setting) {
  std::optional<int> mtu;
  for (const Nic& nic : host.nics) {
    if (!may_bootstrap(nic, setting)) continue;
    if (mtu && *mtu != *nic.mtu) return std::nullopt;
    mtu = nic.mtu;
  }
  return mtu;
}

}  // namespace

// Hosts with different MTUs connect, but hang on the first large packet if no router reports that it is too large.
std::vector<Finding> odd_mtus(const Topology& topology) {
  const std::string interfaces = setting(topology, "NCCL_SOCKET_IFNAME");
  std::vector<const Host*> hosts;
  std::vector<int> mtus;
  for (const Host& host : topology.hosts)
    if (const auto mtu = bootstrap_mtu(host, interfaces)) hosts.push_back(&host), mtus.push_back(*mtu);
  if (mtus.empty() || std::ranges::count(mtus, mtus.front()) == std::ssize(mtus)) return {};
  constexpr const char* action =
      "set one MTU on all hosts (9001 within a VPC): connections of NCCL, MPI and the framework may hang otherwise";
  const std::optional<int> most = usual(mtus);
  std::vector<Finding> findings;
  if (!most) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < hosts.size(); ++i) parts.push_back(fmt::format("{} has {}", hosts[i]->name, mtus[i]));
    return {{"host.mtu", Severity::warning, {}, "MTUs of the hosts' networks differ: " + join(parts), action}};
  }
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (mtus[i] != *most)
      findings.push_back(about_host(
          *hosts[i], "host.mtu", Severity::warning,
          fmt::format("the network of {} has an MTU of {}, others of {}", hosts[i]->name, mtus[i], *most), action));
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
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  std::vector<Finding> findings;
  for (std::size_t at = 0; at < platforms.size(); ++at) {
    const Host& host = topology.hosts[at];
    const Platform* const platform = platforms[at];
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

// Skipped on virtual machines: neither setting can be changed there, nor does it show what the hypervisor does.
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

std::vector<Finding> active_iommu(const Topology& topology) {
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

// EFA's traffic cannot leave its availability zone or its VPC (AWS, EC2 User Guide, Elastic Fabric Adapter); leaving
// the placement group costs latency. Facts that a host does not report are skipped.
std::vector<Finding> scattered_hosts(const Topology& topology) {
  struct Kind {
    const char* name;
    Severity severity;
  };
  const auto named_or_none = [](const std::string& name) { return name.empty() ? "none" : "'" + name + "'"; };
  std::vector<Finding> findings;
  for (const auto& [kind, severity] : {Kind{"availability zone", Severity::error}, Kind{"vpc", Severity::error},
                                       Kind{"placement group", Severity::warning}}) {
    std::vector<const Host*> hosts;
    std::vector<std::string> all;
    for (const Host& host : topology.hosts)
      if (const auto at = host.placement.find(kind); at != host.placement.end())
        hosts.push_back(&host), all.push_back(at->second);
    if (all.empty() || std::ranges::count(all, all.front()) == std::ssize(all)) continue;
    const std::optional<std::string> most = usual(all);
    const char* action =
        "launch all nodes into one cluster placement group, in one availability zone and one VPC: EFA reaches no "
        "further";
    if (!most) {
      std::vector<std::string> parts;
      for (std::size_t i = 0; i < all.size(); ++i)
        parts.push_back(fmt::format("{} is in {}", hosts[i]->name, named_or_none(all[i])));
      findings.push_back({"host.placement", severity, {}, fmt::format("{}s differ: {}", kind, join(parts)), action});
    }
    for (std::size_t i = 0; most && i < all.size(); ++i)
      if (all[i] != *most)
        findings.push_back(
            about_host(*hosts[i], "host.placement", severity,
                       fmt::format("{} is in {}, others in {}", hosts[i]->name,
                                   all[i].empty() ? fmt::format("no {}", kind) : fmt::format("{} '{}'", kind, all[i]),
                                   named_or_none(*most)),
                       action));
    if (severity == Severity::error) break;  // the rest follows from it
  }
  return findings;
}

}  // namespace p5::topo
