// JSON forms of values for the lists of fields (bench/base/json_fields.hpp): times in microseconds, intervals as lists
// of two.
#pragma once

#include "bench/base/json_fields.hpp"
#include "bench/base/statistics.hpp"

namespace p5::reports {

// Rounds to significant digits. Twelve are finer than any clock, and stable when a time is read and written again.
double rounded(double value, int digits = 12);
inline nlohmann::json microseconds(double seconds) { return json_fields::written(rounded(seconds * 1e6)); }
// Times in microseconds that a report can have: a picosecond to thirty years, so that no rate overflows.
inline constexpr json_fields::Range times_us{.least = 1e-6, .most = 1e15};
inline double seconds_from(const nlohmann::json& j) { return json_fields::number_in(j, times_us) * 1e-6; }

auto in_microseconds(auto& seconds) { return json_fields::As{seconds, microseconds, seconds_from}; }

// Null if an end is not finite.
inline nlohmann::json list_of(const Interval& interval) {
  if (!std::isfinite(interval.low) || !std::isfinite(interval.high)) return nullptr;
  return {interval.low, interval.high};
}
inline Interval interval_from(const nlohmann::json& j, const auto& end_from) {
  const nlohmann::json::array_t& ends = json_fields::list_of_size(2, j);
  Interval interval;
  json_fields::at(0, [&] { interval.low = end_from(ends[0]); });
  json_fields::at(1, [&] { interval.high = end_from(ends[1]); });
  return interval;
}
auto as_list(auto& interval) {
  return json_fields::As{interval, list_of, [](const nlohmann::json& j) {
                           return interval_from(
                               j, [](const auto& end) { return json_fields::number_in(end, json_fields::any_number); });
                         }};
}

}  // namespace p5::reports
