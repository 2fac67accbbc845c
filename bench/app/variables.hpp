// P5bench's own environment variables, P5BENCH_*. Like options, wrong values are refused before the command starts.
#pragma once

#include <optional>

#include "bench/base/units.hpp"
#include "bench/model/control_plane.hpp"

namespace p5 {

// Throws UsageError naming the first variable with a wrong value.
void refuse_wrong_variables();

// Gives all ranks, and the workers and probes that they start, the leader's values: ranks with others would take other
// steps. Throws UsageError on all ranks, naming the leader's first variable with a wrong value.
void take_variables_of_leader(ControlPlane& control);

// nullopt if not set. A wrong value counts as not set, until the leader's is taken.
std::optional<Seconds> duration_variable(const char* name);  // zero for "off", if allowed
std::optional<int> count_variable(const char* name);

}  // namespace p5
