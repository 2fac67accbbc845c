// Which part of the cluster is slow: what is measured for that beside the plan. On all ranks together.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/runner.hpp"
#include "bench/model/plan.hpp"
#include "reports/suspects.hpp"

namespace p5 {

// Of this budget, what each of the two may take.
inline constexpr double share_of_parts = 0.1;

// Cases of one backend, of which nobody is told; complete at the leader only.
std::vector<Measurement> measure_beside(ControlPlane& control, Backend& backend, const std::vector<Case>& cases,
                                        const RunnerOptions& options);

// What is in doubt (at the leader) once more: the slow pairs themselves, and each of their ranks with others that are
// not in doubt. `known`: all cases that may be in doubt, alike on all ranks. Empty where nothing is.
std::vector<Case> cases_again(ControlPlane& control, const std::vector<reports::RetestCase>& to_retest,
                              const std::vector<Case>& known, const JobFacts& job);

}  // namespace p5
