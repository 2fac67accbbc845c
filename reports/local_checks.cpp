#include "reports/local_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "bench/base/statistics.hpp"

namespace p5::reports {

namespace {

constexpr std::size_t least_gpus = 3;

// What is tolerated is wide on purpose: host copies share memory and switches with those of the other GPUs, and how
// fast a host launches differed by 40 % from one process to the next on a shared H200 host (2026-11-22).
constexpr std::array checks{
    LocalCheck{.name = "device_copy_gb_per_s",
               .label = "device copy",
               .unit = "GB/s",
               .tolerated = 0.05,
               .action = "look at its memory and clocks: nvidia-smi -q -d ECC,ROW_REMAPPER,CLOCK,PERFORMANCE"},
    LocalCheck{.name = "host_to_device_gb_per_s",
               .label = "host to device",
               .unit = "GB/s",
               .tolerated = 0.25,
               .action = "compare its PCIe link with the others': nvidia-smi -q, \"GPU Link Info\""},
    LocalCheck{.name = "device_to_host_gb_per_s",
               .label = "device to host",
               .unit = "GB/s",
               .tolerated = 0.25,
               .action = "compare its PCIe link with the others': nvidia-smi -q, \"GPU Link Info\""},
    LocalCheck{.name = "launch_us",
               .label = "launch of an empty kernel",
               .unit = "us",
               .more_is_better = false,
               .tolerated = 1,
               .action = "see what else runs on the cores near it, and at which clock they run"},
};

struct Device {
  std::size_t rank = 0;
  const topo::Host* host = nullptr;
  std::optional<int> gpu;  // of the host
  std::string model;
};

Device device_of(const Report& report, std::size_t rank) {
  const topo::Topology& topology = report.topology;
  Device device;
  device.rank = rank;
  if (rank < topology.host_of_rank.size())
    device.host = &topology.hosts[static_cast<std::size_t>(topology.host_of_rank[rank])];
  if (!device.host || rank >= topology.gpu_of_rank.size()) return device;
  const auto& gpus = device.host->gpu_devices;
  const auto found = std::ranges::find(gpus, topology.gpu_of_rank[rank], &topo::Gpu::uuid);
  if (found == gpus.end()) return device;
  device.gpu = static_cast<int>(found - gpus.begin());
  device.model = found->name;
  return device;
}

std::optional<double> figure(const Report& report, std::size_t rank, const LocalCheck& check) {
  const auto found = report.local_checks[rank].find(std::string(check.name));
  return found == report.local_checks[rank].end() ? std::nullopt : std::optional(found->second);
}

topo::Finding finding_of(const Device& device, const LocalCheck& check, double here, double others, double worse,
                         std::size_t count) {
  topo::Finding finding;
  finding.id = "gpu.slow_alone";
  finding.severity = topo::Severity::warning;
  finding.about = topo::About::hardware;
  if (device.host) finding.subject = {device.host->name, device.host->instance, device.gpu, {}};
  finding.evidence = fmt::format(
      "rank {}, alone, {}: {:.4g} {}, the median of the {} others of its model {:.4g} "
      "({:.0f} % {})",
      device.rank, check.label, here, check.unit, count, others, 100 * worse, check.more_is_better ? "less" : "more");
  finding.action = check.action;
  return finding;
}

void find_worse(const Report& report, const std::vector<Device>& alike, const LocalCheck& check,
                std::vector<topo::Finding>& findings) {
  std::vector<std::pair<const Device*, double>> all;
  for (const Device& device : alike)
    if (const auto value = figure(report, device.rank, check)) all.emplace_back(&device, *value);
  if (all.size() < least_gpus) return;
  for (const auto& [device, here] : all) {
    std::vector<double> rest;
    for (const auto& [other, value] : all)
      if (other != device) rest.push_back(value);
    const double others = median(rest);
    const double worse = (check.more_is_better ? others - here : here - others) / others;
    if (worse > check.tolerated) findings.push_back(finding_of(*device, check, here, others, worse, rest.size()));
  }
}

}  // namespace

std::span<const LocalCheck> local_checks() { return checks; }

std::vector<topo::Finding> slow_alone(const Report& report) {
  std::map<std::string, std::vector<Device>> by_model;
  for (std::size_t rank = 0; rank < report.local_checks.size(); ++rank) {
    Device device = device_of(report, rank);
    by_model[device.model].push_back(std::move(device));
  }
  std::vector<topo::Finding> findings;
  for (const auto& [model, alike] : by_model)
    for (const LocalCheck& check : checks) find_worse(report, alike, check, findings);
  return findings;
}

std::vector<std::string> local_ranges(const Report& report) {
  std::vector<std::string> ranges;
  for (const LocalCheck& check : checks) {
    std::vector<double> values;
    for (std::size_t rank = 0; rank < report.local_checks.size(); ++rank)
      if (const auto value = figure(report, rank, check)) values.push_back(*value);
    if (values.empty()) continue;
    const auto [low, high] = std::ranges::minmax(values);
    ranges.push_back(fmt::format("{} {:.4g} to {:.4g} {}", check.label, low, high, check.unit));
  }
  return ranges;
}

std::vector<topo::FindingKind> local_finding_kinds() {
  using enum topo::About;
  return {{"gpu.slow_alone", hardware, "a GPU that copies or launches more slowly than the others, each alone"},
          {std::string(check_failed), hardware, "copies and launches of each GPU alone could not be measured"}};
}

}  // namespace p5::reports
