#include "reports/findings.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "bench/model/backends.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/gdr.hpp"
#include "reports/judge.hpp"
#include "reports/local_checks.hpp"
#include "reports/markup.hpp"
#include "reports/nccl_tests.hpp"
#include "reports/reachability.hpp"
#include "topo/limits.hpp"

namespace p5::reports {

namespace {

constexpr std::size_t least_launches = 5;
constexpr double standard_deviations = 6, times_what_matters = 2;

using Which = std::pair<std::string, int>;  // arm and launch

// A case that was slow in a launch.
struct Slow {
  const Case* of = nullptr;
  Quantity quantity = Quantity::throughput;
  double longer = 0;  // excess over the median, relative
};

const std::optional<double>& median_of(const LaunchMedians& launch, Quantity quantity) {
  return quantity == Quantity::latency ? launch.latency : launch.throughput;
}

void find(const CombinedLaunches& launches, Quantity quantity, std::map<Which, std::vector<Slow>>& slow) {
  std::vector<double> medians;
  for (const LaunchMedians& each : launches.medians())
    if (median_of(each, quantity)) medians.push_back(*median_of(each, quantity));
  if (medians.size() < least_launches) return;
  if (!launches.of().collective->moves_data) return;  // their time is the host's and the library's, not the fabric's
  const double middle = median(medians);
  const double scatter = robust_deviation(medians) / middle;
  const double matters = matters_at(band_of(launches.of()), middle);
  const double limit = std::max(times_what_matters * matters, standard_deviations * scatter);
  for (const LaunchMedians& each : launches.medians()) {
    if (!median_of(each, quantity)) continue;
    const double longer = *median_of(each, quantity) / middle - 1;
    if (longer > limit) slow[{launches.of().arm, each.launch}].push_back({&launches.of(), quantity, longer});
  }
}

topo::Finding finding_of(const Which& which, std::vector<Slow> cases, const std::string& started) {
  constexpr std::size_t most_cases = 3;
  std::ranges::stable_sort(cases, std::greater<>(), &Slow::longer);
  std::vector<std::string> named;
  for (std::size_t i = 0; i < std::min(cases.size(), most_cases); ++i)
    named.push_back(
        fmt::format("{} ({}) +{:.1f} %", describe(*cases[i].of), name_of(cases[i].quantity), 100 * cases[i].longer));
  if (cases.size() > most_cases) named.push_back(fmt::format("{} more", cases.size() - most_cases));
  topo::Finding finding;
  finding.id = slow_launch_id;
  finding.severity = topo::Severity::warning;
  finding.about = topo::About::fabric;
  finding.evidence = fmt::format("launch {}{}{} took longer than the median of all: {}", which.second + 1,
                                 which.first == "default" ? "" : " of " + which.first,
                                 started.empty() ? "" : ", begun at " + started + ",", join(named));
  finding.action =
      "look at what happened then (measurements.jsonl, the host's log); if it recurs, find the part with pairs";
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

namespace {

// Smaller messages per rank depend on latency as much as on bandwidth.
constexpr Bytes large_part = MiB(32);
// Tolerated shortfall between software versions of different years. Simulated healthy machines of all platforms stay
// within it.
constexpr double published_tolerance = 0.1;

struct Figure {
  const Collective* collective;
  int nodes, domains;
  Bytes part;
  double share;  // fraction of the limit
  std::string binding;
};

std::vector<Figure> figures_of(const topo::Platform& platform) {
  std::vector<Figure> figures;
  for (const topo::Published& row : published_of(platform)) {
    if (!row.healthy || !row.busbw || !row.bytes || !row.pattern.empty() || row.gpus != platform.gpus) continue;
    const auto [m, verdict] = as_measured(platform, row);
    const Bytes part = bytes_of_rank(m.measured_case);
    if (verdict.fraction && part >= large_part)
      figures.push_back({m.measured_case.collective, row.nodes, domains_of(m.measured_case), part, *verdict.fraction,
                         verdict.binding});
  }
  return figures;
}

// The best figure for messages of at most this size at the nearest number of nodes. A single NVLink domain is compared
// with single ones only, where links and switches have separate figures.
std::optional<Figure> reference_of(const Result& result, const std::vector<Figure>& figures) {
  const Case& c = result.measurement.measured_case;
  std::optional<Figure> best;
  const auto distance = [&](const Figure& each) {
    return std::abs(std::log2(static_cast<double>(each.nodes) / c.nodes));
  };
  for (const Figure& each : figures) {
    // The slack of 1.1 accepts decimal sizes for binary ones.
    const bool fits = static_cast<double>(each.part.count) <= 1.1 * static_cast<double>(bytes_of_rank(c).count);
    if (each.collective != c.collective || (each.domains > 1) != (domains_of(c) > 1) || !fits) continue;
    if (domains_of(c) == 1 && each.binding != result.verdict.binding) continue;
    if (!best || distance(each) < distance(*best) || (distance(each) == distance(*best) && each.share > best->share))
      best = each;
  }
  return best;
}

bool is_comparable(const Result& result, const topo::Platform& platform) {
  const Measurement& m = result.measurement;
  const Case& c = m.measured_case;
  return m.outcome == Outcome::measured && result.verdict.fraction && result.verdict.not_judged_hosts.empty() &&
         (c.group == "world" || c.group == "node" || c.group == "domain") &&
         find_backend(c.backend).parts == BackendInfo::Parts::gpus && c.ranks == c.nodes * platform.gpus &&
         bytes_of_rank(c) >= large_part;
}

}  // namespace

bool may_reduce_in_switch(const topo::Platform& platform, const Case& c) {
  const bool has_operation = !c.op || c.op == ReduceOp::sum || c.op == ReduceOp::min || c.op == ReduceOp::max;
  return platform.nvls && c.collective == &all_reduce && domains_of(c) <= topo::few_domains && has_operation &&
         size_of(c.type) > 1;
}

std::pair<Measurement, Verdict> as_measured(const topo::Platform& platform, const topo::Published& figure,
                                            double share) {
  const Collective& collective = find_collective(figure.collective);
  Measurement m;
  Case& c = m.measured_case;
  c.backend = "nccl";
  c.collective = &collective;
  c.bytes = figure.bytes.value();
  c.ranks = collective.pairwise ? 2 : figure.nodes * figure.gpus;
  c.nodes = figure.nodes;
  if (platform.nodes_per_domain > 1) {
    c.domains = platform.domains(figure.nodes);
    c.nodes_per_domain = figure.nodes / *c.domains;
  }
  const bool nvls = figure.algorithm.empty() && may_reduce_in_switch(platform, c);
  m.selection = Selection{nvls ? "nvls_tree" : figure.algorithm, "", 0, ""};
  m.throughput = Series{.operations_per_sample = 1, .samples = {}, .summary = {}, .stopped_because = ""};
  m.throughput->summary.median =
      static_cast<double>(c.bytes.count) * collective.bus_factor(c.ranks) / (share * figure.busbw.value().count * 1e9);
  topo::Topology topology;
  topology.platform = platform.name;
  return {m, judge(m, limits_of(platform), topology, {})};
}

WaitingOfNode waiting_of_nodes(const topo::Topology& topology, const std::vector<std::optional<double>>& shares) {
  WaitingOfNode waiting;
  for (std::size_t rank = 0; rank < std::min(shares.size(), topology.host_of_rank.size()); ++rank)
    if (shares[rank])
      waiting[topology.host_of_rank[rank]] = std::max(waiting[topology.host_of_rank[rank]], *shares[rank]);
  return waiting;
}

std::set<int> busy_nodes(const WaitingOfNode& waiting) {
  std::set<int> nodes;
  for (const auto& [node, share] : waiting)
    if (share > tolerated_waiting) nodes.insert(node);
  return nodes;
}

std::vector<topo::Finding> busy_cores(const topo::Topology& topology,
                                      const std::vector<std::optional<double>>& shares) {
  std::map<int, std::size_t> worst;  // rank by host
  for (std::size_t rank = 0; rank < std::min(shares.size(), topology.host_of_rank.size()); ++rank) {
    if (!shares[rank] || *shares[rank] <= tolerated_waiting) continue;
    const auto [found, first] = worst.try_emplace(topology.host_of_rank[rank], rank);
    if (!first && *shares[rank] > *shares[found->second]) found->second = rank;
  }
  std::vector<topo::Finding> findings;
  for (const auto& [number, rank] : worst) {
    const topo::Host& host = topology.hosts.at(static_cast<std::size_t>(number));
    findings.push_back({.id = std::string(cores_busy_id),
                        .severity = topo::Severity::warning,
                        .subject = {host.name, host.instance, {}, {}},
                        .evidence = fmt::format("the process that measured on rank {} of {} waited for a processor "
                                                "core for {:.0f} % of its time, which makes parts look slow",
                                                rank, host.name, 100 * *shares[rank]),
                        .action = "stop what else uses the cores, or give each rank cores of its own (mpirun --bind-to "
                                  "core --map-by slot:PE=2), and measure again",
                        .about = topo::About::host});
  }
  return findings;
}

void explain_slow_parts(std::vector<topo::Finding>& busy_cores, const topo::Topology& topology,
                        const std::map<int, std::vector<std::string>>& slow_while_waiting) {
  for (const auto& [node, parts] : slow_while_waiting)
    for (topo::Finding& finding : busy_cores) {
      const bool concerns =
          finding.id == cores_busy_id && finding.subject.host == topology.hosts.at(static_cast<std::size_t>(node)).name;
      if (!concerns || finding.severity == topo::Severity::error) continue;
      finding.severity = topo::Severity::error;
      finding.evidence += fmt::format(": here {}, which {} not steadily slow in the fastest samples", join(parts),
                                      parts.size() == 1 ? "is" : "are");
    }
}

std::vector<topo::Finding> below_published(const Report& report) {
  const topo::Platform* const platform = topo::platform_of_instance_type(report.topology.platform);
  const Grade grade = overall(report);
  if (!platform || !topo::has_one_platform(report.topology) || (grade != Grade::ok && grade != Grade::unknown))
    return {};
  const std::vector<Figure> figures = figures_of(*platform);
  // Largest fraction of the limit by collective and number of nodes: of this run with any large message, and published.
  struct Best {
    double own = 0, published = 0;
  };
  std::map<std::pair<std::string, int>, Best> best;
  for (const Result& result : report.results) {
    if (!is_comparable(result, *platform)) continue;
    const Case& c = result.measurement.measured_case;
    const std::optional<Figure> reference = reference_of(result, figures);
    if (!reference) continue;
    Best& its = best[{std::string(c.collective->name), c.nodes}];
    its.own = std::max(its.own, *result.verdict.fraction);
    its.published = std::max(its.published, reference->share);
  }
  std::vector<std::string> words;
  for (const auto& [what, its] : best)
    if (const double reached = its.own / its.published; reached < 1 - published_tolerance)
      words.push_back(
          fmt::format("{} on {} by {:.0f} %", what.first, counted(what.second, "node"), 100 * (1 - reached)));
  if (words.empty()) return {};
  return {{.id = std::string(below_published_id),
           .severity = topo::Severity::warning,
           .subject = {},
           .evidence = fmt::format("the largest bandwidth lies below what is published of healthy {}: {}",
                                   platform->name, join(words)),
           .action = "compare driver, NCCL, network plugin, NCCL_* and FI_* variables and placement with those of "
                     "another cluster; keep this run as a baseline only if you know why",
           .about = topo::About::software}};
}

std::vector<topo::FindingKind> finding_kinds() {
  using enum topo::About;
  std::vector<topo::FindingKind> kinds{
      {std::string(slow_launch_id), fabric, "one of several launches was slower than the others"},
      {std::string(cores_busy_id), host,
       "ranks waited for processor cores, on hosts of parts that seem slow; an error where that explains it"}};
  std::ranges::move(local_finding_kinds(), std::back_inserter(kinds));
  std::ranges::move(gdr_finding_kinds(), std::back_inserter(kinds));
  std::ranges::move(reachability_finding_kinds(), std::back_inserter(kinds));
  std::ranges::move(nccl_tests::import_finding_kinds(), std::back_inserter(kinds));
  kinds.push_back({std::string(below_published_id), software,
                   "the largest bandwidth of a collective lies below what is published of such machines"});
  return kinds;
}

}  // namespace p5::reports
