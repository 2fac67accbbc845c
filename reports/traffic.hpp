// Demands of each traffic matrix of a run on the machine: the parts that bind it, its imbalance and its loss by incast;
// and tokens of dispatch and combine.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/model/case.hpp"
#include "topo/limits.hpp"
#include "topo/topology.hpp"

namespace p5::reports {

struct Report;

// The limit on the bus bandwidth of a case with a matrix, from its busiest part: achievable, where that is known, else
// wire. Null where a rate is unknown, or the case comes from a report, which has no matrix for each case.
std::optional<topo::Limit> traffic_limit(const Case& c, const topo::Limits& limits, const topo::Topology& topology);

struct Traffic {
  std::string name;                      // as in the cases
  std::vector<std::string> collectives;  // that move it; combine moves that of dispatch the other way round
  int ranks = 0;
  // Bytes from each rank to each, for each byte that the busiest one sends or receives; empty above most_shown_ranks.
  std::vector<std::vector<double>> matrix;
  std::string level;                     // of the rates, "" where one is unknown; the rest is empty then
  std::vector<topo::TrafficPart> parts;  // the busiest ones, the one that decides first
  double sent_imbalance = 1, received_imbalance = 1, incast_loss = 0;  // as in topo::TrafficLoad
};

inline constexpr int most_shown_ranks = 128;

// The matrices of the cases, each once, in the order of the cases.
std::vector<Traffic> describe_traffic(std::span<const Case> cases, const topo::Limits& limits,
                                      const topo::Topology& topology);

// "traffic zipf:1.1 of all_to_allv: links of rank 3 on n0 (receiving) decide; ...": a line for each.
std::string traffic_lines(const std::vector<Traffic>& traffic);

// ---- Tokens of dispatch and combine: the latency of decode and the bandwidth of prefill, with figures that others
// have published of the same machine beside them.

// A line for each collective and type: "tokens, dispatch of 7168 bfloat16: decode (128 tokens) latency 61 us; prefill
// (4096 tokens) 330 GB/s in 0.9 ms"; "" without.
std::string token_lines(const Report& report);

}  // namespace p5::reports
