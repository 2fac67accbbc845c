// One thing to measure, as a value: all independent variables of a measurement, and nothing about machines or results.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/model/collective.hpp"
#include "bench/model/data_type.hpp"

namespace p5 {

// Ranks that perform the operation together, by their number in the job. A pair's first rank is the source.
using Group = std::vector<int>;
// Disjoint groups that perform it at the same time. Ranks in no group pause.
using Round = std::vector<Group>;

struct Case {
  std::string backend;
  const Collective* collective = nullptr;
  std::string pattern;  // p2p only, else ""
  std::string pair;     // p2p only: "same_node" or "other_node", of all its pairs; "" in reports before 2026-11-23
  // p2p between nodes: through this one of each rank's NICs alone (Topology::nics_of_rank); null: as the library does.
  std::optional<int> nic;
  Bytes bytes;
  Bytes bytes_per_rank;
  DataType type = DataType::float32;
  std::optional<ReduceOp> op;
  std::optional<int> root;
  bool in_place = false;
  bool cuda_graph = false;
  std::string registration = "none";  // "register" in reports
  std::string group = "world";
  int ranks = 1;  // of the largest group
  int nodes = 1;  // that the largest group spans
  std::string arm = "default";
  std::map<std::string, std::string> settings;

  Shape shape;
  // Shared between the sizes of a plan. A collective has one, or the same again for each of its repetitions.
  std::shared_ptr<const std::vector<Round>> rounds;
  bool for_parts = false;      // beside the plan, to tell which part is slow: not compared with other runs
  bool pairs_sampled = false;  // p2p: not all pairs of the kind are in `rounds`, or were measured
};

// Whether its rounds are one and the same: repetitions to a small collective, spread over the run, because the speed at
// which a busy host launches operations changes from second to second. Its interval is that of the repetitions.
bool is_repeated(const Case& c);

// The count of nccl-tests: elements of one rank's share where ranks share the message, else of all of it.
std::uint64_t elements(const Case& c);

// "all_reduce", "p2p one_way same_node", "p2p both_ways other_node nic 2": what is done, whatever its size, type and
// group.
std::string operation_of(const Case& c);

// "all_reduce 64 KiB float32 sum", "p2p one_way same_node 8 B float32": for messages.
std::string describe(const Case& c);

}  // namespace p5
