// gpu.xid_before: Xid errors of a GPU that the kernel log keeps from before the run. The watch reports those during it
// (gpu.xid).
#include "topo/xids.hpp"

#include "topo/checks/about.hpp"
#include "topo/checks/families.hpp"

namespace p5::topo {

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
  for (const Host& host : topology.hosts)
    for (const Xid& xid : host.xids.value_or(std::vector<Xid>{})) {
      const XidClass& kind = class_of_xid(xid.code, xid.text);
      const std::optional<std::size_t> gpu = gpu_at(host, xid.pci);
      std::string evidence = fmt::format(
          "{} on {}: Xid {}{} since the machine and its driver were started{}",
          gpu ? fmt::format("{} at {}", named(host, *gpu), xid.pci) : fmt::format("the device at {}", xid.pci),
          host.name, xid.code, xid.count == 1 ? "" : fmt::format(" ({} times)", xid.count),
          xid.text.empty() ? "" : fmt::format(": \"{}\"", xid.text));
      findings.push_back(about_host(host, "gpu.xid_before", kind.severity, std::move(evidence), kind.action));
      if (gpu) findings.back().subject.gpu = static_cast<int>(*gpu);
    }
  return findings;
}

}  // namespace p5::topo
