// A launch: fresh processes and fresh communicators, the unit of replication when things are compared, because samples
// within one are not independent. In which order launches come and what each may take; combining.hpp says what those of
// a case come to together. Plain values; run_launches() in runner.hpp runs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/model/groups.hpp"

#include "bench/base/units.hpp"
#include "bench/model/case.hpp"

namespace p5 {

struct Turn {
  std::size_t arm = 0;
  int launch = 0;  // of this arm, from 0
  friend bool operator==(const Turn&, const Turn&) = default;
};

// A B, B A, A B, ...: what drifts while they run hits all arms alike.
std::vector<Turn> turns_of(std::size_t arms, int launches);

// One round of one case: index of the case, index into its rounds.
struct Repetition {
  std::size_t at = 0;
  int round = 0;
  friend bool operator==(const Repetition&, const Repetition&) = default;
};

// Visits that need the same communicators, one after the other. What the job's communicator is enough for stands alone.
struct CommunicatorBatch {
  Round communicators;  // as communicators_of(); empty: the job's
  std::vector<Repetition> repetitions;
};

// All rounds of all cases in the order of a launch: communicator batches shuffled, and repetitions within each, anew in
// each launch. Arms share it, so that what a repetition's predecessor does to it is alike in all.
std::vector<CommunicatorBatch> batches_of(const std::vector<Case>& cases, int ranks, std::uint64_t seed, int launch);

// A repetition to a case, with what it is predicted to cost.
struct CostedRepetition {
  std::size_t at = 0;
  double cost = 0;
};

// Whether the next of these repetitions is a further round of its case that gives way: when what is `left` is only
// enough for the first rounds of others, at the pace of those before it, which took `spent`. A case without some of its
// pairs tells more than none. `visited`: by case.
bool is_deferred(const std::vector<CostedRepetition>& repetitions, std::size_t next, std::vector<bool> repeated,
                 Seconds spent, Seconds left);

// What the cases of one launch may take, when `left` are for it and `others` after it. Each of those takes `start` to
// come together first, and is worth it only if its cases get `least`; those that do not fit are not waited for.
Seconds share_of_launch(Seconds left, Seconds start, Seconds least, int others);

}  // namespace p5
