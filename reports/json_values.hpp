// Forms of values in reports, for the lists of fields (bench/base/json_fields.hpp): times in microseconds, intervals as
// lists of two.
#pragma once

#include <optional>
#include <vector>

#include "bench/base/json_fields.hpp"
#include "bench/base/statistics.hpp"

namespace p5::reports {

// A time of so many seconds.
auto in_microseconds(auto& seconds) {
  return json_fields::As{seconds, [](double each) { return json_fields::written(each * 1e6); },
                         [](const nlohmann::json& j) { return json_fields::number_in(j, {.open = true}) * 1e-6; }};
}

// Null where an end is no number.
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
