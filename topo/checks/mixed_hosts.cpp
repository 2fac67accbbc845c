// host.mixed: a cluster that is not of one kind runs at the pace of its oddest host.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/base/names.hpp"
#include "topo/checks/families.hpp"
#include "topo/platform.hpp"

namespace p5::topo {

namespace {

using Features = std::array<std::string, 4>;

// Features that the platform specifies stay empty here: other checks compare each host with them and report it alone.
Features features_of(const Host& host, const Platform* platform) {
  const auto physical =
      std::count_if(host.nics.begin(), host.nics.end(), [](const Nic& nic) { return nic.kind != "virtual"; });
  return {host.instance_type.empty() ? "no known instance type" : host.instance_type,
          fmt::format("{} cores", host.cores), platform ? "" : fmt::format("{} GPUs", host.gpus),
          platform && platform->nics > 0 ? "" : fmt::format("{} NICs", physical)};
}

struct Kind {
  Features features;
  std::vector<const Host*> hosts;
};

// Kinds of hosts, most frequent first.
std::vector<Kind> kinds_of(const Topology& topology) {
  const Platform* const platform = platform_of_instance_type(topology.platform);
  std::vector<Kind> kinds;
  for (const Host& host : topology.hosts) {
    const Features features = features_of(host, platform);
    auto at = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& kind) { return kind.features == features; });
    if (at == kinds.end()) at = kinds.insert(at, {features, {}});
    at->hosts.push_back(&host);
  }
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const Kind& a, const Kind& b) { return a.hosts.size() > b.hosts.size(); });
  return kinds;
}

std::string differing(const Features& these, const Features& others) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < these.size(); ++i)
    if (these[i] != others[i]) parts.push_back(these[i]);
  return join(parts);
}

constexpr std::string_view action =
    "replace or leave out what does not belong, or measure the kinds apart: one odd host slows all";

// No kind is the usual one, so none is to blame.
Finding undecided(const std::vector<Kind>& kinds) {
  std::vector<std::string> parts;
  for (const Kind& kind : kinds) {
    const Features& other = kinds[&kind == &kinds[0] ? 1 : 0].features;
    const std::size_t more = kind.hosts.size() - 1;
    parts.push_back(fmt::format("{}{} has {}", kind.hosts[0]->name, more ? fmt::format(" (and {} like it)", more) : "",
                                differing(kind.features, other)));
  }
  return {"host.mixed", Severity::warning, {}, fmt::format("hosts differ: {}", join(parts, "; ")), std::string(action)};
}

}  // namespace

std::vector<Finding> mixed_hosts(const Topology& topology) {
  const std::vector<Kind> kinds = kinds_of(topology);
  if (kinds.size() < 2) return {};
  if (kinds[0].hosts.size() == kinds[1].hosts.size()) return {undecided(kinds)};
  std::vector<Finding> findings;
  for (std::size_t i = 1; i < kinds.size(); ++i)
    for (const Host* host : kinds[i].hosts)
      findings.push_back(
          {"host.mixed",
           Severity::warning,
           {host->name, host->instance, {}, {}},
           fmt::format("{} has {}; {} of {} hosts have {}", host->name, differing(kinds[i].features, kinds[0].features),
                       kinds[0].hosts.size(), topology.hosts.size(), differing(kinds[0].features, kinds[i].features)),
           std::string(action)});
  return findings;
}

}  // namespace p5::topo
