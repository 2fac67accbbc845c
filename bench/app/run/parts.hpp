// Measurements beside the plan that locate slow parts of the cluster. All ranks call them together.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/runner.hpp"
#include "bench/model/plan.hpp"
#include "reports/suspects.hpp"

namespace p5 {

// Share of the budget for retests, and again for the measurement of parts.
inline constexpr double share_of_parts = 0.1;

// Measures cases of one backend without notifying observers; complete at the leader only.
std::vector<Measurement> measure_beside(ControlPlane& control, Backend& backend, const std::vector<Case>& cases,
                                        const RunnerOptions& options);

// Retest cases for suspects (known at the leader): the slow or silent pairs themselves, and each of their ranks paired
// with ranks that are not suspect, of silent ones these first. `known`: all cases that may be suspect, the same on all
// ranks. Empty without suspects.
std::vector<Case> cases_again(ControlPlane& control, const std::vector<reports::RetestCase>& to_retest,
                              const std::vector<Case>& known, const JobFacts& job);

}  // namespace p5
