// Stages of a tuning. They run at the leader; the other ranks follow its Trials.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/app/tuning/limits.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/units.hpp"
#include "bench/measure/runner.hpp"
#include "bench/measure/trials.hpp"
#include "bench/model/control_plane.hpp"
#include "tuner/arms.hpp"
#include "tuner/candidates.hpp"
#include "tuner/confirm.hpp"
#include "tuner/gain.hpp"
#include "tuner/search.hpp"

namespace p5 {

// The size at which a tuner decides about a case: NCCL passes the whole message size for the collectives measured here.
tuner::SizePoint point_of(const Case& c);

// Runs `lead` at the leader while all other ranks follow the trials; they are released even if `lead` throws.
void run_on_leader(ControlPlane& control, Trials& trials, const std::function<void()>& lead);

// True if variables for NVLS are worth a try: NCCL offers NVLS, or between nodes NVLSTree, at a size of the search.
// True, too, if nothing was searched and the operator does not forbid both: only platforms with NVLS have these
// variables.
bool may_use_nvls(const std::vector<tuner::Record>& records, const tuner::Constraints& constraints);

// Asks for each case which settings NCCL offers, after an operation with NCCL's own settings. Ends at the first case
// that fails, and adds its failure: each further case could cost a timeout, and nothing is set after a failure.
std::vector<tuner::Task> find_tasks(Trials& trials, std::vector<tuner::Failure>& failures);

// The reason that find_tasks() found none, as a sentence.
std::string reason_for_no_tasks(const Trials& trials);

// Warms up clocks and connections: the first repetitions of a fresh worker would look like drift. Adds each failure of
// the default, and ends at the first one other than wrong data.
void burn_in(Trials& trials, const TuningLimits& tuning_limits, std::vector<tuner::Failure>& failures);

tuner::SearchResult search_with(Trials& trials, const std::vector<tuner::Task>& tasks,
                                const TuningLimits& tuning_limits, const tuner::Constraints& constraints,
                                std::uint64_t seed, const tuner::TimeLeft& time_left);

// The points to confirm, ascending. For each collective with a row in the table: its points of the search, and held-out
// points between them. For each other collective that was measured: its smallest, middle and largest point, because the
// plugin is loaded for its calls too, and may displace another tuner.
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
  std::string failure;      // the reason for a null gain
  bool of_default = false;  // true: the default failed, rather than the files
};

// Replays the only case, a job's step, with the default (arm 0) and the files (arm 1) alternately, launch by launch,
// each alone on the devices, until the result is clear or the budget is spent. No gain without two launches of both.
// Adds the default's failure.
StepConfirmation confirm_step_with(Trials& trials, const TuningLimits& tuning_limits,
                                   const tuner::TimeLeft& budget_left, std::vector<tuner::Failure>& failures);

struct StepTime {
  Seconds other_samples{0};  // time of the samples of a launch in the comparison beyond the one that was taken
  std::string failure;       // the default's, for which the time is not known
};

// Replays the only case, a job's step, with the default (arm 0), alone on the devices. Adds the default's failure.
StepTime time_step_with(Trials& trials, const TuningLimits& tuning_limits, std::vector<tuner::Failure>& failures);

// ---- Alternatives to the default beyond per-size settings: environments (arms), and call modes
// (tuner/candidates.hpp). Each is measured alternately with the default.

struct ArmTrial {
  std::vector<Case> cases;  // one round each
  RunnerOptions runner;
  tuner::KnobScope place;
  tuner::Constraints constraints;
  std::vector<tuner::Weight> weights;  // empty: all cases have equal weight
  Seconds burst;
  std::optional<tuner::BesideRules> beside = {};  // the cases have other work beside them
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
