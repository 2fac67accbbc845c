// Knobs (variables that are read once per process, from knobs/*.json, which are compiled in) and the search over arms.
// An arm is an environment for fresh workers, compared with the untouched default in the same launch pair. The search
// is coordinate descent, one variable at a time, as pure functions of the arms judged so far.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/statistics.hpp"
#include "tuner/candidates.hpp"
#include "tuner/gain.hpp"

namespace p5::tuner {

// ---- knobs

struct Knob {
  std::string name;     // of the variable
  std::string summary;  // one line
  std::string since;    // first NCCL version, "2.28.3"; "" for a variable of another library
  int step = 3;  // order of trying: 2 what a communicator may also be given, 3 NCCL's own, 4 the network plugin's
  std::vector<std::string> values;
  std::string standard;                // "default" in the file; "" where it depends
  std::vector<std::string> platforms;  // prefixes of instance types; empty: all
  int least_nodes = 1;
  std::string transport = "any";         // "any", "net" (any network between nodes), "efa" or "nvls"
  bool beside = false;                   // only worth a try beside other work
  std::vector<std::string> collectives;  // that it can change; empty: all
  std::string risk, source;
};

// Parses one file. Throws UsageError naming the file and the field that is missing or out of bounds.
std::vector<Knob> parse_knobs(std::string_view file, std::string_view text);

// All knobs in the order of the files, the most promising first, because a search may end before the last.
const std::vector<Knob>& knobs();

// The known risks of these variables, as "NCCL_BUFFSIZE: memory: ..."; variables without a known risk are left out.
std::vector<std::string> risks_of(const Environment& environment);

// Facts that decide which knobs apply.
struct KnobScope {
  std::string platform;  // "": unknown, which excludes knobs for certain platforms
  int nodes = 1;
  int nccl_version = 0;  // as ncclGetVersion counts; 0: unknown, which excludes knobs with a `since`
  bool efa = false, nvls = false;
  bool beside = false;                   // operations are measured beside other work
  std::vector<std::string> collectives;  // that are measured; empty: all
};
bool applies(const Knob& knob, const KnobScope& scope);
// The knob's values without the default.
std::vector<std::string> values_to_try(const Knob& knob);

// "2.28.3" as ncclGetVersion counts: 22803 (since 2.9; 2.8.4 was 2804). 0: not a version.
int parse_nccl_version(std::string_view text);

// ---- weights

// Share of a workload's time that a collective and size takes. A file has lines "collective bytes share" and comments
// (#).
struct Weight {
  std::string collective;
  std::uint64_t bytes = 0;
  double share = 0;  // relative to the others
};
// Throws UsageError naming the file and the line.
std::vector<Weight> parse_weights(std::string_view file, std::string_view text);

// One weight for each size point: each share, over the largest, goes to the measured size nearest to it by ratio. All
// are 1 without weights. Shares of collectives that are not measured are added to `unused`.
std::vector<double> weights_for(std::span<const SizePoint> size_points, std::span<const Weight> weights,
                                std::vector<Weight>* unused = nullptr);

// ---- arms

struct ArmSizePoint {
  SizePoint point;
  BothSides times;  // the default's and the arm's
};
// Weighted geometric mean of default / arm over the size points.
struct Objective {
  double speedup = 1;
  Interval interval;  // 95 %, by the means of processes over the size points: a process may be slow at all of them
};
// `weights`: one for each size point. Size points of weight 0, or not measured on both sides, do not count. Null when
// none counts.
std::optional<Objective> objective_of(std::span<const ArmSizePoint> size_points, std::span<const double> weights);

// A collective and band of sizes in which the arm takes longer.
struct SlowerBand {
  std::string text;      // a predicate: "makes all_gather up to 64 KiB 4.3 % slower"
  bool certain = false;  // false: the interval includes that it takes no longer, so more processes may show that
};

// The first band in which the arm takes longer by more than the share `tolerable` (geometric mean over its size
// points), one that is certain before others. `what` ends the text, as " alone".
std::optional<SlowerBand> find_slower_band(std::span<const ArmSizePoint> size_points, double tolerable = tolerated_loss,
                                           std::string_view what = "");

struct Arm {
  std::string name;         // "NCCL_BUFFSIZE=8388608", several joined by a comma; "default"
  Environment environment;  // variables that it sets
};

// Makes an arm that is named by its variables.
Arm make_arm(const Environment& environment);

struct JudgedArm {
  Arm arm;
  std::optional<Objective> objective;  // null: it failed, or gave wrong data
  // Gain of the operations alone, where the objective is beside other work.
  std::optional<Objective> alone = {};
};

struct ArmRules {
  int most = 12;             // arms, without the default
  double least_gain = 0.02;  // over the best so far, for a variable to be adopted
  double alone_loss = 0.02;  // share by which operations may be slower alone, where that was measured
};

// True if operations are alone slower than the rules allow; `unless_certain`: or if the interval includes that.
bool loses_alone(const JudgedArm& judged, const ArmRules& rules, bool unless_certain = false);

// The reason for which an arm is not adopted after its confirmation, as a predicate: "failed in fresh processes: ...";
// "" where it is. `failure`: of its operations, also as a predicate; `slower`: the text of a slower band.
std::string reason_not_to_adopt(const JudgedArm& again, const std::string& failure, const std::string& slower,
                                const ArmRules& rules);

// True if more processes could change whether the arm is adopted.
bool is_undecided(const JudgedArm& again, const std::optional<SlowerBand>& slower, const ArmRules& rules);

// The best arm so far. Variables are adopted one after the other, each because the best of its values gained enough
// over the best arm before, with an interval that excludes "no gain". The default when no variable was adopted.
Arm best_arm(std::span<const Knob> knobs, const KnobScope& scope, const Constraints& constraints,
             std::span<const JudgedArm> judged, const ArmRules& rules);

// The next arm to try, null at the end. Variables that the operator set are excluded. The caller judges the arm and
// calls again; the same judged arms give the same next arm.
std::optional<Arm> next_arm(std::span<const Knob> knobs, const KnobScope& scope, const Constraints& constraints,
                            std::span<const JudgedArm> judged, const ArmRules& rules);

}  // namespace p5::tuner
