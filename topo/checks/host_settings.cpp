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
  return each_host(
      topology, "host.memlock", Severity::error,
      "raise it to unlimited: /etc/security/limits.d for logins, LimitMEMLOCK of slurmd or the kubelet, --ulimit "
      "memlock=-1 for docker",
      [](const Host& host) -> std::string {
        const auto& limit = host.limits.locked_memory;
        if (!limit || *limit >= enough_locked || nics_with_rdma(host).empty()) return "";
        return fmt::format(
            "processes on {} may lock {} of memory (ulimit -l); NICs need buffers that stay in place, {} or more",
            host.name, to_text(*limit), to_text(enough_locked));
      });
}

std::vector<Finding> few_open_files(const Topology& topology) {
  const std::size_t ranks = topology.host_of_rank.size();
  const std::uint64_t wanted = std::max(usual_files, files_of_a_process + files_of_a_rank * ranks);
  return each_host(
      topology, "host.open_files", Severity::warning,
      "raise it, for instance to 65536: /etc/security/limits.d for logins, LimitNOFILE of slurmd or the kubelet, "
      "--ulimit nofile=65536 for docker; 'Too many open files' otherwise ends jobs at their start",
      [&](const Host& host) -> std::string {
        const auto& limit = host.limits.open_files;
        if (!limit || *limit >= wanted || host.gpus == 0) return "";
        return fmt::format(
            "processes on {} may open {} files (ulimit -n); {} ranks want {} or more for their connections", host.name,
            *limit, ranks, wanted);
      });
}

// Libfabric's EFA provider takes its buffers from huge pages of 2 MiB, which the EFA installer sets aside, and does
// with small ones where there are none: a device can register only so many pages
// (github.com/ofiwg/libfabric/issues/9739).
std::vector<Finding> no_huge_pages(const Topology& topology) {
  if (setting(topology, "FI_EFA_USE_HUGE_PAGE") == "0") return {};
  return each_host(
      topology, "host.huge_pages", Severity::warning,
      "set some aside (sysctl vm.nr_hugepages, as the EFA installer does; Kubernetes: hugepages-2Mi: 5120Mi), or "
      "set FI_EFA_USE_HUGE_PAGE=0 where they are meant for others",
      [](const Host& host) -> std::string {
        const auto& pages = host.limits.huge_pages_free ? host.limits.huge_pages_free : host.limits.huge_pages;
        if (!has_efa(host) || !pages || *pages > 0) return "";
        return fmt::format(
            "none of {} huge pages of 2 MiB is free for this job on {}: EFA's buffers take small pages, of "
            "which a device registers only so many",
            host.limits.huge_pages.value_or(0), host.name);
      });
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

// One finding for each host whose value is not the usual one, with the evidence of `odd`. Where none is usual, one
// about no host: `title`, and what `each` tells of every host.
template <class Value, class Each, class Odd>
std::vector<Finding> odd_ones(const std::vector<std::pair<const Host*, Value>>& all, const char* id, Severity severity,
                              const char* action, const std::string& title, const Each& each, const Odd& odd) {
  std::vector<Value> values;
  std::vector<std::string> parts;
  for (const auto& [host, value] : all) {
    values.push_back(value);
    parts.push_back(each(host->name, value));
  }
  const std::optional<Value> most = usual(values);
  if (!most && !all.empty()) return {{id, severity, {}, title + join(parts), action}};
  std::vector<Finding> findings;
  for (const auto& [host, value] : all)
    if (value != *most) findings.push_back(about_host(*host, id, severity, odd(host->name, value, *most), action));
  return findings;
}

}  // namespace

// Hosts with different MTUs connect, but hang on the first large packet if no router reports that it is too large.
std::vector<Finding> odd_mtus(const Topology& topology) {
  const std::string interfaces = setting(topology, "NCCL_SOCKET_IFNAME");
  std::vector<std::pair<const Host*, int>> mtus;
  for (const Host& host : topology.hosts)
    if (const auto mtu = bootstrap_mtu(host, interfaces)) mtus.emplace_back(&host, *mtu);
  return odd_ones(
      mtus, "host.mtu", Severity::warning,
      "set one MTU on all hosts (9001 within a VPC): connections of NCCL, MPI and the framework may hang otherwise",
      "MTUs of the hosts' networks differ: ",
      [](const std::string& host, int mtu) { return fmt::format("{} has {}", host, mtu); },
      [](const std::string& host, int mtu, int most) {
        return fmt::format("the network of {} has an MTU of {}, others of {}", host, mtu, most);
      });
}

std::vector<Finding> little_shared_memory(const Topology& topology) {
  return each_host(
      topology, "host.shared_memory", Severity::error,
      "remove what earlier jobs left there (/dev/shm/nccl-*); in a container raise --shm-size, or mount an "
      "emptyDir with medium Memory",
      [](const Host& host) -> std::string {
        const auto& free = host.limits.shared_memory_free;
        if (!free || *free >= enough_shared || host.gpus < 2) return "";
        return fmt::format("/dev/shm on {} has {} free; NCCL wants {} for the ranks of a host", host.name,
                           to_text(*free), to_text(enough_shared));
      });
}

std::vector<Finding> without_gdrcopy(const Topology& topology) {
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  return each_host(topology, "host.gdrcopy", Severity::info, "install GDRCopy and load gdrdrv",
                   [&](std::size_t at, const Host& host) -> std::string {
                     if (!platforms[at] || !platforms[at]->gpu_direct_rdma || !has_efa(host) || !host.modules)
                       return "";
                     if (std::ranges::find(*host.modules, "gdrdrv") != host.modules->end()) return "";
                     return fmt::format(
                         "the kernel module gdrdrv is not loaded on {}: small messages between nodes take longer",
                         host.name);
                   });
}

// Skipped on virtual machines: neither setting can be changed there, nor does it show what the hypervisor does.
std::vector<Finding> access_control(const Topology& topology) {
  return each_host(
      topology, "host.acs", Severity::warning,
      "switch ACS off on these bridges (setpci, or the firmware's setup): traffic between GPU and NIC otherwise goes "
      "through the root complex, or hangs",
      [](const Host& host) -> std::string {
        std::vector<std::string> bridges;
        for (const PciBridge& bridge : host.bridges)
          if (bridge.acs == true) bridges.push_back(bridge.address);
        if (bridges.empty() || host.virtual_machine != false || host.gpus == 0) return "";
        return fmt::format(
            "{} PCIe bridges above GPUs and NICs of {} redirect traffic between devices upwards (ACS): {}",
            bridges.size(), host.name, join(bridges));
      });
}

std::vector<Finding> active_iommu(const Topology& topology) {
  return each_host(topology, "host.iommu", Severity::warning,
                   "boot with iommu=pt, or switch it off in the firmware's setup", [](const Host& host) -> std::string {
                     if (host.iommu != true || host.virtual_machine != false || host.gpus == 0) return "";
                     return fmt::format("the IOMMU of {} is at work: traffic between devices may be slow", host.name);
                   });
}

std::vector<Finding> hidden_numa(const Topology& topology) {
  return each_host(topology, "host.numa", Severity::warning,
                   "in a container do not hide /sys; otherwise ranks may run far from their GPUs",
                   [](const Host& host) -> std::string {
                     const auto placed = [](const Gpu& gpu) { return gpu.numa_node >= 0; };
                     if (host.packages < 2 || host.gpu_devices.empty() || std::ranges::any_of(host.gpu_devices, placed))
                       return "";
                     return fmt::format("{} has {} processors, but the kernel does not tell which GPU is near which",
                                        host.name, host.packages);
                   });
}

// EFA's traffic cannot leave its availability zone or its VPC (AWS, EC2 User Guide, Elastic Fabric Adapter); leaving
// the placement group costs latency. Facts that a host does not report are skipped.
std::vector<Finding> scattered_hosts(const Topology& topology) {
  struct Kind {
    const char* name;
    Severity severity;
  };
  const auto named_or_none = [](const std::string& name) { return name.empty() ? "none" : "'" + name + "'"; };
  for (const Kind& kind : {Kind{"availability zone", Severity::error}, Kind{"vpc", Severity::error},
                           Kind{"placement group", Severity::warning}}) {
    std::vector<std::pair<const Host*, std::string>> places;
    for (const Host& host : topology.hosts)
      if (const auto at = host.placement.find(kind.name); at != host.placement.end())
        places.emplace_back(&host, at->second);
    std::vector<Finding> findings = odd_ones(
        places, "host.placement", kind.severity,
        "launch all nodes into one cluster placement group, in one availability zone and one VPC: EFA reaches no "
        "further",
        fmt::format("{}s differ: ", kind.name),
        [&](const std::string& host, const std::string& place) {
          return fmt::format("{} is in {}", host, named_or_none(place));
        },
        [&](const std::string& host, const std::string& place, const std::string& most) {
          return fmt::format("{} is in {}, others in {}", host,
                             place.empty() ? fmt::format("no {}", kind.name) : fmt::format("{} '{}'", kind.name, place),
                             named_or_none(most));
        });
    if (!findings.empty()) return findings;  // the rest follows from it
  }
  return {};
}

}  // namespace p5::topo
