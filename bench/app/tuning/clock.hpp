// What a tuning's time is spent on: a clock for its work, on which workers that are slow to come together cost no more
// than others, and the wall time that --budget leaves, which they do count against.
#pragma once

#include <functional>
#include <string>

#include "bench/app/tuning/stages.hpp"
#include "bench/base/units.hpp"
#include "tuner/search.hpp"

namespace p5 {

class TuningClock {
 public:
  // wall: seconds since the tuning began; budget: wall time that it may take.
  TuningClock(Seconds budget, std::function<double()> wall);

  // Workers took so long to come together.
  void joined(Seconds took);

  double wall() const { return wall_(); }
  double worked() const { return wall_() - waited_; }
  double budget_left() const { return budget_.count - wall_(); }

  // Until so much work was done, and with `reserve` of the budget left for what is to follow.
  tuner::TimeLeft until(Seconds end, Seconds reserve = {0}) const;

  // What launches of both sides in the confirmation take at least, with the joins that they need.
  Seconds confirmation(const TuningLimits& tuning_limits) const;

  // Why the least tuning that can find anything does not fit what is left; "" where it does. At first nothing is known
  // of joins, so it is worth asking again after the first.
  std::string objection() const;

 private:
  Seconds budget_;
  std::function<double()> wall_;
  double waited_ = 0;        // for workers, beyond what extents reckon with
  double longest_join_ = 0;  // 0: none yet
};

// Of a run's budget, what its cases leave for a tuning: what that can use, a quarter at most, and nothing where even
// the least tuning would not fit into a quarter.
Seconds set_aside(const std::string& mode, Seconds budget);

// The extent, with less time for everything where the budget is shorter.
TuningLimits fitted(TuningLimits tuning_limits, Seconds budget);

}  // namespace p5
