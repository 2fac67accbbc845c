// The transfers of a run as evidence about its parts: for each pair or group of ranks, how many of its samples were
// slow, how often nothing came through, and how often data was wrong.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

// The place of a rank: its node, and its number among the ranks there. Both count from 0.
struct RankLocation {
  int node = 0, number = 0;
  auto operator<=>(const RankLocation&) const = default;
};
std::vector<RankLocation> places_of(const topo::Topology& topology);

// NICs are numbered as --fault does: those of the fabric in the host's order, then those that only ranks reported.
class NicNumbers {
 public:
  explicit NicNumbers(const topo::Topology& topology);
  // Numbers of the NICs that the rank can use one by one; empty where no rank was asked.
  const std::vector<int>& of(RankLocation rank) const;
  // Numbers of the NICs near the GPU of this rank: of(), else what the host's topology says; empty where neither knows.
  std::vector<int> near(RankLocation rank) const;
  // Device name, "" where it is not known.
  std::string name(int node, int number) const;

 private:
  const topo::Topology& topology_;
  std::map<int, std::vector<std::string>> names_of_;
  std::map<RankLocation, std::vector<int>> of_rank_;
};

// Kinds of transfers, by what they pass. Figures are compared within a kind only.
enum class Transfers {
  within_node,    // a pair of GPUs of one node
  between_nodes,  // a pair of ranks of two nodes, over all NICs that the library uses
  all_rails,      // the same while every rank of the job takes part, where the rounds of pairs leave ranks idle
  single_nic,     // a pair of ranks of two nodes over one NIC each
  node_group,     // a collective of all ranks of one node
  node_half,      // a collective of half of the ranks of one node
  rail_group,     // a collective of the i-th ranks of all nodes
  node_subset,    // a collective of all ranks of some nodes
};
inline constexpr std::size_t kinds_of_transfers = 8;

// SampleCounts and hits: a sample and whether it was slow, a round and whether it was silent or wrong.
struct SampleCounts {
  int count = 0, hits = 0;
  double share() const { return count == 0 ? 0 : static_cast<double>(hits) / count; }
};

constexpr bool is_of_pairs(Transfers kind) {
  return kind == Transfers::within_node || kind == Transfers::between_nodes || kind == Transfers::all_rails ||
         kind == Transfers::single_nic;
}

// nullopt: of no use here, such as a collective of the whole job.
std::optional<Transfers> transfers_of(const Case& c);

struct TransferRecord {
  Transfers kind = Transfers::within_node;
  std::vector<RankLocation> ranks;  // pairs: two, ascending
  std::optional<int> nic;           // single_nic: its number among those of its rank
  SampleCounts slow;                // of all samples
  SampleCounts slow_again;          // of those that were taken when it was measured again
  SampleCounts silent, wrong;
  std::vector<float> ratios;  // time of each sample over the time of the fast ones of its like

  bool is_pair() const { return is_of_pairs(kind); }
};

// A sample less than this share longer than those of fast transfers passes for what equal parts differ by. Where
// samples of fast transfers scatter more, three of their standard deviations do.
inline constexpr double tolerated_difference = 0.05;

// Median of the fast ones among times of what is alike. Where one of three nodes is slow, two thirds of the pairs are.
double middle_of_fast(std::vector<double> times);

// Slow samples are counted at the largest size that was measured for all pairs and is large enough for bandwidth: 64
// MiB between GPUs, 256 KiB elsewhere, any size of single NICs. Pairs that differ by the machine's design are left out:
// GPUs of a node without a switch, ranks of a node over its memory, nodes that are pretended. Pairs are alike that have
// equal ways: within nodes all; between nodes those as far apart by their place on the node, counted modulo its ranks,
// and from four nodes on those of the same places; single NICs of one kind and rate. Silence and wrong data count at
// all sizes. `again`: cases of the same operations, measured later.
std::vector<TransferRecord> observe(const Report& report, const std::vector<Measurement>& again);

// The cases whose pairs are compared, by their place in report.results.
std::vector<std::size_t> cases_of_pairs(const Report& report);

}  // namespace p5::reports
