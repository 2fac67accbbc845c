// Limits, clock and stages of a tuning. Stages run at the leader; the other ranks follow its Trials.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/app/machine/files_on_hosts.hpp"
#include "bench/app/machine/machine.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/units.hpp"
#include "bench/measure/runner.hpp"
#include "bench/measure/trials.hpp"
#include "bench/model/control_plane.hpp"
#include "topo/topology.hpp"
#include "tuner/arms.hpp"
#include "tuner/candidates.hpp"
#include "tuner/confirm.hpp"
#include "tuner/gain.hpp"
#include "tuner/search.hpp"

namespace p5 {

// Limits of a tuning mode.
struct TuningLimits {
  std::vector<Bytes> small;  // sizes below `min`; one represents its neighbours
  Bytes min, max;
  Seconds burn_in;
  // Time since tuning began at which search, arms, call modes and the whole must end.
  Seconds search_end, arms_end, call_modes_end, end;
  Seconds burst;    // duration of a sample
  int samples = 8;  // maximum per launch in the confirmation
  // Launches per side in the confirmation: the number that the time is divided among, and the maximum. There are at
  // least 2; more follow while there is time and the result is undecided.
  int planned_launches = 2, most_launches = 2;
  bool exhaustive = false;                        // SearchRules
  std::optional<tuner::BesideRules> beside = {};  // operations are tuned beside other work
};

// mode: quick, full, exhaustive. P5BENCH_QUICK_LIMIT changes how long a quick tuning takes.
TuningLimits limits_of_mode(const std::string& mode);

// The same beside other work: samples take longer, and small messages leave it alone.
TuningLimits limits_beside(TuningLimits tuning_limits, double alone_loss);

// NCCL passes the whole message size to tuners for the collectives measured here.
tuner::SizePoint point_of(const Case& c);

// Runs `lead` at the leader while all other ranks follow the trials; they are released even if `lead` throws.
void run_on_leader(ControlPlane& control, Trials& trials, const std::function<void()>& lead);

bool on_efa(const topo::Topology& topology);

// True if variables for NVLS are worth a try: NCCL offers NVLS, or between nodes its tree, at a size of the search.
// Without a search unless the operator forbids both, since these variables are only for platforms that have NVLS.
bool may_use_nvls(const std::vector<tuner::Record>& records, const tuner::Constraints& constraints);

// The value of tuner::chain_variable, where it is not empty, else the path of aws-ofi-nccl's library if NCCL on EFA
// finds the same one on all hosts: NCCL loads a single tuner, and aws-ofi-nccl's should keep the calls for which ours
// has no setting. "" without EFA, if NCCL_NET_PLUGIN is set, or if network plugins are in several folders: loading a
// second copy of the wrong one is worse than none. `environment`: as NCCL sees it.
std::string tuner_to_keep(const topo::Topology& topology, const Environment& environment);

// True if the library can be read on this host, and no name of a tuner is in it: aws-ofi-nccl's network plugin has one
// since 1.16, before that a library of its own.
bool lacks_tuner(const std::string& library);

// The reason for which jobs with these variables and this NCCL would not use the settings that are found for some of
// the collectives; "" without one.
std::string reason_for_no_rows(const Environment& environment, int nccl_version,
                               const std::vector<std::string>& collectives);

// The reason for which settings that need our tuner are not searched; "" without one. `chain`: tuner_to_keep(), unless
// that is a library without a tuner; `others`: the hosts whose file there is another one.
std::string reason_for_no_tuner(const topo::Topology& topology, const Environment& environment,
                                const std::string& chain, const std::string& library_without_tuner = "",
                                const std::vector<HostProblem>& others = {});

// The end of a sentence that says to unset NCCL_TUNER_PLUGIN, which has this value: how that tuner is kept. "" where it
// is ours or none.
std::string how_to_keep_tuner(const std::string& named);

// The reason for which nothing that needs our plugin's library can be confirmed, as it is not where p5bench looks for
// it; "" where it is. NCCL would continue without a tuner, and the files would be the default.
std::string reason_for_no_plugin(const std::string& plugin);

// Queries what NCCL offers for each case, after an operation with its own settings. Ends at the first case that fails,
// whose failure it adds: each could cost a timeout, and nothing is set then.
std::vector<tuner::Task> find_tasks(Trials& trials, std::vector<tuner::Failure>& failures);

// The reason that find_tasks() found none, as a sentence.
std::string reason_for_no_tasks(const Trials& trials);

// Warms up clocks and connections: the first repetitions of a fresh worker would look like drift. Adds the default's
// failures, one for each time, and ends at the first that is not of wrong data alone.
void burn_in(Trials& trials, const TuningLimits& tuning_limits, std::vector<tuner::Failure>& failures);

tuner::SearchResult search_with(Trials& trials, const std::vector<tuner::Task>& tasks,
                                const TuningLimits& tuning_limits, const tuner::Constraints& constraints,
                                std::uint64_t seed, const tuner::TimeLeft& time_left);

// The points of the search of all collectives with a row, held-out ones between them, and the smallest, the middle and
// the largest point of each other collective that was measured: the plugin is loaded for its calls too, and may
// displace another tuner. In ascending order.
std::set<tuner::SizePoint> points_to_confirm(const tuner::Table& table, const std::vector<tuner::Record>& records);

// Measures the default (arm 0) and the files (arm 1) alternately, each in processes of its own. Workers of the first
// launch are fresh, except the default's if measured before. Skips sizes for which there is no time unless they are in
// rows. Joins count less against `time_left` than against `budget_left`, which is wall time. Adds the default's
// failures. Ends where the default fails, the files fail at two sizes, or the budget is spent; what was not measured in
// two launches by then counts as not measured.
std::vector<tuner::Confirmation> confirm_with(Trials& trials, const TuningLimits& tuning_limits,
                                              const tuner::Table& table, const tuner::SearchResult& search,
                                              const tuner::TimeLeft& time_left, const tuner::TimeLeft& budget_left,
                                              std::vector<tuner::Failure>& failures);

struct StepConfirmation {
  std::optional<tuner::Gain> gain;
  std::string failure;      // without it
  bool of_default = false;  // the failure: of the default rather than of the files
};

// Replays the only case, a job's step, with the default (arm 0) and the files (arm 1) alternately, launch by launch,
// each alone on the devices, until the result is clear or the budget is spent. No gain without two launches of both.
// Adds the default's failure.
StepConfirmation confirm_step_with(Trials& trials, const TuningLimits& tuning_limits,
                                   const tuner::TimeLeft& budget_left, std::vector<tuner::Failure>& failures);

struct StepTime {
  Seconds of_launch{0};  // of one side, in processes that have joined
  std::string failure;   // the reason that it is not known: the default's
};

// Replays the only case, a job's step, with the default (arm 0), alone on the devices. Adds the default's failure.
StepTime time_step_with(Trials& trials, const TuningLimits& tuning_limits, std::vector<tuner::Failure>& failures);

// Clock of a tuning. Two times count: work, in which joins beyond the usual duration are free, and wall time under
// --budget, in which they are not.
class TuningClock {
 public:
  // wall: seconds since tuning began; budget: wall time available.
  TuningClock(Seconds budget, std::function<double()> wall);

  // Records the duration of a join.
  void joined(Seconds took);
  // Keeps budget for the comparison of a job's step from now on. `of_launch`: StepTime::of_launch; `worked_before`:
  // worked() before that was measured, which is no part of the search.
  void keep_for_step(Seconds of_launch, double worked_before);

  double wall() const { return wall_(); }
  double worked() const { return wall_() - waited_; }
  double budget_left() const { return budget_left_for_step() - step().count; }
  double budget_left_for_step() const { return budget_.count - wall_(); }

  // Time left until `end` of work, keeping `reserve` of the budget.
  tuner::TimeLeft until(Seconds end, Seconds reserve = {0}) const;

  // Minimum time of the comparison of the job's step, including its joins.
  Seconds step() const;

  // Minimum time of the confirmation, including its joins.
  Seconds confirmation(const TuningLimits& tuning_limits) const;

  // The reason that the shortest useful tuning does not fit the budget; "" if it fits. Join times are unknown before
  // the first join, and the time of a job's step before its first replay, so check again after them.
  std::string objection() const;

 private:
  Seconds budget_;
  std::function<double()> wall_;
  std::optional<Seconds> step_;  // null: no job's step, or not known yet
  double waited_ = 0;            // join time beyond the usual, and the first replay of a job's step
  double longest_join_ = 0;      // 0: no join yet
};

// Wall time of a tuning whose workers take so long to join. `step`: predicted time of a launch of one side of a job's
// step; null: no job is tuned.
Seconds predict_tuning_time(const std::string& mode, Seconds join, std::optional<Seconds> step = std::nullopt);

// Time reserved for tuning in a run's budget: what the mode can use, at most a quarter, and nothing if the shortest
// tuning does not fit into a quarter.
Seconds reserve_tuning_time(const std::string& mode, Seconds budget, Seconds join = {0},
                            std::optional<Seconds> step = std::nullopt);

// The limits, scaled to a shorter budget.
TuningLimits scale_limits(const TuningLimits& tuning_limits, Seconds budget);

// ---- Alternatives to the default beyond per-size settings: environments (arms), and call modes
// (tuner/candidates.hpp). Each is measured alternately with the default.

struct ArmTrial {
  std::vector<Case> cases;  // one round each
  RunnerOptions runner;
  tuner::KnobScope place;
  tuner::Constraints constraints;
  std::vector<tuner::Weight> weights;  // empty: all cases have equal weight
  Seconds burst;
  std::optional<tuner::BesideRules> beside = {};  // the cases have works beside them
  Environment of_default = {};                    // variables of the default and of all arms, beyond the machine's
};

// Set at the leader only.
struct ArmSearchResult {
  std::vector<tuner::JudgedArm> judged;
  std::string unavailable = {};      // the reason that the library can perform nothing of what was to be measured
  tuner::JudgedArm best = {};        // the winner as confirmed in fresh workers; without variables if none
  std::vector<std::string> remarks;  // why the best was not confirmed, what was skipped for lack of time
  std::vector<tuner::Failure> failures = {};  // of the default
};

// Collective. The default is the machine's backend, whose workers are kept, unless it has variables of its own; each
// arm has fresh workers. Tries arms until `time_left` (the leader's) is spent or none is left.
ArmSearchResult try_arms(ControlPlane& control, const Machine& machine, const ArmTrial& trial,
                         const tuner::TimeLeft& time_left);

struct CallModeSize {
  tuner::SizePoint point;
  std::optional<tuner::Gain> gain;        // over plain calls; null: failed or no time
  std::string because;                    // the reason for a null gain
  std::optional<tuner::Gain> alone = {};  // of operations alone, where `gain` is beside other work
};

struct CallModeResult {
  tuner::CallMode way;
  std::vector<CallModeSize> sizes;
};

// Collective; the result is the leader's. `cases` are plain calls of one round each, whose failures are added.
std::vector<CallModeResult> try_call_modes(ControlPlane& control, Backend& workers, const std::vector<Case>& cases,
                                           const RunnerOptions& runner, int nccl_version, Seconds burst,
                                           const tuner::TimeLeft& time_left, std::vector<tuner::Failure>& failures);

}  // namespace p5
