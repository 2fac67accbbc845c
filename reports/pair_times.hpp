// The times of pairs of ranks, each against those of its like: what a part of the cluster is judged by.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

// The place of a rank: its node, and its number among the ranks there.
struct Place {
  int node = 0, number = 0;
  auto operator<=>(const Place&) const = default;
};
std::vector<Place> places_of(const topo::Topology& topology);

// Two ranks over one way, and how much longer they take than the fast ones of their like: 1 is as long.
struct PairTime {
  Place a, b;
  std::optional<int> nic;     // this one of their NICs alone; null: all that there are
  std::vector<double> usual;  // of each case and each way: by the median of its samples
  std::vector<double> high;   // by the mean of the slowest third of its samples; empty where that is not known
  std::vector<double> again;  // of `usual`, those that were measured again, for being in doubt; and of `high`
  std::vector<double> high_again;
  bool within() const { return a.node == b.node; }
};

// Of times of what is alike: those that are fast, not all; of these the one in the middle. Of three nodes one that is
// slow slows two thirds of the pairs.
double middle_of_fast(std::vector<double> times);

// Less than this share longer passes for what equal parts differ by.
inline constexpr double matters = 0.05;
// By its usual times or by the slowest third of them, whichever is more; 0 where there are none.
double slowness(const PairTime& two);
bool is_slow(const PairTime& two);

// Of the largest size at which all pairs were measured, in each pattern, that is large enough for bandwidth: 64 MiB
// between GPUs, 256 KiB elsewhere, any size of single NICs. Not of pairs that differ by the machine's design: GPUs of a
// node without a switch, ranks of a node over its memory, nodes that are pretended. Pairs are alike that have equal
// ways: within nodes all; between nodes those as far apart by their place on the node, counted round and round, and
// from four nodes on those of the same places; single NICs of
// one kind and rate besides, whichever of its rank's it is. `again`: cases of the same operations, of other rounds.
std::vector<PairTime> pair_times(const Report& report, const std::vector<Measurement>& again);

// The cases whose pairs count: by their place in report.results.
std::vector<std::size_t> cases_of_pairs(const Report& report);

}  // namespace p5::reports
