// The stages of tuning at the leader, each measured with Trials while all others follow.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/measure/trials.hpp"
#include "topo/topology.hpp"
#include "tuner/confirm.hpp"
#include "tuner/search.hpp"

namespace p5 {

// What the two ways of tuning differ in.
struct TuningLimits {
  std::vector<Bytes> small;  // sizes below `min`, where one behaves like the next
  Bytes min, max;
  Seconds burn_in;
  // Wall time since tuning began, at which the search, the arms, the ways of calling and everything are to be over.
  Seconds search_end, arms_end, ways_end, end;
  Seconds burst;    // of one sample
  int samples = 8;  // of one launch in the confirmation, at most
  // Of each side in the confirmation: what the time is divided for. There are 2 at least, and, where there is time, up
  // to 4, and more while more would tell more.
  int planned_launches = 2, most_launches = 2;
  bool exhaustive = false;  // SearchRules
};

// mode: quick, full, exhaustive.
TuningLimits limits_of_mode(const std::string& mode);

// NCCL counts for its tuners the whole message of the collectives that are measured here.
tuner::SizePoint point_of(const Case& c);

// Runs `lead` at the leader while all others take part in the trials; they are let go whatever happens.
void run_on_leader(ControlPlane& control, Trials& trials, const std::function<void()>& lead);

bool on_efa(const topo::Topology& topology);

// aws-ofi-nccl's library, where NCCL on EFA finds it on all hosts: NCCL has room for one tuner, and the one in there is
// to keep the calls that ours has nothing for. "" elsewhere, and where network plugins lie in several folders: a second
// copy of the wrong one in a process is worse than none.
std::string tuner_to_keep(const topo::Topology& topology);

// What NCCL offers in each case; what failed or offered nothing is remarked.
std::vector<tuner::Task> find_tasks(Trials& trials, std::vector<std::string>& remarks);

// Clocks rise and connections warm up under load: the first repetitions of a fresh worker would look like drift.
void burn_in(Trials& trials, const TuningLimits& tuning_limits);

tuner::SearchResult search_with(Trials& trials, const std::vector<tuner::Task>& tasks,
                                const TuningLimits& tuning_limits, const tuner::Constraints& constraints,
                                std::uint64_t seed, const tuner::TimeLeft& time_left);

// The default in arm 0 and the files in arm 1, in turns, each in processes of its own. Those of the first launch are
// fresh, but for the default's where it has been measured before.
// Sizes for which there is no time are left out, but those in rows. Joins count less for the time that is left than for
// the budget's, which is wall time.
std::vector<tuner::Confirmation> confirm_with(Trials& trials, const TuningLimits& tuning_limits,
                                              const tuner::Table& table, const tuner::SearchResult& search,
                                              const tuner::TimeLeft& time_left, const tuner::TimeLeft& budget_left);

}  // namespace p5
