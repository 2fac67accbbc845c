// nic.down and nic.count: NICs that are there but silent, and NICs that the instance type promises but the kernel does
// not show.
#include <fmt/format.h>

#include <algorithm>

#include "topo/checks/families.hpp"
#include "topo/platform.hpp"

namespace p5::topo {

namespace {

// An Ethernet port without a cable is ordinary; a fabric port without a link is not.
Finding down(const Host& host, const Nic& nic) {
  const bool ethernet = nic.kind == "ethernet";
  return {
      "nic.down",
      ethernet ? Severity::info : Severity::warning,
      {host.name, host.instance, {}, nic.name},
      fmt::format("{} device {} on {} is in state '{}'", nic.kind, nic.name, host.name, nic.state),
      ethernet
          ? "nothing, unless this port should carry traffic"
          : "look at the driver's messages (dmesg) and the link; reboot or replace the host if the port stays down"};
}

}  // namespace

std::vector<Finding> nics_down(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts)
    for (const Nic& nic : host.nics)
      if (nic.kind != "virtual" && nic.state != "up" && nic.state != "unknown") findings.push_back(down(host, nic));
  return findings;
}

std::vector<Finding> wrong_nic_counts(const Topology& topology) {
  const Platform* platform = platform_of_instance_type(topology.platform);
  if (!platform) return {};
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    const auto count =
        std::count_if(host.nics.begin(), host.nics.end(), [](const Nic& nic) { return nic.kind == "efa"; });
    if (count == platform->nics) continue;
    findings.push_back(
        {"nic.count",
         Severity::error,
         {host.name, host.instance, {}, {}},
         fmt::format("{} shows {} EFA devices, {} has {}", host.name, count, platform->name, platform->nics),
         "check the launch template (one EFA interface per network card), the EFA driver (fi_info -p efa) and, in a "
         "container, that all devices are passed in; replace the host if the count stays wrong"});
  }
  return findings;
}

}  // namespace p5::topo
