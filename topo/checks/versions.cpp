// version.mixed, version.old and version.fabric_manager: software that differs between hosts, or does not go together
// (tables/software.json).
#include <array>

#include "topo/checks/families.hpp"
#include "topo/tables.hpp"

namespace p5::topo {

namespace {

// Version mismatches of software in the data path are errors; any other mismatch is a warning.
Severity severity_of(const std::vector<std::string>& names) {
  constexpr std::array decisive{"aws-ofi-nccl",   "cuda driver", "efa driver",
                                "fabric manager", "libfabric",   "nvidia driver"};
  const bool any = std::ranges::any_of(
      names, [&](const std::string& name) { return std::ranges::find(decisive, name) != decisive.end(); });
  return any ? Severity::error : Severity::warning;
}

// A part that has to be of some version at least, where others are of theirs.
struct Requirement {
  std::string part, least;
  std::map<std::string, VersionRange> given;
  std::vector<std::string> platforms;  // beginnings of instance types
  Severity severity = Severity::warning;
  std::string why, source;
};

// Component versions that a release of AWS's EFA installer contains.
struct Installer {
  std::string version;
  std::map<std::string, std::string> has;
  std::string source;
};

struct Software {
  std::vector<Requirement> requirements;
  std::vector<Installer> installers;  // oldest first
};

void fields(auto& archive, Is<Requirement> auto& requirement) {
  archive.must("part", requirement.part);
  archive.must("least", requirement.least);
  archive.must("given", requirement.given);
  archive.must("platforms", requirement.platforms);
  archive.must("severity", json_fields::named(requirement.severity, severity_from));
  archive.must("why", requirement.why);
  archive.must("source", requirement.source);
}

void fields(auto& archive, Is<Installer> auto& installer) {
  archive.must("version", installer.version);
  archive.must("has", installer.has);
  archive.must("source", installer.source);
}

void fields(auto& archive, Is<Software> auto& software) {
  archive.must("requirements", software.requirements);
  archive.must("installers", software.installers);
}

const Software& software() {
  static const auto all = json_fields::read_as<Software>(table("software.json"));
  return all;
}

bool breaks(const Host& host, const std::string& platform, const Requirement& requirement) {
  const auto here = [&](const std::string& beginning) { return platform.starts_with(beginning); };
  return std::ranges::any_of(requirement.platforms, here) &&
         contains({.from = {}, .below = requirement.least}, version_of(host, requirement.part)) &&
         std::ranges::all_of(requirement.given,
                             [&](const auto& given) { return contains(given.second, version_of(host, given.first)); });
}

std::string evidence_of(const Host& host, const Requirement& requirement) {
  std::vector<std::string> beside;
  for (const auto& [part, range] : requirement.given)
    if (part != requirement.part) beside.push_back(part + " " + version_of(host, part));
  return fmt::format("{} {} on {}{}, {} or later is needed: {}", requirement.part, version_of(host, requirement.part),
                     host.name, beside.empty() ? "" : " beside " + join(beside), requirement.least, requirement.why);
}

std::string action_for(const Requirement& requirement) {
  if (requirement.part == "nccl") return fmt::format("use NCCL {} or later", requirement.least);
  const auto has_it = [&](const Installer& installer) {
    const auto at = installer.has.find(requirement.part);
    return at != installer.has.end() && contains({.from = requirement.least, .below = {}}, at->second);
  };
  const auto at = std::ranges::find_if(software().installers, has_it);
  return fmt::format("install a current EFA installer on all nodes and in their images{}",
                     at == software().installers.end()
                         ? ""
                         : fmt::format(" ({} has {} {})", at->version, requirement.part, at->has.at(requirement.part)));
}

}  // namespace

std::map<std::string, std::string> versions_of(const Host& host) {
  std::map<std::string, std::string> all = host.versions;
  if (!host.kernel.empty()) all["kernel"] = host.kernel;
  if (!host.gpu_driver.empty()) all.try_emplace("nvidia driver", host.gpu_driver);
  if (host.libfabric && !host.libfabric->version.empty()) all.try_emplace("libfabric", host.libfabric->version);
  return all;
}

std::string version_of(const Host& host, const std::string& name) { return versions_of(host)[name]; }

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

// One finding for each host and part: the row with the highest required version, where several apply.
std::vector<Finding> old_software(const Topology& topology) {
  const bool is_known = platform_of_instance_type(topology.platform) != nullptr;
  const std::vector<const Platform*> platforms = platforms_of_hosts(topology);
  std::vector<Finding> findings;
  for (std::size_t at = 0; at < platforms.size(); ++at) {
    const Host& host = topology.hosts[at];
    const std::string platform = platforms[at] ? platforms[at]->name : is_known ? "" : topology.platform;
    std::map<std::string, const Requirement*> unmet;
    for (const Requirement& each : software().requirements) {
      const Requirement*& worst = unmet[each.part];
      if (breaks(host, platform, each) && (!worst || contains({.from = {}, .below = each.least}, worst->least)))
        worst = &each;
    }
    for (const auto& [part, requirement] : unmet)
      if (requirement)
        findings.push_back(about_host(host, "version.old", requirement->severity, evidence_of(host, *requirement),
                                      action_for(*requirement)));
  }
  return findings;
}

// It refuses to start with a driver of another version.
std::vector<Finding> other_fabric_manager(const Topology& topology) {
  return each_host(topology, "version.fabric_manager", Severity::error,
                   "install nvidia-fabricmanager of exactly the driver's version", [](const Host& host) -> std::string {
                     const std::string manager = version_of(host, "fabric manager"),
                                       driver = version_of(host, "nvidia driver");
                     if (manager.empty() || driver.empty() || manager == driver) return "";
                     return fmt::format("fabric manager {} beside NVIDIA driver {} on {}: it only works with its own",
                                        manager, driver, host.name);
                   });
}

}  // namespace p5::topo
