// What a traffic matrix asks of each part of the machine, and the limit that follows from it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/base/traffic_matrix.hpp"
#include "bench/base/units.hpp"
#include "topo/limits.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

// A part, or several that share their load freely, in one direction.
struct TrafficPart {
  std::string name;     // "NICs rdma0, rdma1 of n0"
  std::string binding;  // as Limit::binding
  bool receives = false;
  std::vector<int> members;  // whose load it is: places in their groups, which are rows or columns of the matrix
  double load = 0;           // bytes through it, for each byte that the busiest rank sends or receives
  GBps rate;
  std::string because;                               // where the rate comes from
  double time() const { return load / rate.count; }  // seconds for a message of 1 GB
};

struct TrafficLoad {
  std::vector<TrafficPart> parts;  // the one that decides first
  // What the busiest rank sends, or receives, over the mean of all ranks, without blocks for itself.
  double sent_imbalance = 1, received_imbalance = 1;
  // Share of the limit that is lost because a receiving part is busier than any sending one.
  double incast_loss = 0;
};

// Load when all groups perform the matrix at the same time. A rank's blocks for ranks of other NVLink domains may
// take any of its GPU's rails, in any proportion; switches carry what their ends can send. Null where
// the rate of a part that is used is unknown.
std::optional<TrafficLoad> load_of(const TrafficMatrix& matrix, std::span<const std::vector<int>> groups,
                                   const Topology& topology, const Limits& limits, Level level);

// Limit on the bus bandwidth; `bus_factor` is that of the collective for the group.
Limit limit_of(const TrafficLoad& load, Level level, double bus_factor);

}  // namespace p5::topo
