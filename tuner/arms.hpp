// The search over processes: an arm is an environment for fresh workers, compared with the untouched default in the
// same launch pair. Coordinate descent, one variable at a time, as pure functions over what was judged so far.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/statistics.hpp"
#include "tuner/candidates.hpp"
#include "tuner/constraints.hpp"
#include "tuner/gain.hpp"
#include "tuner/knobs.hpp"

namespace p5::tuner {

// How much of a workload's time each collective and size takes. From a file: lines "collective bytes share", # for
// comments.
struct Weight {
  std::string collective;
  std::uint64_t bytes = 0;
  double share = 0;  // relative to the others
};
// Throws UsageError naming the file and the line.
std::vector<Weight> parse_weights(std::string_view file, std::string_view text);

// One weight for each cell: each share goes to the measured size nearest to it by ratio; all 1 without weights. A share
// of a collective that is not measured is in `unused`.
std::vector<double> weights_for(std::span<const SizePoint> size_points, std::span<const Weight> weights,
                                std::vector<Weight>* unused = nullptr);

struct ArmSizePoint {
  SizePoint point;
  BothSides times;  // the default's and the arm's
};
// The geometric mean of default / arm over the cells, weighted.
struct Objective {
  double speedup = 1;
  Interval interval;  // the cells' intervals together, as independent errors
};
// `weights`: one for each cell; cells that weigh nothing or were not measured on both sides do not count. Null when
// none counts.
std::optional<Objective> objective_of(std::span<const ArmSizePoint> size_points, std::span<const double> weights);

// A sentence on the first collective and band of sizes in which the arm takes more than 1 % longer (geometric mean over
// its cells); "" where none does.
std::string band_that_loses(std::span<const ArmSizePoint> size_points);

struct Arm {
  std::string name;         // "NCCL_BUFFSIZE=8388608", several joined by a comma; "default"
  Environment environment;  // what it sets
};

// Named by its variables.
Arm arm_of(const Environment& environment);

struct JudgedArm {
  Arm arm;
  std::optional<Objective> objective;  // null: it failed, or gave wrong data
};

struct ArmRules {
  int most = 12;             // arms, without the default
  int deepest_step = 3;      // knobs of step 4 are tried only when asked for
  double least_gain = 0.02;  // over the best so far, for a variable to be adopted
};

// The best of the arms so far: variables adopted one after the other, each because the best of its values gained enough
// over what was best before, with an interval that leaves out "no gain". The default when nothing did.
Arm best_arm(std::span<const Knob> knobs, const KnobScope& place, const Constraints& constraints,
             std::span<const JudgedArm> judged, const ArmRules& rules);

// The next arm to try, null at the end. Variables that the operator set are never touched. Called again with the answer
// judged, it goes on from there; the same arms judged alike give the same next arm.
std::optional<Arm> next_arm(std::span<const Knob> knobs, const KnobScope& place, const Constraints& constraints,
                            std::span<const JudgedArm> judged, const ArmRules& rules);

}  // namespace p5::tuner
