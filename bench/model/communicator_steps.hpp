// Steps in the life of a communicator, which the collective `communicator` measures as patterns: their names, what is
// timed, a model of their duration for predictions and the simulator, and what they take of the operating system.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"

namespace p5 {

struct CommunicatorStep {
  std::string_view name;   // Case::pattern
  std::string_view shown;  // "the first operation"
  // The step is timed while the job's ranks join, once in each process; the other steps are repeated on communicators
  // of their own.
  bool while_joining = false;
  bool by_ranks = false;  // measured with fewer ranks too, to show how it grows
  bool by_bytes = false;  // an operation: measured at several message sizes
  // Model: seconds, and seconds more for each rank. Of init and first as seen on 2 H100 with NCCL 2.28.9, of split,
  // split_first and destroy on 2 H200 with 2.28.3 (bench/RESULTS.md), where all but some 80 ms of init loaded kernels,
  // which a process does once. The others and all growth are assumptions.
  double fixed_s = 0, per_rank_s = 0;
};

std::span<const CommunicatorStep> communicator_steps();
// The step of a case; null if the case is not of a communicator.
const CommunicatorStep* step_of(const Case& c);

Seconds model_of(const CommunicatorStep& step, int ranks);

// Wall time of one sample of the step with creation and destruction of its communicator; while joining: none.
Seconds model_of_sample(const CommunicatorStep& step, int ranks);

// Time by number of ranks as fixed + slope * ranks, by least squares of relative deviations.
struct GrowthByRanks {
  double fixed_s = 0, per_rank_s = 0;
};
struct TimeOfRanks {
  int ranks = 1;
  double seconds = 0;  // above 0
};
// Requires two different numbers of ranks.
GrowthByRanks fit_growth(const std::vector<TimeOfRanks>& times);

// ---- What the operating system has given this process, for the costs of communicators

// host_memory_bytes (resident), file_descriptors, connections (descriptors of sockets); from /proc/self, without what
// cannot be read there.
CommunicatorCosts footprint();

// The growth from `before` to `after` of each name in both; 0 where it is less.
CommunicatorCosts grown(const CommunicatorCosts& before, const CommunicatorCosts& after);

}  // namespace p5
