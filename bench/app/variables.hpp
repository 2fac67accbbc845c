// P5bench's own environment variables, P5BENCH_*. Like options, wrong values are refused before the command starts.
#pragma once

#include <optional>

#include "bench/base/units.hpp"

namespace p5 {

// Throws UsageError naming the first variable with a wrong value.
void refuse_wrong_variables();

// nullopt if not set. A wrong value on a host other than the leader's counts as not set.
std::optional<Seconds> duration_variable(const char* name);  // zero for "off", if allowed
std::optional<int> count_variable(const char* name);

}  // namespace p5
