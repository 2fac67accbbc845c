// Values to JSON and back through one list of fields: a function `fields(visit, value)` beside the value names each
// once. `must`: it is always there. `may`: it stays as it is where it is missing or null. `some`: a list that is left
// out while it is empty. What is no number of its own (text, unit, name of an enumerator) is wrapped: see As.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/base/units.hpp"

namespace p5 {

// For the type of fields()' second parameter: const where it is written.
template <class Value, class Of>
concept Is = std::same_as<std::remove_const_t<Value>, Of>;

namespace json_fields {

using nlohmann::json;

// A value in another form: write(value) returns JSON, read(json) the value.
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
            [](const json& j) { return j.is_null() ? std::string() : j.get<std::string>(); }};
}

// An enumerator by name; `parse` turns the name into one, or throws.
auto named(auto& enumerator, auto parse) {
  return As{enumerator, [](const auto& each) -> decltype(json(name_of(each))) { return name_of(each); },
            [parse](const json& j) { return parse(j.get<std::string>()); }};
}

template <class Value>
json written(const Value& value);
template <class Value>
json written(const std::vector<Value>& values);
template <class Value>
json written(const std::map<std::string, Value>& values);
// What is not a number is null.
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
// Of an optional that is in another form.
template <class Value, class Write, class Read>
json written(const As<Value, Write, Read>& as) {
  if constexpr (requires { as.write(as.value); }) {
    return as.write(as.value);
  } else {
    return as.value ? as.write(*as.value) : json();
  }
}

struct Writer {
  json object = json::object();
  void must(const char* name, const auto& value) { object[name] = written(value); }
  void may(const char* name, const auto& value) { must(name, value); }
  void some(const char* name, const auto& list) {
    if (!list.empty()) must(name, list);
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
inline void read(const json& j, Bytes& size) { j.get_to(size.count); }
inline void read(const json& j, GBps& rate) { j.get_to(rate.count); }
template <class Value>
void read(const json& j, std::optional<Value>& value) {
  if (j.is_null()) return;
  read(j, value.emplace());
}
template <class Value>
void read(const json& j, std::vector<Value>& values) {
  values.clear();
  for (const json& one : j.get_ref<const json::array_t&>()) read(one, values.emplace_back());
}
template <class Value>
void read(const json& j, std::map<std::string, Value>& values) {
  values.clear();
  for (const auto& [name, one] : j.get_ref<const json::object_t&>()) read(one, values[name]);
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
  const json& object;
  void must(const char* name, auto&& value) const { read(object.at(name), value); }
  void may(const char* name, auto&& value) const {
    if (const auto at = object.find(name); at != object.end() && !at->is_null()) read(*at, value);
  }
  void some(const char* name, auto& list) const { may(name, list); }
};

template <class Value>
void read(const json& j, Value& value) {
  if constexpr (plain<Value>) {
    j.get_to(value);
  } else {
    const Reader reader{j};
    fields(reader, value);
  }
}

template <class Value>
Value read_as(const json& j) {
  Value value;
  read(j, value);
  return value;
}

}  // namespace json_fields

}  // namespace p5
