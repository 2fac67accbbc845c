#include "bench/app/variables.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/text.hpp"
#include "bench/model/agreement.hpp"

namespace p5 {

namespace {

enum class Kind { duration, duration_or_off, count };
struct Variable {
  const char* name;
  Kind kind;
};
constexpr std::array variables{
    Variable{"P5BENCH_START_LIMIT", Kind::duration}, Variable{"P5BENCH_PROBE_LIMIT", Kind::duration},
    Variable{"P5BENCH_JOIN_LIMIT", Kind::duration},  Variable{"P5BENCH_REACH_LIMIT", Kind::duration_or_off},
    Variable{"P5BENCH_MOST_SAMPLES", Kind::count},   Variable{"P5BENCH_QUICK_LIMIT", Kind::duration}};

std::string_view value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

int parse_count(std::string_view text) {
  constexpr int most = 1'000'000;
  const int count = as_number<int>(text).value_or(0);
  if (count < 1 || count > most)
    throw UsageError(fmt::format("{} is no whole number from 1 to {}", in_quotes(text), most));
  return count;
}

// Zero for "off", where it is allowed.
Seconds parse_duration_of(const Variable& variable, std::string_view text) {
  return variable.kind == Kind::duration_or_off && text == "off" ? Seconds{0} : parse_duration(text);
}

void read(const Variable& variable) {
  const std::string_view value = value_of(variable.name);
  if (value.empty()) return;
  if (variable.kind == Kind::count)
    parse_count(value);
  else
    parse_duration_of(variable, value);
}

}  // namespace

void refuse_wrong_variables() {
  for (const Variable& each : variables) try {
      read(each);
    } catch (const UsageError& problem) {
      throw UsageError(fmt::format("{}: {}", each.name, problem.what()));
    }
}

void take_variables_of_leader(ControlPlane& control) {
  const auto values = from_leader(control, [] {
    refuse_wrong_variables();
    std::vector<std::string> of_leader;
    for (const Variable& each : variables) of_leader.emplace_back(value_of(each.name));
    return of_leader;
  });
  for (std::size_t at = 0; at < variables.size(); ++at) {
    const Variable& each = variables.at(at);
    if (const std::string& value = values.at(at); value != value_of(each.name))
      value.empty() ? unsetenv(each.name) : setenv(each.name, value.c_str(), /*overwrite=*/1);
  }
}

std::optional<Seconds> duration_variable(const char* name) try {
  const std::string_view value = value_of(name);
  const auto variable = std::ranges::find(variables, std::string_view(name), &Variable::name);
  if (value.empty() || variable == variables.end()) return std::nullopt;
  return parse_duration_of(*variable, value);
} catch (const UsageError&) {
  return std::nullopt;
}

std::optional<int> count_variable(const char* name) try {
  const std::string_view value = value_of(name);
  return value.empty() ? std::nullopt : std::optional(parse_count(value));
} catch (const UsageError&) {
  return std::nullopt;
}

}  // namespace p5
