#include "reports/bars.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "bench/base/embedded.hpp"
#include "bench/model/backends.hpp"
#include "topo/platform.hpp"

namespace p5::reports {

namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, Route>, 6> route_names{{{"rings", Route::rings},
                                                                         {"sums", Route::sums},
                                                                         {"exchange", Route::exchange},
                                                                         {"uneven_exchange", Route::uneven_exchange},
                                                                         {"star", Route::star},
                                                                         {"neighbours", Route::neighbours}}};

Bar bar_from(const json& row) {
  Bar bar{.binding = row.at("binding"),
          .level = row.at("level"),
          .because = row.at("because"),
          .collectives = row.at("collectives"),
          .gpus = row.value("gpus", std::vector<std::string>{}),
          .platforms = row.value("platforms", std::vector<std::string>{}),
          .ranks = row.value("ranks", 1),
          .from = parse_bytes(row.at("from").get<std::string>()),
          .ok_from = row.at("ok_from")};
  if (row.contains("nodes")) std::tie(bar.fewest_nodes, bar.most_nodes) = row.at("nodes").get<std::pair<int, int>>();
  return bar;
}

Floor floor_from(const json& row) {
  Floor floor{.routes = {},
              .ranks = row.at("ranks"),
              .from = parse_bytes(row.at("from").get<std::string>()),
              .share = row.at("share"),
              .lowest = row.at("lowest"),
              .figures = row.at("figures"),
              .platforms = row.at("platforms"),
              .of = row.at("of")};
  std::tie(floor.fewest_nodes, floor.most_nodes) = row.at("nodes").get<std::pair<int, int>>();
  for (const std::string name : row.at("routes"))
    for (const auto& [known, route] : route_names)
      if (known == name) floor.routes.push_back(route);
  return floor;
}

struct BarsFile {
  std::vector<Bar> bars;
  std::vector<Floor> floors;
};

const BarsFile& bars_file() {
  static const BarsFile all = [] {
    BarsFile read;
    for (const embedded::File& file : embedded::report_files()) {
      if (file.name != "bars.json") continue;
      const json rows = json::parse(file.text);
      for (const json& row : rows.at("bars")) read.bars.push_back(bar_from(row));
      for (const json& row : rows.at("floors")) read.floors.push_back(floor_from(row));
    }
    return read;
  }();
  return all;
}

bool among(const std::string& what, const std::vector<std::string>& list) {
  return list.empty() || std::ranges::find(list, what) != list.end();
}

bool of_whole_nodes(const Case& c, const topo::Platform& platform) { return c.ranks == c.nodes * platform.gpus; }

// What is known of a platform is of its whole nodes.
bool is_for(const Bar& bar, const Case& c, const topo::Topology& topology) {
  const bool in_hosts = find_backend(c.backend).parts == BackendInfo::Parts::hosts;
  if (in_hosts != (bar.binding == "host memory")) return false;
  if (!among(std::string(c.collective->name), bar.collectives) || c.ranks < bar.ranks) return false;
  if (c.nodes < bar.fewest_nodes || c.nodes > bar.most_nodes) return false;
  if (!bar.gpus.empty() && !among(gpu_model(topology), bar.gpus)) return false;
  if (bar.platforms.empty()) return true;
  const topo::Platform* const platform = topo::platform_of_instance_type(topology.platform);
  return platform && among(platform->name, bar.platforms) && of_whole_nodes(c, *platform);
}

}  // namespace

const std::vector<Floor>& all_floors() { return bars_file().floors; }

// Of a message, what one rank has to move.
Bytes part_of_rank(const Case& c) {
  return c.collective->route == Route::neighbours ? c.bytes
                                                  : Bytes{c.bytes.count / static_cast<std::uint64_t>(c.ranks)};
}

// A pair that nothing else goes on beside.
bool is_alone(const Case& c) {
  return c.collective->pairwise && c.rounds &&
         std::ranges::all_of(*c.rounds, [](const Round& round) { return round.size() == 1; });
}

std::vector<const Bar*> bars_of(const Case& c, const topo::Topology& topology) {
  std::vector<const Bar*> bars;
  for (const Bar& bar : bars_file().bars)
    if (is_for(bar, c, topology)) bars.push_back(&bar);
  std::ranges::stable_sort(bars, {}, [](const Bar* bar) { return bar->from.count; });
  return bars;
}

const Floor* floor_of(const Case& c, const topo::Topology& topology) {
  if (c.nic || is_alone(c)) return nullptr;
  if (c.nodes > 1 && !c.collective->pairwise) {
    const topo::Platform* const platform = topo::platform_of_instance_type(topology.platform);
    if (!platform || !of_whole_nodes(c, *platform)) return nullptr;
  }
  const Floor* best = nullptr;
  for (const Floor& floor : all_floors()) {
    const bool fits = std::ranges::find(floor.routes, c.collective->route) != floor.routes.end() &&
                      c.nodes >= floor.fewest_nodes && c.nodes <= floor.most_nodes && c.ranks >= floor.ranks &&
                      part_of_rank(c) >= floor.from;
    if (fits && (!best || floor.from > best->from)) best = &floor;
  }
  return best;
}

double achievable_of(const topo::Limit& limit) {
  static const std::map<std::string, double> least_of = [] {
    std::map<std::string, double> least;
    for (const topo::Platform& platform : topo::platforms()) {
      const topo::Limits limits = limits_of(platform);
      for (const topo::Limit& wire : limits) {
        const topo::Limit* const reached = topo::find(limits, wire.name, topo::Level::achievable);
        if (wire.level != topo::Level::wire || !reached) continue;
        double& its = least.try_emplace(wire.binding, 1.0).first->second;
        its = std::min(its, reached->rate.count / wire.rate.count);
      }
    }
    return least;
  }();
  if (limit.level != topo::Level::wire) return 1;
  const auto found = least_of.find(limit.binding);
  return found == least_of.end() ? 0 : found->second;
}

}  // namespace p5::reports
