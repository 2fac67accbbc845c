// Floors of bars.json against the published figures that they are derived from: a changed figure fails here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "published_figures.hpp"
#include "reports/findings.hpp"
#include "reports/judge.hpp"

namespace p5::reports {
namespace {

using nlohmann::json;

std::string bars_path() { return std::string(P5BENCH_SOURCE_FOLDER) + "/reports/bars.json"; }

std::string text_of_bars() {
  std::ostringstream text;
  text << std::ifstream(bars_path()).rdbuf();
  return text.str();
}

// Basis of a floor: the lowest fraction of the limit among healthy figures.
struct Lowest {
  double share = 1e9;
  std::string of;
  std::set<std::string> platforms;
  int figures = 0, most_nodes = 1, most_ranks = 0;
};

Lowest lowest_of(const Floor& floor) {
  Lowest lowest;
  for (const topo::Platform& platform : topo::platforms())
    for (topo::Published row : platform.published) {
      // A single NIC is no group, and a figure without its size is the best over all sizes.
      if (!row.healthy || !row.busbw || row.pattern == "one_nic") continue;
      if (!row.bytes) row.bytes = Bytes{GiB(1).count * static_cast<std::uint64_t>(row.nodes * row.gpus)};
      const auto [m, verdict] = as_measured(platform, row);
      const Case& c = m.measured_case;
      const bool same = std::ranges::find(floor.routes, c.collective->route) != floor.routes.end() &&
                        (floor.fewest_nodes > 1) == (domains_of(c) > 1) && c.ranks >= floor.ranks &&
                        bytes_of_rank(c) >= floor.from;
      if (!same) continue;
      EXPECT_TRUE(verdict.fraction) << published::text_of(platform, row);
      ++lowest.figures;
      lowest.platforms.insert(platform.name);
      lowest.most_nodes = std::max(lowest.most_nodes, domains_of(c));
      lowest.most_ranks = std::max(lowest.most_ranks, c.ranks);
      if (!verdict.fraction || *verdict.fraction >= lowest.share) continue;
      lowest.share = *verdict.fraction;
      lowest.of = fmt::format("{} on {} x {}, {}, {:.4g} GB/s", row.collective, row.nodes, platform.name,
                              to_text(*row.bytes), row.busbw->count);
    }
  return lowest;
}

// Least number of platforms behind a floor for the smaller margin.
constexpr int several_platforms = 3;
constexpr double small_margin = 0.85, large_margin = 0.65;

// Floors in the format of bars.json, one line each.
std::string derived_lines() {
  std::string text;
  const json file = json::parse(text_of_bars());
  for (const json& row : file.at("floors")) {
    const std::string from = row.at("from");
    Floor floor;
    for (const Floor& each : all_floors())
      if (each.from == parse_bytes(from) && each.fewest_nodes == row.at("nodes").at(0) &&
          row.at("ranks") == each.ranks && row.at("routes").size() == each.routes.size() &&
          find_collective(row.at("routes").at(0) == "rings"      ? "all_gather"
                          : row.at("routes").at(0) == "exchange" ? "all_to_all"
                                                                 : "p2p")
                  .route == each.routes.front())
        floor = each;
    const Lowest lowest = lowest_of(floor);
    const bool several = static_cast<int>(lowest.platforms.size()) >= several_platforms;
    const double share = std::floor(100 * lowest.share * (several ? small_margin : large_margin)) / 100;
    // Blocks of an exchange are half as large with twice the ranks; with many more nothing is known of them.
    const bool exchanges = floor.routes.front() == Route::all_to_all;
    text += fmt::format(
        "    {{\"routes\": {}, \"nodes\": [{}, {}], \"ranks\": {}, {}\"from\": \"{}\", \"share\": {}, \"lowest\": "
        "{:.3g}, "
        "\"figures\": {}, \"platforms\": {}, \"of\": \"{}\"}},\n",
        fmt::format("[\"{}\"]", fmt::join(row.at("routes").get<std::vector<std::string>>(), "\", \"")),
        floor.fewest_nodes, floor.fewest_nodes > 1 ? lowest.most_nodes : 1, floor.ranks,
        exchanges ? fmt::format("\"most_ranks\": {}, ", 2 * lowest.most_ranks) : "", from, share, lowest.share,
        lowest.figures, lowest.platforms.size(), lowest.of);
  }
  return text.substr(0, text.size() - 2) + "\n";
}

// P5BENCH_UPDATE=1 rewrites them.
TEST(Floors, are_what_the_published_figures_say) {
  std::string file = text_of_bars();
  const std::string begin = "\"floors\": [\n", end = "  ],\n  \"bars\"";
  const std::size_t from = file.find(begin) + begin.size(), to = file.find(end);
  ASSERT_NE(to, std::string::npos);
  if (std::getenv("P5BENCH_UPDATE")) {
    file.replace(from, to - from, derived_lines());
    std::ofstream(bars_path()) << file;
  }
  EXPECT_EQ(file.substr(from, file.find(end) - from), derived_lines());
}

}  // namespace
}  // namespace p5::reports
