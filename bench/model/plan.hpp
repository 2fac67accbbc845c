// From options and the facts of a job to its cases. Their order within a launch is decided in
// bench/measure/launches.hpp.
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
  DomainOfRank domain_of_rank = {};   // empty: each node is a domain
  std::vector<Bytes> memory_of_node;  // available to the job's ranks on each node; empty: no known limit
  std::uint64_t seed = 1;             // seed for drawing pairs
  std::optional<Bytes> memory_of_rank = std::nullopt;  // free memory of each rank's own device
  std::string fullest_device = "the fullest device";   // the rank's whose device has the least
  bool within_nodes = true;                            // false: messages within a node do not use the parts under test
  bool gpus_alike = false;  // on each node all pairs of GPUs are joined by as many NVLinks, through switches

  Placement placement() const {
    return domain_of_rank.empty() ? Placement(node_of_rank) : Placement(node_of_rank, domain_of_rank);
  }
};

struct Plan {
  std::vector<Case> cases;           // by collective, pattern and size
  Bytes max;                         // largest size in the plan
  std::vector<std::string> remarks;  // changes and their reasons: a lowered maximum, sampled pairs
  Bytes memory_per_rank;             // memory of the largest case
};

// From the minimum on, each so many times the one before.
std::vector<Bytes> sizes_between(Bytes min, Bytes max, int factor);

// Memory of one rank for a case: its buffers, and those of what runs beside it or in its step.
Bytes memory_of(const Case& c, const Backend& backend);

// Throws UsageError when an explicit size does not fit or an option contradicts this job, and EnvironmentError when not
// even the smallest default size fits.
Plan make_plan(const Options& options, const JobFacts& job, const Backend& backend, const std::string& backend_name);

// Cases for the NICs of each rank one by one, with messages of `bytes` between nodes, one way and then the other, in
// rounds of disjoint pairs of the same NIC. A NIC that several ranks of a node share belongs to the first of them.
// `nics_of_rank`: names. `most_together`: also all NICs of a rank at once, with `bytes` for each of them in messages of
// at most that size, without which they would not use all NICs; null: no such case. `at_once`: number of NICs of a node
// that may transfer at the same time, at least 1; null: one per rank.
std::vector<Case> nic_cases(const std::string& backend_name, const JobFacts& job,
                            const std::vector<std::vector<std::string>>& nics_of_rank, Bytes bytes,
                            std::optional<Bytes> most_together = std::nullopt,
                            std::optional<int> at_once = std::nullopt);

// Cases for faults that single pairs hide: an all-reduce of the i-th ranks of all nodes, all rails at the same time
// ("rail" as Case::group) and of halves of each node's ranks, an all-gather of halves of the nodes, and, where an odd
// number of nodes leaves one idle, pairs on all rails at once (all_rails_group). Empty unless several nodes have the
// same number of ranks.
std::vector<Case> group_cases(const std::string& backend_name, const JobFacts& job, Bytes bytes);

// Sets the nodes and NVLink domains of a case whose widest group this is.
void set_span(Case& c, const Group& widest, const Placement& placement);

// The same case with other rounds, and with the first of several roots.
Case with_rounds(Case like, std::vector<Round> rounds);

}  // namespace p5
