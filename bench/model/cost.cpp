#include "bench/model/cost.hpp"

#include <algorithm>
#include <cmath>

#include "bench/base/statistics.hpp"

namespace p5 {

namespace {

// Samples that a round takes when nothing disturbs it, and operations besides: warming up, choosing the burst, filling
// and checking. For predicting.
constexpr int usual_samples = 14, usual_others = 6;

int samples_of(const Case& c) { return is_repeated(c) ? StoppingRule{}.least : usual_samples; }

double predicted_operation(const Case& c, const CostModel& cost) {
  return cost.latency.count * c.collective->steps(c.ranks) +
         static_cast<double>(c.bytes.count) * c.collective->bus_factor(c.ranks) / (cost.bandwidth.count * 1e9);
}

}  // namespace

Seconds predict_round(const Case& c, const CostModel& cost) {
  constexpr double usual_slots = 20;
  const double one = predicted_operation(c, cost);
  const double burst = one * std::clamp(std::ceil(cost.burst.count / one), 1.0, usual_slots);
  const bool both = c.bytes <= latency_up_to;
  return {cost.repetition.count + samples_of(c) * (burst + (both ? one : 0)) + usual_others * one};
}

Seconds predict_least(const Case& c, const CostModel& cost) {
  return {predict_round(c, cost).count * StoppingRule{}.least / samples_of(c)};
}

}  // namespace p5
