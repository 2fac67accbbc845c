#include "reports/published.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/model/backends.hpp"
#include "reports/bars.hpp"
#include "reports/judge.hpp"

namespace p5::reports {

namespace {

// Messages below this part of a rank depend on latencies as much as on rates.
constexpr Bytes large_part = MiB(32);
// Software of one year reaches so much less than that of another. Simulated healthy machines of all platforms stay
// within it.
constexpr double published_tolerance = 0.1;

struct Figure {
  const Collective* collective;
  int nodes;
  Bytes part;
  double share;  // of the limit
  std::string binding;
};

std::vector<Figure> figures_of(const topo::Platform& platform) {
  std::vector<Figure> figures;
  for (const topo::Published& row : published_of(platform)) {
    if (!row.healthy || !row.busbw || !row.bytes || !row.pattern.empty() || row.gpus != platform.gpus) continue;
    const auto [m, verdict] = as_measured(platform, row);
    const Bytes part = part_of_rank(m.measured_case);
    if (verdict.fraction && part >= large_part)
      figures.push_back({m.measured_case.collective, row.nodes, part, *verdict.fraction, verdict.binding});
  }
  return figures;
}

// The best figure for messages no larger, of the number of nodes that is nearest. One node is no neighbour of several,
// and there links and switches each have their own figures.
std::optional<Figure> reference_of(const Result& result, const std::vector<Figure>& figures) {
  const Case& c = result.measurement.measured_case;
  std::optional<Figure> best;
  const auto distance = [&](const Figure& each) {
    return std::abs(std::log2(static_cast<double>(each.nodes) / c.nodes));
  };
  for (const Figure& each : figures) {
    // Decimal sizes are as good as binary ones.
    const bool fits = static_cast<double>(each.part.count) <= 1.1 * static_cast<double>(part_of_rank(c).count);
    if (each.collective != c.collective || (each.nodes > 1) != (c.nodes > 1) || !fits) continue;
    if (c.nodes == 1 && each.binding != result.verdict.binding) continue;
    if (!best || distance(each) < distance(*best) || (distance(each) == distance(*best) && each.share > best->share))
      best = each;
  }
  return best;
}

bool is_comparable(const Result& result, const topo::Platform& platform) {
  const Measurement& m = result.measurement;
  const Case& c = m.measured_case;
  return m.outcome == Outcome::measured && result.verdict.fraction && (c.group == "world" || c.group == "node") &&
         find_backend(c.backend).parts == BackendInfo::Parts::gpus && c.ranks == c.nodes * platform.gpus &&
         part_of_rank(c) >= large_part;
}

}  // namespace

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
  const bool nvls = figure.algorithm.empty() && platform.nvls && figure.collective == "all_reduce" && figure.nodes < 4;
  m.selection = Selection{nvls ? "nvls_tree" : figure.algorithm, "", 0, ""};
  m.throughput = Series{.operations_per_sample = 1, .samples = {}, .summary = {}, .stopped_because = ""};
  m.throughput->summary.median =
      static_cast<double>(c.bytes.count) * collective.bus_factor(c.ranks) / (share * figure.busbw.value().count * 1e9);
  topo::Topology topology;
  topology.platform = platform.name;
  return {m, judge(m, limits_of(platform), topology, {})};
}

std::vector<topo::Finding> below_published(const Report& report) {
  const topo::Platform* const platform = topo::platform_of_instance_type(report.topology.platform);
  const Grade grade = overall(report);
  if (!platform || (grade != Grade::ok && grade != Grade::unknown)) return {};
  const std::vector<Figure> figures = figures_of(*platform);
  // By collective and number of nodes: the largest share of the limit that this one reaches with any large message, and
  // that published ones reach.
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
      words.push_back(fmt::format("{} on {} {} by {:.0f} %", what.first, what.second,
                                  what.second == 1 ? "node" : "nodes", 100 * (1 - reached)));
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

std::vector<topo::FindingKind> published_finding_kinds() {
  return {{std::string(below_published_id), topo::About::software,
           "the largest bandwidth of a collective lies below what is published of such machines"}};
}

}  // namespace p5::reports
