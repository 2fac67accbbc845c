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
                         [](const nlohmann::json& j) { return j.get<double>() * 1e-6; }};
}

// Null where an end is no number.
inline nlohmann::json list_of(const Interval& interval) {
  if (!std::isfinite(interval.low) || !std::isfinite(interval.high)) return nullptr;
  return {interval.low, interval.high};
}
auto as_list(auto& interval) {
  return json_fields::As{interval, list_of, [](const nlohmann::json& j) { return Interval{j.at(0), j.at(1)}; }};
}

}  // namespace p5::reports
