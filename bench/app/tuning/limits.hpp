// Limits and clock of a tuning.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/units.hpp"
#include "tuner/gain.hpp"
#include "tuner/search.hpp"

namespace p5 {

// Fewest launches of each side of a comparison: a single one has no variation.
inline constexpr int least_launches = 2;

// Limits of a tuning mode.
struct TuningLimits {
  std::vector<Bytes> small;  // sizes below `min`, each of which stands for its neighbours
  Bytes min, max;
  Seconds burn_in;
  // Time since tuning began at which search, arms, call modes and the whole must end.
  Seconds search_end, arms_end, call_modes_end, end;
  Seconds burst;    // duration of a sample
  int samples = 8;  // maximum per launch in the confirmation
  // Launches per side in the confirmation: the number that the time is divided among, and the maximum. There are at
  // least 2; more follow while there is time and the result is undecided.
  int planned_launches = 2, most_launches = 2;
  bool exhaustive = false;                        // as in tuner::SearchRules
  std::optional<tuner::BesideRules> beside = {};  // operations are tuned beside other work
};

// mode: quick, full, exhaustive. P5BENCH_QUICK_LIMIT changes how long a quick tuning takes.
TuningLimits limits_of_mode(const std::string& mode);

// The limits of a tuning beside other work: twice the time, and no small messages, which hardly slow that work down.
// `alone_loss`: as in tuner::BesideRules.
TuningLimits limits_beside(TuningLimits tuning_limits, double alone_loss);

// Clock of a tuning. It measures two times: wall time, which --budget limits, and work, which is wall time without what
// joins took beyond the usual duration.
class TuningClock {
 public:
  // wall: seconds since tuning began; budget: wall time available.
  TuningClock(Seconds budget, std::function<double()> wall);

  // Records the duration of a join.
  void joined(Seconds took);
  // Keeps budget for the comparison of a job's step from now on. Each of its launches is expected to take as long as
  // the first replay, which began at `worked_before` of worked() and formed and connected the groups, and
  // `other_samples` (StepTime) more. The first replay does not count as work.
  void keep_for_step(Seconds other_samples, double worked_before);

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

// Wall time of a tuning whose workers take `join` to join. `step`: predicted time of a launch of one side of a job's
// step; null: no job is tuned.
Seconds predict_tuning_time(const std::string& mode, Seconds join, std::optional<Seconds> step = std::nullopt);

// Time reserved for tuning in a run's budget: what the mode can use, at most a quarter, and nothing if the shortest
// tuning does not fit into a quarter.
Seconds reserve_tuning_time(const std::string& mode, Seconds budget, Seconds join = {0},
                            std::optional<Seconds> step = std::nullopt);

// The limits, scaled to a shorter budget.
TuningLimits scale_limits(const TuningLimits& tuning_limits, Seconds budget);

}  // namespace p5
