// version.mixed, version.old and version.fabric_manager: software that differs between hosts, or is too old.
#include <array>
#include <sstream>

#include "topo/checks/about.hpp"
#include "topo/checks/families.hpp"

namespace p5::topo {

namespace {

using Versions = std::map<std::string, std::string>;

Versions versions_of(const Host& host) {
  Versions all = host.versions;
  if (!host.kernel.empty()) all["kernel"] = host.kernel;
  if (!host.gpu_driver.empty()) all.try_emplace("nvidia driver", host.gpu_driver);
  if (host.libfabric && !host.libfabric->version.empty()) all.try_emplace("libfabric", host.libfabric->version);
  return all;
}

// "1.22.0" as numbers; what follows the numbers does not count.
std::vector<int> numbers(const std::string& version) {
  std::vector<int> parts;
  std::istringstream text(version);
  for (int part; text >> part; text.ignore(1)) parts.push_back(part);
  return parts;
}

// What data goes through; of the rest a difference is worth a look.
Severity severity_of(const std::vector<std::string>& names) {
  constexpr std::array decisive{"aws-ofi-nccl",   "cuda driver", "efa driver",
                                "fabric manager", "libfabric",   "nvidia driver"};
  const bool any = std::ranges::any_of(
      names, [&](const std::string& name) { return std::ranges::find(decisive, name) != decisive.end(); });
  return any ? Severity::error : Severity::warning;
}

// aws-ofi-nccl refuses to work with EFA below this (src/nccl_ofi_net.cpp).
const std::vector<int> least_libfabric{1, 22};

}  // namespace

// One finding for each host that differs from most in anything; where none is usual, one about no host.
std::vector<Finding> mixed_versions(const Topology& topology) {
  std::map<std::string, std::vector<std::string>> values;
  for (const Host& host : topology.hosts)
    for (const auto& [name, version] : versions_of(host)) values[name].push_back(version);
  std::vector<std::string> undecided, undecided_names;
  for (const auto& [name, all] : values)
    if (!usual(all)) {
      std::vector<std::string> parts;
      for (const Host& host : topology.hosts)
        parts.push_back(fmt::format("{} has {}", host.name, versions_of(host)[name]));
      undecided.push_back(fmt::format("{}: {}", name, join(parts)));
      undecided_names.push_back(name);
    }
  constexpr const char* action = "bring all nodes to one image: mixed stacks run at the pace of the slowest, or hang";
  std::vector<Finding> findings;
  if (!undecided.empty())
    findings.push_back(
        {"version.mixed", severity_of(undecided_names), {}, "versions differ: " + join(undecided, "; "), action});
  for (const Host& host : topology.hosts) {
    std::vector<std::string> odd, names;
    for (const auto& [name, version] : versions_of(host))
      if (const auto most = usual(values[name]); most && version != *most) {
        odd.push_back(fmt::format("{} {} (others {})", name, version, *most));
        names.push_back(name);
      }
    if (!odd.empty())
      findings.push_back(about_host(host, "version.mixed", severity_of(names),
                                    fmt::format("{} differs from the other hosts: {}", host.name, join(odd)), action));
  }
  return findings;
}

std::vector<Finding> old_libfabric(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    const std::string version = versions_of(host)["libfabric"];
    if (!has_efa(host) || version.empty() || numbers(version) >= least_libfabric) continue;
    findings.push_back(
        about_host(host, "version.old", Severity::error,
                   fmt::format("libfabric {} on {}; aws-ofi-nccl needs 1.22 for EFA", version, host.name),
                   "install a current EFA installer on all nodes"));
  }
  return findings;
}

// It refuses to start with a driver of another version.
std::vector<Finding> other_fabric_manager(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    Versions all = versions_of(host);
    const std::string manager = all["fabric manager"], driver = all["nvidia driver"];
    if (manager.empty() || driver.empty() || manager == driver) continue;
    findings.push_back(
        about_host(host, "version.fabric_manager", Severity::error,
                   fmt::format("fabric manager {} beside NVIDIA driver {} on {}: it only works with its own", manager,
                               driver, host.name),
                   "install nvidia-fabricmanager of exactly the driver's version"));
  }
  return findings;
}

}  // namespace p5::topo
