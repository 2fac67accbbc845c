#include "reports/traffic.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/base/names.hpp"
#include "bench/base/route.hpp"
#include "bench/base/text.hpp"
#include "bench/model/tokens.hpp"
#include "bench/model/traffic.hpp"
#include "reports/report.hpp"
#include "topo/platform.hpp"

namespace p5::reports {

namespace {

constexpr std::size_t most_shown_parts = 16;

std::optional<std::pair<topo::TrafficLoad, topo::Level>> load_of(const Case& c, const topo::Limits& limits,
                                                                 const topo::Topology& topology) {
  if (!c.rounds || c.rounds->empty() || c.shape.traffic->matrix.ranks != c.ranks) return std::nullopt;
  for (const topo::Level level : {topo::Level::achievable, topo::Level::wire})
    if (auto load = topo::load_of(c.shape.traffic->matrix, c.rounds->front(), topology, limits, level))
      return std::pair(std::move(*load), level);
  return std::nullopt;
}

std::vector<std::vector<double>> shares_of(const p5::MatrixTraffic& traffic) {
  std::vector<std::vector<double>> rows;
  if (traffic.matrix.ranks > most_shown_ranks) return rows;
  for (int from = 0; from < traffic.matrix.ranks; ++from) {
    rows.emplace_back();
    for (int to = 0; to < traffic.matrix.ranks; ++to)
      rows.back().push_back(static_cast<double>(traffic.matrix.at(from, to)) / static_cast<double>(traffic.busiest));
  }
  return rows;
}

}  // namespace

std::optional<topo::Limit> traffic_limit(const Case& c, const topo::Limits& limits, const topo::Topology& topology) {
  const auto found = load_of(c, limits, topology);
  if (!found) return std::nullopt;
  return topo::limit_of(found->first, found->second, c.collective->bus_factor(c.ranks));
}

static Traffic describe(const Case& c, const topo::Limits& limits, const topo::Topology& topology) {
  const p5::MatrixTraffic& given = *c.shape.traffic;
  Traffic traffic{.name = given.name,
                  .collectives = {std::string(c.collective->name)},
                  .ranks = given.matrix.ranks,
                  .matrix = shares_of(given),
                  .level = {},
                  .parts = {}};
  auto found = load_of(c, limits, topology);
  if (!found) return traffic;
  auto& [load, level] = *found;
  traffic.level = topo::name_of(level);
  traffic.sent_imbalance = load.sent_imbalance;
  traffic.received_imbalance = load.received_imbalance;
  traffic.incast_loss = load.incast_loss;
  traffic.parts = std::move(load.parts);
  if (traffic.parts.size() > most_shown_parts) traffic.parts.resize(most_shown_parts);
  return traffic;
}

std::vector<Traffic> describe_traffic(std::span<const Case> cases, const topo::Limits& limits,
                                      const topo::Topology& topology) {
  std::vector<Traffic> all;
  std::vector<const p5::MatrixTraffic*> described;
  for (const Case& c : cases) {
    const p5::MatrixTraffic* const given = c.shape.traffic.get();
    if (!given) continue;
    const auto known = std::ranges::find_if(described, [&](const p5::MatrixTraffic* each) {
      return each == given || (each->name == given->name && each->matrix == given->matrix);
    });
    if (known == described.end()) {
      described.push_back(given);
      all.push_back(describe(c, limits, topology));
      continue;
    }
    std::vector<std::string>& collectives = all[static_cast<std::size_t>(known - described.begin())].collectives;
    if (std::ranges::find(collectives, c.collective->name) == collectives.end())
      collectives.emplace_back(c.collective->name);
  }
  return all;
}

std::string traffic_lines(const std::vector<Traffic>& traffic) {
  std::string text;
  for (const Traffic& each : traffic) {
    text += format_printable("traffic {} of {}: ", each.name, join(each.collectives, " and "));
    if (each.parts.empty()) {
      text += "the rate of a part that it uses is not known, so it has no limit\n";
      continue;
    }
    const topo::TrafficPart& first = each.parts.front();
    text += format_printable(
        "{} ({}) decide; the busiest rank sends {:.2f} times and receives {:.2f} times the mean; incast costs {:.0f} % "
        "of the limit\n",
        first.name, first.receives ? "receiving" : "sending", each.sent_imbalance, each.received_imbalance,
        100 * each.incast_loss);
  }
  return text;
}

// ---- Tokens of dispatch and combine

namespace {

std::string point_of(std::uint64_t tokens) {
  const std::string number = std::to_string(tokens) + " tokens";
  return tokens == tokens_of_decode    ? "decode (" + number + ")"
         : tokens == tokens_of_prefill ? "prefill (" + number + ")"
                                       : number;
}

std::string figures_of(const Measurement& m) {
  const Case& c = m.measured_case;
  const Seconds burst{m.throughput->summary.median};
  std::vector<std::string> figures;
  if (m.latency) figures.push_back("latency " + to_text(Seconds{m.latency->summary.median}));
  if (c.shape.tokens != tokens_of_decode)
    figures.push_back(format_printable("{:.1f} GB/s in {}", bus_bandwidth(c, burst).count, to_text(burst)));
  if (figures.empty()) figures.push_back(to_text(burst) + " in a burst");
  return join(figures, ", ");
}

// Published figures are of one model: they stand beside tokens that are as long as its own.
std::string published_text(const Report& report, const Case& c) {
  const topo::Platform* const platform = topo::platform_of_instance_type(report.topology.platform);
  if (!platform || c.shape.hidden != usual_hidden) return "";
  std::string text;
  for (const topo::Published& row : published_of(*platform)) {
    if (row.collective != c.collective->name || !row.tokens || std::cmp_not_equal(*row.tokens, c.shape.tokens))
      continue;
    if (row.nodes != c.nodes || row.gpus * row.nodes != c.ranks) continue;
    text += format_printable(" (published: {}, {}, {}; {})", to_text(*row.latency), row.software, row.note, row.source);
  }
  return text;
}

}  // namespace

std::string token_lines(const Report& report) {
  std::map<std::string, std::map<std::uint64_t, std::string>> lines;  // by operation, then by tokens
  for (const Result& result : report.results) {
    const Measurement& m = result.measurement;
    const Case& c = m.measured_case;
    if (c.shape.tokens == 0 || !m.throughput || c.arm != "default") continue;
    const std::string of = format_printable("{} of {} {}", c.collective->name, c.shape.hidden, name_of(c.type));
    lines[of][c.shape.tokens] = point_of(c.shape.tokens) + " " + figures_of(m) + published_text(report, c);
  }
  std::string text;
  for (const auto& [of, points] : lines) {
    std::vector<std::string> each;
    for (const auto& [tokens, figures] : points) each.push_back(figures);
    text += format_printable("tokens, {}: {}\n", of, join(each, "; "));
  }
  return text;
}

}  // namespace p5::reports
