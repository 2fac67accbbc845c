// Wall time that has passed, by a clock that nobody sets, and the time of day.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "bench/base/units.hpp"

namespace p5 {

using Clock = std::chrono::steady_clock;

inline Seconds since(Clock::time_point then) { return {std::chrono::duration<double>(Clock::now() - then).count()}; }

// "2026-11-20T12:00:00Z"
std::string utc_now();
// Seconds since 1970 of such a text; std::nullopt for any other.
std::optional<double> parse_utc(const std::string& text);

}  // namespace p5
