// Routes of messages through a machine, and who sends how much to whom. A collective names its route, topo derives the
// limits of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace p5 {

// The route decides which part of a machine limits a collective, and how.
enum class Route {
  // A ring, as of all_gather: through all ranks, over all NICs of a node. Inter-node traffic per node is about the
  // message size.
  ring,
  tree_or_ring,    // all_reduce: a ring, or between two or three nodes a tree of sums, which needs less of the NICs
  all_to_all,      // each rank with all others at once, each over its own NICs
  all_to_allv,     // as all_to_all; blocks grow with the distance in the ring of ranks, none to itself
  rooted,          // gather and scatter: all others with the root at once, over the root's own NICs
  point_to_point,  // whole message from one rank to one other, over that rank's own NICs
};

// ---- A traffic matrix: who sends how much to whom, as whole parts in proportion.

struct TrafficMatrix {
  int ranks = 0;
  std::vector<std::uint64_t> parts;  // ranks x ranks, senders in rows; their diagonal stays with its rank

  std::uint64_t at(int from, int to) const {
    return parts[static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(to)];
  }
  std::uint64_t& at(int from, int to) {
    return parts[static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(to)];
  }
  friend bool operator==(const TrafficMatrix&, const TrafficMatrix&) = default;
};

// Parts that the busiest rank sends or receives, those for itself included: nccl-tests' size of an alltoallv.
constexpr std::uint64_t busiest_sum(const TrafficMatrix& matrix) {
  std::uint64_t most = 0;
  for (int rank = 0; rank < matrix.ranks; ++rank) {
    std::uint64_t sent = 0, received = 0;
    for (int other = 0; other < matrix.ranks; ++other)
      sent += matrix.at(rank, other), received += matrix.at(other, rank);
    for (const std::uint64_t sum : {sent, received}) most = sum > most ? sum : most;
  }
  return most;
}

}  // namespace p5
