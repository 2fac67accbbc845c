#include "reports/gdr.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"

namespace p5::reports {

namespace {

// Fewest paths to compare: with two, it is unknown which is slow. The tolerance is wide, since no data exist on how
// much sound paths differ.
constexpr std::size_t least_paths = 3;
constexpr double tolerated_share = 0.1;

using Key = std::tuple<std::string, std::string, std::string>;  // host, GPU, NIC

bool lists(const topo::Host& host, const std::string& gpu, const std::string& nic) {
  const auto found =
      std::ranges::find_if(host.gpu_devices, [&](const topo::Gpu& each) { return each.pci.address == gpu; });
  return found != host.gpu_devices.end() && std::ranges::find(found->nics, nic) != found->nics.end();
}

// True if the path is slower than the others of its kind.
bool is_low(const GdrPath& path, const std::vector<GdrPath>& paths) {
  std::vector<double> rest;
  for (const GdrPath& each : paths)
    if (&each != &path && each.beside == path.beside) rest.push_back(each.gb_per_s);
  return rest.size() + 1 >= least_paths && path.gb_per_s < (1 - tolerated_share) * median(rest);
}

}  // namespace

std::vector<GdrPath> gdr_paths(const topo::Topology& topology, const GpusOfNics& gpus,
                               const std::vector<Measurement>& measured) {
  std::map<Key, GdrPath> all;
  for (const Measurement& m : measured) {
    const Case& c = m.measured_case;
    if (!c.nic || m.outcome != Outcome::measured) continue;
    const auto nic = static_cast<std::size_t>(*c.nic);
    for (const GroupResult& pair : m.groups) {
      const auto source = static_cast<std::size_t>(pair.group.front());
      const std::vector<std::string>& its = gpus.gpus_of_rank.at(source);
      const topo::Host& host = topology.hosts[static_cast<std::size_t>(topology.host_of_rank.at(source))];
      const auto place = static_cast<std::size_t>(gpus.beside_of_rank.at(source).at(nic) + c.gpu.value_or(0));
      GdrPath path{.host = host.name, .gpu = its[place % its.size()], .nic = topology.nics_of_rank[source].at(nic)};
      path.beside = !c.gpu || lists(host, path.gpu, path.nic);
      // Other load on the hosts only lowers a rate, and a slow link limits even the best sample, so the best one
      // counts.
      double best = pair.median.count;
      for (const float each : pair.samples) best = std::min(best, static_cast<double>(each));
      path.gb_per_s = (c.bytes / Seconds{best}).count;
      GdrPath& kept = all.try_emplace({path.host, path.gpu, path.nic}, path).first->second;
      kept.gb_per_s = std::max(kept.gb_per_s, path.gb_per_s);
    }
  }
  std::vector<GdrPath> paths;
  for (auto& [key, path] : all) paths.push_back(std::move(path));
  std::vector<bool> low;
  for (const GdrPath& path : paths) low.push_back(is_low(path, paths));
  for (std::size_t i = 0; i < paths.size(); ++i) {
    // If all paths of a NIC are slow, the NIC is at fault, and another finding names it.
    const auto sound_elsewhere = [&](const GdrPath& other) {
      return other.host == paths[i].host && other.nic == paths[i].nic &&
             !low[static_cast<std::size_t>(&other - paths.data())];
    };
    paths[i].slow = low[i] && std::ranges::any_of(paths, sound_elsewhere);
  }
  return paths;
}

std::vector<topo::Finding> slow_paths(const std::vector<GdrPath>& paths) {
  std::vector<topo::Finding> findings;
  for (const GdrPath& path : paths) {
    if (!path.slow) continue;
    std::vector<double> rest;
    for (const GdrPath& each : paths)
      if (&each != &path && each.beside == path.beside) rest.push_back(each.gb_per_s);
    topo::Finding finding;
    finding.id = "gdr.slow_path";
    finding.severity = topo::Severity::warning;
    finding.about = topo::About::hardware;
    finding.subject = {.host = path.host, .instance = {}, .gpu = {}, .nic = path.nic};
    finding.evidence = fmt::format(
        "NIC {} of {} reads the memory of the GPU {} at {:.4g} GB/s; of the {} other paths between {} the median is "
        "{:.4g} GB/s, and the NIC is no slower from another GPU",
        path.nic, path.host, path.gpu, path.gb_per_s, rest.size(),
        path.beside ? "a NIC and a GPU beside it" : "a NIC and a GPU far from it", median(rest));
    finding.action =
        "look at the PCIe links between them (lspci -vv, LnkSta) and whether ACS or an IOMMU sends this traffic "
        "through "
        "the processor; where others of its kind are sound, replace the node";
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::string gdr_text(const std::vector<GdrPath>& paths) {
  std::vector<std::string> parts;
  for (const bool beside : {true, false}) {
    std::vector<double> rates;
    for (const GdrPath& path : paths)
      if (path.beside == beside) rates.push_back(path.gb_per_s);
    if (rates.empty()) continue;
    const auto [low, high] = std::ranges::minmax(rates);
    parts.push_back(fmt::format("{} {:.4g} to {:.4g} GB/s", beside ? "beside" : "far", low, high));
  }
  for (const GdrPath& path : paths)
    if (path.slow) parts.push_back(fmt::format("slow: {} {} to {}", path.host, path.gpu, path.nic));
  return join(parts);
}

std::vector<topo::FindingKind> gdr_finding_kinds() {
  using enum topo::About;
  return {{"gdr.slow_path", hardware, "a NIC that reads one GPU's memory more slowly than other NICs read theirs"}};
}

}  // namespace p5::reports
