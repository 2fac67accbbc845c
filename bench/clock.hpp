// Wall time that has passed, by a clock that nobody sets.
#pragma once

#include <chrono>

#include "bench/units.hpp"

namespace p5 {

using Clock = std::chrono::steady_clock;

inline Seconds since(Clock::time_point then) { return {std::chrono::duration<double>(Clock::now() - then).count()}; }

}  // namespace p5
