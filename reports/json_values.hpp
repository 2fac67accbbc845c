// What JSON has no word for, written as null and read again.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace p5::reports {

// Not a number: null.
inline nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

template <class T>
nlohmann::json optional(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

template <class T>
std::optional<T> optional_from(const nlohmann::json& j) {
  return j.is_null() ? std::nullopt : std::optional<T>(j.get<T>());
}

}  // namespace p5::reports
