#include "reports/tokens.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/model/tokens.hpp"
#include "topo/platform.hpp"

namespace p5::reports {

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
