// nic.down, nic.count, nic.rate, efa.driver_rate, nic.pcie, nic.gdr and nic.unusable: NICs that are missing, silent,
// slow or out of reach.
#include "topo/checks/about.hpp"
#include "topo/checks/families.hpp"
#include "topo/version_range.hpp"

namespace p5::topo {

namespace {

// EFA's driver states 100 Gb/s for every device before its release 2.13.0, which asks the device (amzn-drivers,
// kernel/linux/efa/RELEASENOTES.md and commit c4c7926; aws-ofi-nccl src/nccl_ofi_net.cpp works around it).
constexpr GBps rate_of_old_driver{12.5};
constexpr const char* asking_driver = "2.13";

// Whether the rates that this host states are the driver's word, not the devices'.
bool states_one_rate_for_all(const Host& host, const Platform* platform) {
  if (!platform || platform->network != "efa" || platform->nic_rate <= rate_of_old_driver) return false;
  const std::string driver = version_of(host, "efa driver");
  if (!driver.empty() && !contains({.from = {}, .below = asking_driver}, driver)) return false;
  return has_efa(host) && std::ranges::all_of(host.nics, [](const Nic& nic) {
           return nic.kind != "efa" || nic.rate == rate_of_old_driver;
         });
}

// An Ethernet port without a cable is ordinary; a fabric port without a link is not.
Finding down(const Host& host, const Nic& nic) {
  const Severity severity = nic.kind == "efa"        ? Severity::error
                            : nic.kind == "ethernet" ? Severity::info
                                                     : Severity::warning;
  return {"nic.down",
          severity,
          {host.name, host.instance, {}, nic.name},
          fmt::format("{} device {} on {} is in state '{}'", nic.kind, nic.name, host.name, nic.state),
          nic.kind == "ethernet" ? "nothing, unless this port should carry traffic"
                                 : "look at the driver's messages (dmesg) and the link; reboot or replace the host if "
                                   "the port stays down"};
}

}  // namespace

std::vector<Finding> nics_down(const Topology& topology) {
  const Platform* const platform = platform_of(topology);
  const bool efa = platform && platform->network == "efa";
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts)
    for (const Nic& nic : host.nics) {
      // Some instance types show InfiniBand devices of their boards beside EFA, which carry nothing.
      const bool idle = nic.kind == "virtual" || (efa && nic.kind == "infiniband");
      if (!idle && nic.state != "up" && nic.state != "unknown") findings.push_back(down(host, nic));
    }
  return findings;
}

std::vector<Finding> wrong_nic_counts(const Topology& topology) {
  const Platform* platform = platform_of(topology);
  if (!platform || platform->network != "efa" || platform->nics == 0) return {};
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    const auto count =
        std::count_if(host.nics.begin(), host.nics.end(), [](const Nic& nic) { return nic.kind == "efa"; });
    if (count == platform->nics) continue;
    findings.push_back(
        {"nic.count",
         Severity::error,
         {host.name, host.instance, {}, {}},
         fmt::format("{} shows {} EFA {}, {} has {}", host.name, count, count == 1 ? "device" : "devices",
                     platform->name, platform->nics),
         "check the launch template (one EFA interface per network card), the EFA driver (fi_info -p efa) and, in a "
         "container, that all devices are passed in; replace the host if the count stays wrong"});
  }
  return findings;
}

std::vector<Finding> slow_nics(const Topology& topology) {
  const Platform* platform = platform_of(topology);
  std::vector<double> rates;
  for (const Host& host : topology.hosts)
    for (const Nic& nic : host.nics)
      if (of_fabric(nic) && nic.rate && nic.state == "up") rates.push_back(nic.rate->count);
  // Beside its EFA devices an instance may have InfiniBand devices of other rates, which carry nothing.
  const bool efa = platform && platform->network == "efa";
  const std::optional<double> full = efa && platform->nics > 0 ? std::optional(platform->nic_rate.count)
                                     : efa                     ? std::nullopt
                                                               : usual(rates);
  if (!full) return {};
  std::set<const Nic*> believed;
  for (const Host& host : topology.hosts)
    for (const Nic& nic : host.nics)
      if (!states_one_rate_for_all(host, platform)) believed.insert(&nic);
  return nics_of_each_host(
      topology, "nic.rate", Severity::error,
      [&](const Nic& nic) { return fmt::format("at {:.6g} GB/s of {:.6g} by the kernel", nic.rate->count, *full); },
      "reboot, and replace the instance if it stays: all traffic waits for the slowest rail",
      [&](const Nic& nic) {
        return (nic.kind == "efa" || !efa) && believed.contains(&nic) && nic.state == "up" && nic.rate &&
               nic.rate->count < 0.99 * *full;
      });
}

std::vector<Finding> old_efa_drivers(const Topology& topology) {
  const Platform* const platform = platform_of(topology);
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    if (!states_one_rate_for_all(host, platform)) continue;
    const std::string driver = version_of(host, "efa driver");
    findings.push_back(about_host(
        host, "efa.driver_rate", Severity::warning,
        fmt::format("the EFA driver{} on {} states 100 Gb/s for all its EFA devices; those of {} have {:.6g}, which "
                    "drivers from {} on state",
                    driver.empty() ? "" : " " + driver, host.name, platform->name, platform->nic_rate.count * 8,
                    asking_driver),
        "install the EFA driver of a current EFA installer: NCCL and libfabric plan with the rate that it states; the "
        "instance is not to blame"));
  }
  return findings;
}

std::vector<Finding> narrow_nics(const Topology& topology) {
  // Virtual functions may state lanes that no device has.
  const auto lanes = [](const std::optional<int>& width) { return width && *width >= 1 && *width <= 32; };
  return nics_of_each_host(
      topology, "nic.pcie", Severity::warning,
      [](const Nic& nic) { return fmt::format("with {} PCIe lanes of {}", *nic.pcie.width, *nic.pcie.width_max); },
      "reboot, so that the link is trained again; replace the host if it stays",
      [&](const Nic& nic) {
        return lanes(nic.pcie.width) && lanes(nic.pcie.width_max) && *nic.pcie.width < *nic.pcie.width_max;
      });
}

// Not the last word: registrations by DMA-BUF need no such part of the driver. NCCL's log tells which way it takes.
std::vector<Finding> without_gdr(const Topology& topology) {
  const Platform* platform = platform_of(topology);
  if (!platform || !platform->gpu_direct_rdma) return {};
  static constexpr const char* evidence =
      "without a way to GPU memory by the driver itself (sysfs gdr is 0): unless DMA-BUF is one, traffic goes through "
      "the host";
  return nics_of_each_host(
      topology, "nic.gdr", Severity::warning, [](const Nic&) { return evidence; },
      "install the EFA driver of the current EFA installer with its GPU Direct RDMA part "
      "(efa_nv_peermem), matching the NVIDIA driver, and load it",
      [](const Nic& nic) { return nic.gdr == false; });
}

std::vector<Finding> unusable_nics(const Topology& topology) {
  const auto evidence = [](const Nic& nic) {
    return fmt::format("cannot be opened by this job (/dev/infiniband/{})", nic.verbs);
  };
  return nics_of_each_host(topology, "nic.unusable", Severity::error, evidence,
                           "give the job access: in a container pass /dev/infiniband and all its devices (Kubernetes: "
                           "request vpc.amazonaws.com/efa), on a host check the permissions",
                           [](const Nic& nic) { return nic.verbs_usable == false; });
}

}  // namespace p5::topo
