// The stages of tuning at the leader, each measured with Trials while all others follow.
#pragma once

#include <string>
#include <vector>

#include "bench/trials.hpp"
#include "bench/units.hpp"
#include "tuner/confirm.hpp"
#include "tuner/search.hpp"

namespace p5 {

// What the two ways of tuning differ in.
struct Extent {
  std::vector<Bytes> small;  // sizes below `min`, where one behaves like the next
  Bytes min, max;
  Seconds burn_in, search;  // wall time of measuring
  Seconds burst;            // of one sample
  int samples = 8;          // of one launch in the confirmation
  int launches = 2;         // of each side in the confirmation
};

// mode: quick, full.
Extent extent_of(const std::string& mode);

// What NCCL offers in each case; what failed or offered nothing is remarked.
std::vector<tuner::Task> find_tasks(Trials& trials, std::vector<std::string>& remarks);

// Clocks rise and connections warm up under load: the first visits of a fresh worker would look like drift.
void burn_in(Trials& trials, const Extent& extent);

tuner::SearchResult search_with(Trials& trials, const std::vector<tuner::Task>& tasks, const Extent& extent,
                                const tuner::Constraints& constraints, std::uint64_t seed);

// A B A B: the default in arm 0, then the files in arm 1, each in processes of its own. Those of the first launch are
// fresh, but for the default's where it has been measured before.
std::vector<tuner::Confirmation> confirm_with(Trials& trials, const Extent& extent);

}  // namespace p5
