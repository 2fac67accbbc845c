// From options and the facts of the job to the cases to run; in which order they run is a launch's (launches.hpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"
#include "bench/model/groups.hpp"
#include "bench/model/options.hpp"

namespace p5 {

struct JobFacts {
  NodeOfRank node_of_rank;
  std::vector<Bytes> memory_of_node;                   // available to the job's ranks on it; empty: no limit known
  std::uint64_t seed = 1;                              // of the drawn pairs
  std::optional<Bytes> memory_of_rank = std::nullopt;  // that each rank has for itself, on its device
  bool within_nodes = true;  // false: messages within a node say nothing of what is under test
};

struct Plan {
  std::vector<Case> cases;           // by collective, pattern and size
  Bytes max;                         // largest size in the plan
  std::vector<std::string> remarks;  // what was changed and why: a lowered maximum, sampled pairs
  Bytes memory_per_rank;             // of the largest case
};

// Throws UsageError when an explicit size does not fit or a choice makes no sense for this job.
Plan make_plan(const Options& options, const JobFacts& job, const Backend& backend, const std::string& backend_name);

// Of each rank its NICs one by one, and all at the same time where `together`: messages between nodes, one way
// and then the other, in rounds of disjoint pairs of the same NIC, which a rank takes part in for the NICs that no
// earlier rank of its node has. `nics_of_rank`: their names. `at_once`: how many NICs of a node may move data at the
// same time, at least 1; nullopt: as many as ranks.
std::vector<Case> nic_cases(const std::string& backend_name, const JobFacts& job,
                            const std::vector<std::vector<std::string>>& nics_of_rank, Bytes bytes, bool together,
                            std::optional<int> at_once = std::nullopt);

// Cases that show what single pairs do not: an all-reduce of the i-th ranks of all nodes, all rails at the same time
// ("rail" as Case::group) and of halves of each node's ranks, an all-gather of halves of the nodes, and where an odd
// number of nodes leaves one idle, pairs on all rails at once (all_rails_group). For several nodes of equally many
// ranks; else none.
std::vector<Case> group_cases(const std::string& backend_name, const JobFacts& job, Bytes bytes);

// The same case of other rounds.
Case of_rounds(Case like, std::vector<Round> rounds);

}  // namespace p5
