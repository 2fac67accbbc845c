// Alternatives to the default beyond per-size settings: environments (arms), and call modes (tuner/call_modes.hpp).
// Each is measured alternately with the default.
#pragma once

#include <string>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/measure/runner.hpp"
#include "bench/measure/trials.hpp"
#include "bench/model/control_plane.hpp"
#include "tuner/arms.hpp"
#include "tuner/call_modes.hpp"
#include "tuner/gain.hpp"
#include "tuner/search.hpp"

namespace p5 {

struct ArmTrial {
  std::vector<Case> cases;  // one round each
  RunnerOptions runner;
  tuner::KnobScope place;
  tuner::Constraints constraints;
  std::vector<tuner::Weight> weights;  // empty: all cases have equal weight
  Seconds burst;
};

// Set at the leader only.
struct ArmSearchResult {
  std::vector<tuner::JudgedArm> judged;
  Environment best;                  // the winner confirmed in fresh workers; empty if none
  std::vector<std::string> remarks;  // why the best was not confirmed, what was skipped for lack of time
};

// Collective. The default is the machine's backend, whose workers are kept; each arm has fresh workers. Tries arms
// until `time_left` (the leader's) is spent or none is left.
ArmSearchResult try_arms(ControlPlane& control, const Machine& machine, const ArmTrial& trial,
                         const tuner::TimeLeft& time_left);

struct CallModeSize {
  tuner::SizePoint point;
  std::optional<tuner::Gain> gain;  // over plain calls; null: failed or no time
  std::string because;              // the reason for a null gain
};

struct CallModeResult {
  tuner::CallMode way;
  std::vector<CallModeSize> sizes;
};

// Collective; the result is the leader's. `cases` are plain calls of one round each.
std::vector<CallModeResult> try_call_modes(ControlPlane& control, Backend& workers, const std::vector<Case>& cases,
                                           const RunnerOptions& runner, int nccl_version, Seconds burst,
                                           const tuner::TimeLeft& time_left);

}  // namespace p5
