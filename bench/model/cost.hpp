// What cases take, before anything is known of them: for dividing the budget, for deadlines and for plan.
#pragma once

#include "bench/base/units.hpp"
#include "bench/model/case.hpp"

namespace p5 {

// Larger messages have no latency of their own.
inline constexpr Bytes latency_up_to = MiB(1);

// Of a backend.
struct CostModel {
  Seconds latency{20e-6};
  GBps bandwidth{1.0};
  Seconds burst{1e-3};       // how long one is to last, so that starting it and reading the clock do not count
  Seconds repetition{1e-3};  // opening, agreements, and samples that take no time themselves
  Seconds communicator{0};   // to make those that the groups of a round need, and to leave them
};

// With what was seen on two H200s (bench/RESULTS.md).
inline CostModel cost_on_gpus(Seconds latency, GBps bandwidth) {
  return {.latency = latency, .bandwidth = bandwidth, .burst = {5e-3}, .repetition = {18e-3}, .communicator = {0.3}};
}

// Predicted wall time of one round of a case, for dividing the budget: samples and verification on top of the cost
// model. Without the communicators that it needs.
Seconds predict_round(const Case& c, const CostModel& cost);

// Of that, the part without which there would be too few samples.
Seconds predict_least(const Case& c, const CostModel& cost);

}  // namespace p5
