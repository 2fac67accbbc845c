// Conversion of structures to JSON and back through one list of fields: a function `fields(archive, value)` beside the
// structure names each field once. `must`: required. `may`: nullable; keeps its value where it is missing or null.
// `some`: optional; a list that is omitted while it is empty, or a value that is omitted_if() it is the usual one.
// Members that are not plain numbers (text, unit, name of an enumerator) are wrapped, see As.
//
// Input is untrusted: a value of another type or out of range is refused with its JSON pointer. Numbers are at least 0
// unless wrapped in `any`, `above_zero`, `at_least` or `between`; texts are arbitrary unless wrapped in `one_of`.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"

namespace p5 {

// Constrains the second parameter of fields(), which is const when writing.
template <class Value, class Of>
concept Is = std::same_as<std::remove_const_t<Value>, Of>;

namespace json_fields {

using nlohmann::json;

// A value that this version does not write: `where` is a JSON pointer ("": the whole document).
struct BadValue : UsageError {
  BadValue(std::string at, const std::string& reason)
      : UsageError(fmt::format("{} {}", at.empty() ? "it" : printable(at), reason)),
        where(std::move(at)),
        why(reason) {}
  std::string where, why;
};

// Description of the value found, for messages.
std::string found(const json& j);

// Prefixes errors thrown by `action` with the member or index `step`.
template <class Step, class Action>
void at(const Step& step, const Action& action) try {
  action();
} catch (const BadValue& problem) {
  throw BadValue(fmt::format("/{}{}", step, problem.where), problem.why);
} catch (const std::runtime_error& problem) {
  throw BadValue(fmt::format("/{}", step), fmt::format("is not right: {}", problem.what()));
}

inline const json::array_t& list_in(const json& j) {
  if (!j.is_array()) throw BadValue("", fmt::format("has to be a list, not {}", found(j)));
  return j.get_ref<const json::array_t&>();
}
inline const json::object_t& object_in(const json& j) {
  if (!j.is_object()) throw BadValue("", fmt::format("has to be an object, not {}", found(j)));
  return j.get_ref<const json::object_t&>();
}
// A list of exactly `count` items.
inline const json::array_t& list_of_size(std::size_t count, const json& j) {
  const json::array_t& list = list_in(j);
  if (list.size() != count) throw BadValue("", fmt::format("has to be a list of {}, not of {}", count, list.size()));
  return list;
}
// Calls a function with each item of a list; an error names the item by its index.
void each_item(const json& j, const auto& function) {
  std::size_t index = 0;
  for (const json& item : list_in(j)) at(index++, [&] { function(item); });
}
inline const std::string& text_in(const json& j) {
  if (!j.is_string()) throw BadValue("", fmt::format("has to be a text, not {}", found(j)));
  return j.get_ref<const std::string&>();
}

// Accepted numbers, besides what their type holds.
struct Range {
  double least = 0;
  bool open = false;  // `least` itself is excluded
  double most = std::numeric_limits<double>::infinity();
};
inline constexpr Range any_number{.least = -std::numeric_limits<double>::infinity()};
double number_in(const json& j, const Range& range = {});
std::int64_t whole_in(const json& j, const Range& range, std::int64_t most);
std::uint64_t natural_in(const json& j, const Range& range);

template <class Number>
Number number_of_type(const json& j, const Range& range) {
  if constexpr (std::floating_point<Number>)
    return number_in(j, range);
  else if constexpr (std::is_unsigned_v<Number> && sizeof(Number) == 8)
    return natural_in(j, range);
  else
    return static_cast<Number>(whole_in(j, range, std::numeric_limits<Number>::max()));
}

// A number, an optional number or a list of them, with a range of its own.
template <class Value>
struct Within {
  Value& value;
  Range range;
};
auto any(auto& value) { return Within{value, any_number}; }
auto above_zero(auto& value) { return Within{value, {.open = true}}; }
auto at_least(double least, auto& value) { return Within{value, {.least = least}}; }
auto between(double least, double most, auto& value) { return Within{value, {.least = least, .most = most}}; }

// A list with a maximum length.
template <class Value>
struct Short {
  std::vector<Value>& value;
  std::size_t most;
};
template <class Value>
auto at_most(std::size_t items, std::vector<Value>& list) {
  return Short<Value>{list, items};
}
// The same for writing, where no limit applies.
template <class Value>
const std::vector<Value>& at_most(std::size_t /*items*/, const std::vector<Value>& list) {
  return list;
}

// A value, or a form of one, that is not written if `omitted`; it is the same where a reader finds none.
template <class Form>
struct OmittedIf {
  bool omitted;
  Form form;
};
template <class Form>
OmittedIf<Form> omitted_if(bool omitted, Form&& form) {
  return {omitted, std::forward<Form>(form)};
}

// A value with a custom form: write(value) returns JSON, read(json) the value.
template <class Value, class Write, class Read>
struct As {
  Value& value;
  Write write;
  Read read;
};
template <class Value, class Write, class Read>
As(Value&, Write, Read) -> As<Value, Write, Read>;

// A text that is null while it is empty.
auto or_null(auto& text) {
  return As{text, [](const std::string& full) { return full.empty() ? json() : json(full); },
            [](const json& j) { return j.is_null() ? std::string() : text_in(j); }};
}

// An enumerator by name; `parse` turns the name into one, or throws.
auto named(auto& enumerator, auto parse) {
  return As{enumerator, [](const auto& each) -> decltype(json(name_of(each))) { return name_of(each); },
            [parse](const json& j) { return parse(text_in(j)); }};
}

inline std::string one_of(std::span<const std::string_view> all, const json& j) {
  const std::string& text = text_in(j);
  if (std::ranges::find(all, text) == all.end())
    throw BadValue("", fmt::format("has to be {}, not {}", fmt::join(all, " or "), in_quotes(text)));
  return text;
}
// A text that has to be one of these, which are static.
auto one_of(auto& text, std::span<const std::string_view> all) {
  return As{text, [](const std::string& each) { return json(each); }, [all](const json& j) { return one_of(all, j); }};
}
// The same, null while it is empty.
auto one_of_or_null(auto& text, std::span<const std::string_view> all) {
  return As{text, [](const std::string& each) { return each.empty() ? json() : json(each); },
            [all](const json& j) { return j.is_null() ? std::string() : one_of(all, j); }};
}

template <class Value>
json written(const Value& value);
template <class Value>
json written(const std::vector<Value>& values);
template <class Value>
json written(const std::map<std::string, Value>& values);
// NaN and infinities become null.
inline json written(double value) { return std::isfinite(value) ? json(value) : json(); }
inline json written(const Bytes& size) { return size.count; }
inline json written(const GBps& rate) { return written(rate.count); }
template <class Value>
json written(const std::optional<Value>& value) {
  return value ? written(*value) : json();
}
template <class Value>
json written(const std::vector<Value>& values) {
  json list = json::array();
  for (const Value& value : values) list.push_back(written(value));
  return list;
}
template <class Value>
json written(const std::map<std::string, Value>& values) {
  json object = json::object();
  for (const auto& [name, value] : values) object[name] = written(value);
  return object;
}
// A custom form may apply to the value of an optional.
template <class Value, class Write, class Read>
json written(const As<Value, Write, Read>& as) {
  if constexpr (requires { as.write(as.value); }) {
    return as.write(as.value);
  } else {
    return as.value ? as.write(*as.value) : json();
  }
}

template <class Value>
json written(const Within<Value>& within) {
  return written(within.value);
}

struct Writer {
  json object = json::object();
  void must(const char* name, const auto& value) { object[name] = written(value); }
  void may(const char* name, const auto& value) { must(name, value); }
  // Written only for a non-empty list or an optional with a value.
  void some(const char* name, const auto& value) {
    if constexpr (requires { value.empty(); }) {
      if (!value.empty()) must(name, value);
    } else if constexpr (requires { value.omitted; }) {
      if (!value.omitted) must(name, value.form);
    } else if (value) {
      must(name, value);
    }
  }
};

template <class Value>
constexpr bool plain =
    std::is_arithmetic_v<Value> || std::same_as<Value, std::string> || std::same_as<Value, std::string_view> ||
    std::same_as<Value, std::pair<std::string, std::string>>;

template <class Value>
json written(const Value& value) {
  if constexpr (plain<Value>) {
    return value;
  } else {
    Writer writer;
    fields(writer, value);
    return std::move(writer.object);
  }
}

template <class Value>
void read(const json& j, Value& value);
template <class Value>
void read(const json& j, std::vector<Value>& values);
template <class Value>
void read(const json& j, std::map<std::string, Value>& values);
inline void read(const json& j, Bytes& size) { size.count = natural_in(j, {}); }
inline void read(const json& j, GBps& rate) { rate.count = number_in(j); }
template <class Value>
void read(const json& j, std::optional<Value>& value) {
  if (j.is_null()) return;
  read(j, value.emplace());
}
template <class Value>
void read(const json& j, std::vector<Value>& values) {
  values.clear();
  each_item(j, [&](const json& item) { read(item, values.emplace_back()); });
}
template <class Value>
void read(const json& j, std::map<std::string, Value>& values) {
  values.clear();
  for (const auto& [name, one] : object_in(j)) at(name, [&, &key = name, &value = one] { read(value, values[key]); });
}
template <class Value>
void read(const json& j, Short<Value>& list) {
  if (list_in(j).size() > list.most)
    throw BadValue("", fmt::format("has to be a list of {} at most, not of {}", list.most, j.size()));
  read(j, list.value);
}
template <class Number>
void read(const json& j, Within<Number>& within) {
  within.value = number_of_type<Number>(j, within.range);
}
inline void read(const json& j, Within<GBps>& within) { within.value.count = number_in(j, within.range); }
template <class Number>
void read(const json& j, Within<std::optional<Number>>& within) {
  if (j.is_null()) return;
  Within<Number> there{within.value.emplace(), within.range};
  read(j, there);
}
template <class Value, class Write, class Read>
void read(const json& j, As<Value, Write, Read>& as) {
  if constexpr (requires { as.write(as.value); }) {
    as.value = as.read(j);
  } else {
    if (!j.is_null()) as.value = as.read(j);
  }
}

struct Reader {
  const json::object_t& object;
  void must(const char* name, auto&& value) const {
    const auto there = object.find(name);
    if (there == object.end()) throw BadValue(fmt::format("/{}", name), "is missing");
    at(name, [&] { read(there->second, value); });
  }
  void may(const char* name, auto&& value) const {
    const auto there = object.find(name);
    if (there != object.end() && !there->second.is_null()) at(name, [&] { read(there->second, value); });
  }
  void some(const char* name, auto&& value) const {
    if constexpr (requires { value.omitted; })
      may(name, value.form);
    else
      may(name, value);
  }
};

template <class Value>
void read(const json& j, Value& value) {
  if constexpr (std::same_as<Value, bool>) {
    if (!j.is_boolean()) throw BadValue("", fmt::format("has to be true or false, not {}", found(j)));
    value = j.get<bool>();
  } else if constexpr (std::is_arithmetic_v<Value>) {
    value = number_of_type<Value>(j, {});
  } else if constexpr (std::same_as<Value, std::string>) {
    value = text_in(j);
  } else if constexpr (std::same_as<Value, std::pair<std::string, std::string>>) {
    const json::array_t& both = list_of_size(2, j);
    at(0, [&] { value.first = text_in(both[0]); });
    at(1, [&] { value.second = text_in(both[1]); });
  } else {
    const Reader reader{object_in(j)};
    fields(reader, value);
  }
}

template <class Value>
Value read_as(const json& j) {
  Value value{};
  read(j, value);
  return value;
}

// Single members of an object without a list of fields.
inline const json& member(const json& object, const char* name) {
  const json::object_t& members = object_in(object);
  const auto there = members.find(name);
  if (there == members.end()) throw BadValue(fmt::format("/{}", name), "is missing");
  return there->second;
}
template <class Value>
Value member_as(const json& object, const char* name) {
  Value value{};
  at(name, [&, &j = member(object, name)] { read(j, value); });
  return value;
}
template <class Number>
Number member_as(const json& object, const char* name, const Range& range) {
  Number value{};
  at(name, [&, &j = member(object, name)] { value = number_of_type<Number>(j, range); });
  return value;
}

}  // namespace json_fields

}  // namespace p5
