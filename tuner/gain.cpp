#include "tuner/gain.hpp"

#include <algorithm>

namespace p5::tuner {

double tolerated(double default_s) { return std::max(tolerated_loss, tolerated_loss_s / default_s); }

Effect effect_of(const BothSides& both, double launch_spread) {
  const Sides sides = both.sides();
  return EffectJudge(1, 1).judge({&sides, 1}, launch_spread).together;
}

Gain gain_of(const BothSides& both, double launch_spread) {
  const Effect effect = effect_of(both, launch_spread);
  return {median_of(both.standard),
          median_of(both.tuned),
          1 - effect.ratio,
          {1 - effect.interval.high, 1 - effect.interval.low}};
}

}  // namespace p5::tuner
