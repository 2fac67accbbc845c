// What a job communicates in one step, as a value and as a file ("p5bench.job/1"): operations in order, each with the
// groups that perform it at the same time. It says nothing of the machine. Also
// that step as a case performs it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/model/case.hpp"
#include "bench/model/collective.hpp"
#include "bench/model/data_type.hpp"
#include "bench/model/groups.hpp"
#include "bench/model/work.hpp"

namespace p5 {

inline constexpr int most_ranks_of_job = 1 << 20;
inline constexpr std::uint64_t most_bytes_of_job = std::uint64_t{1} << 50;  // in a message
inline constexpr double longest_time_of_job = 1e6;                          // seconds, of an operation, gap or step

struct JobOperation {
  const Collective* collective = nullptr;  // p2p: a message from the first to the second rank of each group
  Bytes bytes;                             // as Case::bytes
  std::optional<DataType> type;            // null: not recorded
  std::optional<ReduceOp> op;
  std::optional<int> root;  // within each group, whose ranks ascend
  std::string group;        // as make_groups() takes it; "": `groups`
  Round groups;             // where `group` is "": the ranks, empty if no record says them
  int ranks = 1;            // in a group
  // Bytes from each member to each in an all_to_allv, as in the last step and the first group that recorded them;
  // empty: not recorded, or another collective.
  std::vector<std::vector<std::uint64_t>> sends = {};
  // Over groups and steps: interquartile mean of the time from the end of the members' operations before until the last
  // member has arrived at this one; medians of the operation's time on a rank, with its waiting for others, and of the
  // time on the rank that waits least; interquartile mean of that part of the latter in which the rank's GPU computed,
  // and of the time that the same kernels take without communication beside them. Null: not recorded.
  std::optional<Seconds> gap, time, fastest, computed = {}, computed_alone = {};
  friend bool operator==(const JobOperation&, const JobOperation&) = default;
};

struct Job {
  int ranks = 1;
  NodeOfRank node_of_rank;      // empty: not known
  int steps = 1;                // that were recorded
  std::optional<Seconds> step;  // interquartile mean of the time from one step to the next
  std::vector<JobOperation> operations;
  std::vector<std::string> remarks;  // what the reader has to know
  friend bool operator==(const Job&, const Job&) = default;
};

nlohmann::json to_json(const Job& job);
// Throws UsageError that names the member that is wrong.
Job job_from_json(const nlohmann::json& json);

// "world", "node", "8 groups of 2 ranks", "8 ranks".
std::string name_of_groups(const JobOperation& operation);

// Operations of a step that are alike in everything but their place and times, and whose groups have as many ranks on
// their hosts, and in their NVLink domains.
struct JobUse {
  JobOperation operation;  // the first of them
  std::string group;       // name_of_groups(), with the hosts of a group where another use has the same name
  int count = 1;           // in a step
  std::optional<Seconds> time, fastest, computed;  // sums over a step; null where one of them is not recorded
};
// Largest times first, else most bytes. `domains`: of each rank, where they have several hosts.
std::vector<JobUse> uses_of(const Job& job, const DomainOfRank& domains = {});

// ---- One step of a recorded job as a case performs it (collective `job_step`): the operations in the recorded order,
// each on a communicator of its groups, on one stream, with the recorded gaps before them. In a gap the GPU waits, or
// computes matrix products (--gaps), which then also run beside operations beside which the job computed.

struct ReplayedOperation {
  int work = 0;         // index in Replay::works
  Seconds gap{0};       // from the end of what the ranks of its groups did last
  Seconds computed{0};  // beside it, as time without communication; only where the replay has products
  // The GPU computed for most of its time, so that what it computes next does not wait for its end.
  bool overlaps = false;
};

struct Replay {
  std::string name = {};    // of the job's file, without folder and extension
  std::string digest = {};  // of operations, gaps and products: equal for equal steps
  // Matrix products that stand for what the job computed; null: the GPU waits in the gaps.
  std::optional<Work> products = {};
  std::vector<Work> works =
      {};  // operations that differ, planned, of which each has buffers; empty in reports that were read
  std::vector<ReplayedOperation> operations = {};  // of a step; empty in reports that were read
  std::optional<Seconds> step = {};                // the recorded time of a step
};

inline constexpr std::size_t most_operations_of_replay = 100'000;

struct ReplayPlan {
  Replay replay;
  std::vector<std::string> remarks;  // what differs from the job
};

// Parses what fills the gaps of a replay: "wait" is null, "gemm[:N,K,type]" matrix products, by default of
// 2048 x 2048, so small that a gap holds many: 17 GFLOP, 22 us at 794.5 TFLOP/s. Throws UsageError.
std::optional<Work> parse_gaps(const std::string& text);

// The step of a job on these ranks. `unrecorded`: the type of operations whose type is not recorded. `products`: as
// Replay::products. Throws UsageError where the ranks cannot perform it.
ReplayPlan plan_replay(const Job& job, std::string name, const Placement& placement, DataType unrecorded,
                       const std::optional<Work>& products = {});

// Operations of each work in a step.
std::vector<int> uses_of_works(const Replay& replay);

// Sum of the gaps of a rank, of the rank with the longest ones; the same of message bytes.
Seconds longest_gaps(const Replay& replay, int ranks);
Bytes most_bytes(const Replay& replay, int ranks);

}  // namespace p5
