// One step of a recorded job as a case performs it (collective `job_step`): the operations in the recorded order, each
// on a communicator of its groups, on one stream, with the recorded gaps before them. A gap is waiting.
#pragma once

#include <string>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/model/data_type.hpp"
#include "bench/model/groups.hpp"
#include "bench/model/job.hpp"
#include "bench/model/work.hpp"

namespace p5 {

struct ReplayedOperation {
  int work = 0;    // index in Replay::works
  Seconds gap{0};  // from the end of what the ranks of its groups did last
};

struct Replay {
  std::string name = {};    // of the job's file, without folder and extension
  std::string digest = {};  // of operations and gaps: equal for equal steps
  std::vector<Work> works =
      {};  // operations that differ, planned, of which each has buffers; empty in reports that were read
  std::vector<ReplayedOperation> operations = {};  // of a step; empty in reports that were read
};

inline constexpr std::size_t most_operations_of_replay = 100'000;

struct ReplayPlan {
  Replay replay;
  std::vector<std::string> remarks;  // what differs from the job
};

// The step of a job on these ranks. `unrecorded`: the type of operations whose type is not recorded. Throws UsageError
// where the ranks cannot perform it.
ReplayPlan plan_replay(const Job& job, std::string name, const Placement& placement, DataType unrecorded);

// Operations of each work in a step.
std::vector<int> uses_of_works(const Replay& replay);

// Sum of the gaps in which a rank waits, of the rank that waits longest; the same of message bytes.
Seconds longest_gaps(const Replay& replay, int ranks);
Bytes most_bytes(const Replay& replay, int ranks);

}  // namespace p5
