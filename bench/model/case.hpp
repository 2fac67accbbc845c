// One thing to measure, as a value: all independent variables of a measurement, and its predicted cost. Nothing here
// depends on machines or results.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/model/collective.hpp"
#include "bench/model/data_type.hpp"
#include "bench/model/work.hpp"

namespace p5 {

// ---- How operations are called, beside what they do: options that cases, reports and workers share, and the table of
// them. A new one is a field, a row of the table, and a line in fields() of result_fields.hpp.

struct CallOptions {
  bool cuda_graph = false;             // operations are launched as CUDA graphs
  std::string registration = "none";   // of the buffers with NCCL: none, local, symmetric; "register" in reports
  int aggregate = 1;                   // operations between ncclGroupStart and ncclGroupEnd, each on buffers of its own
  std::string cta_policy = "default";  // of the communicators (ncclConfig_t): default, efficiency, zero
  int unalign = 0;                     // elements by which all buffers begin after an aligned address
  friend auto operator<=>(const CallOptions&, const CallOptions&) = default;
};

inline constexpr std::array<std::string_view, 3> registration_kinds{"none", "local", "symmetric"};
// In the order of NCCL's numbers.
inline constexpr std::array<std::string_view, 3> cta_policies{"default", "efficiency", "zero"};
// Each operation between ncclGroupStart and ncclGroupEnd uses a slot of its own, and all slots are checked at once.
inline constexpr int most_aggregate = 32;

// Guards of 512 bytes before each buffer, and of 8 bytes per element at most.
inline constexpr int most_unalign = 63;

struct CallOption {
  std::string_view name;    // in reports
  std::string_view option;  // on the command line
  std::string_view what;    // for messages: what a backend without it has not
  // For titles and for names with slashes; "{}" is the value.
  std::string_view words, path;
  std::string (*value)(const CallOptions& calls);  // "" if it is the default

  std::string text(std::string_view pattern, const CallOptions& calls) const;
};
// In the order in which texts name them.
std::span<const CallOption> call_options();
// "graph, 4 in a group" with ", " as separator; "" if all are defaults.
std::string describe(const CallOptions& calls, std::string_view separator);

struct Replay;

// Ranks that perform an operation together, by their rank in the job. A pair's first rank is the source.
using Group = std::vector<int>;
// Disjoint groups that perform the operation at the same time. Ranks in no group are idle.
using Round = std::vector<Group>;

struct Case {
  std::string backend;
  const Collective* collective = nullptr;
  std::string pattern;  // p2p only, else ""
  // p2p only, for all its pairs: one of the names of pair_kinds; "" in reports before 2026-11-23.
  std::string pair;
  // p2p between nodes: the index of the only NIC that each rank uses (Topology::nics_of_rank); null: the library's
  // choice.
  std::optional<int> nic;
  // With it: the index of the NIC that the pair's higher rank uses in its place; null: the same index.
  std::optional<int> other_nic;
  // With `nic` set: the source's data lies in the memory of another GPU than the one beside the NIC. This is the number
  // of steps from that GPU to it among the GPUs that the source's process may use; null: the GPU beside the NIC.
  std::optional<int> gpu;
  Bytes bytes;
  Bytes bytes_per_rank;
  DataType type = DataType::float32;
  std::optional<ReduceOp> op;
  std::optional<int> root;  // within each group
  bool every_root = false;  // `root` is null, and in round r member r of each group is the root
  bool in_place = false;
  CallOptions calls;
  std::string group = "world";
  int ranks = 1;               // in the largest group
  int nodes = 1;               // spanned by the largest group
  std::optional<int> domains;  // NVLink domains that it spans; null: each node is one
  int nodes_per_domain = 1;    // its nodes in the smallest of them
  // Its ranks in the domain that has the fewest of them; null: all have as many.
  std::optional<int> fewest_per_domain;
  std::string arm = "default";
  std::map<std::string, std::string> settings;
  std::vector<Work> beside;  // what runs at the same time; never compared with cases that run beside something else
  std::shared_ptr<const Replay> replay;  // of job_step; else null

  Shape shape;
  // Shared between the sizes of a plan. A collective has one round, or the same round once per repetition.
  std::shared_ptr<const std::vector<Round>> rounds;
  // p2p: the groups of ranks in whose communicators the pairs of all rounds are; null: each pair has one of its own.
  std::shared_ptr<const Round> communicators;
  bool for_parts = false;      // measured to localize a fault, beside the plan; not compared with other runs
  bool pairs_sampled = false;  // p2p: some pairs of the kind are not in `rounds`, or were not measured
};

// Kinds of pairs: of one node; of two nodes in one NVLink domain; of two nodes that are domains of their own; of two
// domains of several nodes. Traffic of the last two passes NICs.
inline constexpr std::array<std::string_view, 4> pair_kinds{"same_node", "same_domain", "other_node", "other_domain"};

// NVLink domains that the largest group spans.
inline int domains_of(const Case& c) { return c.domains.value_or(c.nodes); }

// Index of the NIC that a rank of the pair uses; null: the library's choice.
std::optional<int> nic_of(const Case& c, const Group& pair, int rank);

// True for p2p cases whose pairs are in different NVLink domains.
bool leaves_domain(const Case& c);

// Operations besides the case's own, each with communicator and buffers of its own: those that run at the same time, or
// those of a replay.
const std::vector<Work>& works_of(const Case& c);

// True if all rounds are the same: repetitions of a small collective, spread over the run, because the launch rate of a
// busy host changes from second to second. The interval is that of the repetitions.
bool is_repeated(const Case& c);

// The root in a round; 0 where there is none.
inline int root_in(const Case& c, int round) { return c.every_root ? round : c.root.value_or(0); }
// "3" or "all"; "" without a root.
std::string root_text(const Case& c);

// The `count` column of nccl-tests: elements of one rank's share where ranks share the message, else of all of it.
std::uint64_t elements(const Case& c);

// "all_reduce", "p2p both_ways other_node nic 2", "all_to_allv zipf:1.1", "all_reduce beside d2h": the operation
// without size, type and group.
std::string operation_of(const Case& c);

// describe() without what runs beside it.
std::string describe_alone(const Case& c);

// "all_reduce 64 KiB float32 sum", "p2p one_way same_node 8 B float32", "all_reduce 64 KiB float32 sum beside d2h": for
// messages.
std::string describe(const Case& c);

// Latency is measured up to this message size.
inline constexpr Bytes latency_up_to = MiB(1);
// Latency of dispatch and combine is measured up to this number of tokens per rank, as in decode.
inline constexpr std::uint64_t latency_up_to_tokens = 128;
bool measures_latency(const Case& c);

// Number of operations of the longest kind in a burst of several concurrent kinds: small, so that the burst is short,
// but large enough that its end, at which only some kinds still run, has little weight.
inline constexpr int least_operations_beside = 4;
// Bursts that each of them has while their times beside each other are taken: what a device does changes during the
// first ones.
inline constexpr int steady_bursts = 5;

// A backend's cost, for predicting wall times before anything is measured: for the budget, deadlines and `plan`.
struct CostModel {
  Seconds latency{20e-6};
  GBps bandwidth{1.0};
  Seconds burst{1e-3};       // target duration of a burst, so that its launch and the clock's resolution do not count
  Seconds repetition{1e-3};  // opening, agreements, and the fixed part of samples
  Seconds communicator{0};   // creation and destruction of a round's communicators
};

// Constants measured on two, four and eight H200s of a host (bench/RESULTS.md), whose driver all ranks there share.
inline CostModel cost_on_gpus(Seconds latency, GBps bandwidth, int ranks_on_host) {
  return {.latency = latency,
          .bandwidth = bandwidth,
          .burst = {20e-3},
          .repetition = {18e-3},
          .communicator = {0.1 * std::max(ranks_on_host, 3)}};
}

// Predicted wall time of one round with samples and verification, without the creation of communicators.
Seconds predict_round(const Case& c, const CostModel& cost);

// Predicted wall time of the longest request to a backend in a round: of all samples, of those of works that run at
// the same time, or of one sample of a step of a communicator, the first request. Limits after which a rank counts as
// hanging follow from it.
Seconds predict_step(const Case& c, const CostModel& cost);

// Time after which a request to a backend counts as hanging. timeout: the least.
Seconds limit_of_request(const Case& c, const CostModel& cost, Seconds timeout);

// Number of samples, of `each_s` seconds, that a request may be for: those that take half of its limit, since later
// ones may take longer; at least 1.
int most_samples_within(Seconds limit, double each_s);

// The part of predict_round() that the fewest useful samples take.
Seconds predict_minimum_round(const Case& c, const CostModel& cost);

}  // namespace p5
