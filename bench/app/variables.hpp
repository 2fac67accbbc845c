// The variables by which p5bench itself is set: P5BENCH_*. What they hold is read like options: a wrong value is
// refused before anything is done.
#pragma once

#include <optional>

#include "bench/base/units.hpp"

namespace p5 {

// Throws UsageError that names the first variable with a wrong value.
void refuse_wrong_variables();

// nullopt where it is not set. A host other than the leader's may hold a wrong one, which then counts for nothing.
std::optional<Seconds> duration_variable(const char* name);  // zero for "off", where that is allowed
std::optional<int> count_variable(const char* name);

}  // namespace p5
