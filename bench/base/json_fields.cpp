#include "bench/base/json_fields.hpp"

namespace p5::json_fields {

namespace {

std::string wanted(const char* kind, const Range& range) {
  std::string text = kind;
  if (std::isfinite(range.least)) text += fmt::format(" {} {}", range.open ? "above" : "from", range.least);
  if (std::isfinite(range.most)) text += fmt::format(" to {}", range.most);
  return text;
}

BadValue refused(const json& j, const char* kind, const Range& range) {
  return {"", fmt::format("has to be {}, not {}", wanted(kind, range), found(j))};
}

bool within(double value, const Range& range) {
  return (range.open ? value > range.least : value >= range.least) && value <= range.most;
}

// Other programs may write a whole number with a fraction of zero or an exponent.
bool whole(const json& j) {
  constexpr double exact = 9007199254740992;
  return j.is_number_integer() ||
         (j.is_number_float() && std::abs(j.get<double>()) <= exact && j.get<double>() == std::floor(j.get<double>()));
}

}  // namespace

std::string found(const json& j) {
  if (j.is_string()) return in_quotes(j.get_ref<const std::string&>());
  if (j.is_array()) return "a list";
  if (j.is_object()) return "an object";
  return j.dump();
}

double number_in(const json& j, const Range& range) {
  if (!j.is_number() || !within(j.get<double>(), range)) throw refused(j, "a number", range);
  return j.get<double>();
}

std::int64_t whole_in(const json& j, const Range& range, std::int64_t most) {
  Range both = range;
  both.most = std::min(range.most, static_cast<double>(most));
  both.least = std::max(range.least, -static_cast<double>(most));
  if (!whole(j) || !within(j.get<double>(), both)) throw refused(j, "a whole number", both);
  return j.get<std::int64_t>();
}

std::uint64_t natural_in(const json& j, const Range& range) {
  if (!whole(j) || !within(j.get<double>(), range)) throw refused(j, "a whole number", range);
  return j.get<std::uint64_t>();
}

}  // namespace p5::json_fields
