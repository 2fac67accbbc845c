#include "reports/slow_launches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "reports/compare/comparison.hpp"

namespace p5::reports {

namespace {

constexpr std::size_t least_launches = 5;
constexpr double standard_deviations = 6, times_what_matters = 2;

using Which = std::pair<std::string, int>;  // arm and launch

// A case in a launch in which it took longer.
struct Slow {
  const Case* of = nullptr;
  Quantity quantity = Quantity::throughput;
  double longer = 0;  // share of the median
};

const std::optional<double>& median_of(const LaunchMedians& launch, Quantity quantity) {
  return quantity == Quantity::latency ? launch.latency : launch.throughput;
}

void find(const CombinedLaunches& launches, Quantity quantity, std::map<Which, std::vector<Slow>>& slow) {
  std::vector<double> medians;
  for (const LaunchMedians& each : launches.medians())
    if (median_of(each, quantity)) medians.push_back(*median_of(each, quantity));
  if (medians.size() < least_launches) return;
  const double middle = median(medians);
  const double scatter = robust_deviation(medians) / middle;
  const double matters = matters_at(band_of(launches.of().bytes), middle);
  const double limit = std::max(times_what_matters * matters, standard_deviations * scatter);
  for (const LaunchMedians& each : launches.medians()) {
    if (!median_of(each, quantity)) continue;
    const double longer = *median_of(each, quantity) / middle - 1;
    if (longer > limit) slow[{launches.of().arm, each.launch}].push_back({&launches.of(), quantity, longer});
  }
}

topo::Finding finding_of(const Which& which, std::vector<Slow> cases, const std::string& started) {
  constexpr std::size_t most_named = 3;
  std::ranges::stable_sort(cases, std::greater<>(), &Slow::longer);
  std::vector<std::string> named;
  for (std::size_t i = 0; i < std::min(cases.size(), most_named); ++i)
    named.push_back(
        fmt::format("{} ({}) +{:.1f} %", describe(*cases[i].of), name_of(cases[i].quantity), 100 * cases[i].longer));
  if (cases.size() > most_named) named.push_back(fmt::format("{} more", cases.size() - most_named));
  topo::Finding finding;
  finding.id = "run.slow_launch";
  finding.severity = topo::Severity::warning;
  finding.about = topo::About::fabric;
  finding.evidence = fmt::format("launch {}{}{} took longer than the median of all: {}", which.second + 1,
                                 which.first == "default" ? "" : " of " + which.first,
                                 started.empty() ? "" : ", begun at " + started + ",", join(named));
  finding.action =
      "look at what happened then (measurements.jsonl, the host's log); if it comes again, find the part with pairs";
  return finding;
}

}  // namespace

std::vector<topo::Finding> slow_launches(const std::vector<const CombinedLaunches*>& cases,
                                         const std::map<std::pair<std::string, int>, std::string>& started) {
  std::map<Which, std::vector<Slow>> slow;
  for (const CombinedLaunches* const launches : cases)
    for (const Quantity quantity : {Quantity::latency, Quantity::throughput}) find(*launches, quantity, slow);
  std::vector<topo::Finding> findings;
  for (auto& [which, all] : slow) {
    const auto at = started.find(which);
    findings.push_back(finding_of(which, std::move(all), at == started.end() ? "" : at->second));
  }
  return findings;
}

std::vector<topo::FindingKind> launch_finding_kinds() {
  return {{"run.slow_launch", topo::About::fabric, "one of several launches was slower than the others"}};
}

}  // namespace p5::reports
