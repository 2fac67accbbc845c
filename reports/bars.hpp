// What healthy machines reach of their limits, from bars.json: bars, of kinds of machines with published figures, and
// floors, which hold for every machine.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/route.hpp"
#include "bench/base/units.hpp"
#include "reports/report.hpp"
#include "topo/limits.hpp"
#include "topo/topology.hpp"

namespace p5::reports {

// What a bar is for; empty: any.
struct Bar {
  std::string binding, level, because;
  std::vector<std::string> collectives, gpus, platforms;
  int fewest_nodes = 1, most_nodes = std::numeric_limits<int>::max();
  int ranks = 1;  // at least
  Bytes from;
  double ok_from = 0;
};

// The share of its achievable limit that no healthy machine with published figures fell short of, with a margin.
struct Floor {
  std::vector<Route> routes;
  int fewest_nodes = 1, most_nodes = 1;
  int ranks = 2;  // at least
  Bytes from;
  double share = 0;
  // What the share stands on: the lowest figure of so many, of so many platforms, and which it is.
  double lowest = 0;
  int figures = 0, platforms = 0;
  std::string of;
};

const std::vector<Floor>& all_floors();
// Figures of this many platforms let a machine of another kind fall short by the smaller margin.
inline constexpr int several_platforms = 3;
inline constexpr double small_margin = 0.85, large_margin = 0.65;

// Of a message, what one rank has to move.
Bytes part_of_rank(const Case& c);
// A pair that nothing else goes on beside.
bool is_alone(const Case& c);

// Bars for such a case of any size, from the one for the smallest messages on.
std::vector<const Bar*> bars_of(const Case& c, const topo::Topology& topology);
// The floor for such a case, or null. Floors are known of whole groups, not of pairs alone, and between nodes of whole
// nodes of known platforms.
const Floor* floor_of(const Case& c, const topo::Topology& topology);
// What a limit of this level and binding part has to be multiplied by for the least that is achievable of it.
double achievable_of(const topo::Limit& limit);

}  // namespace p5::reports
