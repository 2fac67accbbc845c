// The search over environments: each arm in fresh workers of its own, in turns with the default's, which live on.
#pragma once

#include <string>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/control_plane.hpp"
#include "tuner/arms.hpp"
#include "tuner/search.hpp"

namespace p5 {

struct ArmTrial {
  std::vector<Case> cases;  // of one round each
  RunnerOptions runner;
  tuner::KnobScope place;
  tuner::Constraints constraints;
  std::vector<tuner::Weight> weights;  // empty: all cases count alike
  Seconds burst;
};

// Of the leader; elsewhere empty.
struct ArmsTried {
  std::vector<tuner::JudgedArm> judged;
  Environment best;                  // what held up again in fresh workers; empty where nothing did
  std::vector<std::string> remarks;  // why the best did not hold up, what there was no time for
};

// On all ranks together. The default is the machine's backend, whose workers are left as they are. Tries arms until
// `time_left` (of the leader) is spent or none is left to try.
ArmsTried try_arms(ControlPlane& control, const Machine& machine, const ArmTrial& trial,
                   const tuner::TimeLeft& time_left);

}  // namespace p5
