// Values to JSON and back through one list of fields: a function `fields(visit, value)` beside the value names each
// once, as `must` (every recording has it) or `may` (a fact that is unknown where it is missing or null). Internal to
// topo.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/base/units.hpp"

namespace p5::topo {

template <class Value, class Of>
concept Is = std::same_as<std::remove_const_t<Value>, Of>;

namespace json_fields {

using nlohmann::json;

template <class Value>
json written(const Value& value);
template <class Value>
json written(const std::vector<Value>& values);
inline json written(const Bytes& size) { return size.count; }
inline json written(const GBps& rate) { return rate.count; }
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

struct Writer {
  json object = json::object();
  void must(const char* name, const auto& value) { object[name] = written(value); }
  void may(const char* name, const auto& value) { must(name, value); }
};

template <class Value>
constexpr bool plain = std::is_arithmetic_v<Value> || std::same_as<Value, std::string> ||
                       std::same_as<Value, std::map<std::string, std::string>> ||
                       std::same_as<Value, std::map<std::string, std::uint64_t>>;

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
inline void read(const json& j, Bytes& size) { j.get_to(size.count); }
inline void read(const json& j, GBps& rate) { j.get_to(rate.count); }
template <class Value>
void read(const json& j, std::optional<Value>& value) {
  if (j.is_null()) return;
  read(j, value.emplace());
}
template <class Value>
void read(const json& j, std::vector<Value>& values) {
  for (const json& one : j.get_ref<const json::array_t&>()) read(one, values.emplace_back());
}

struct Reader {
  const json& object;
  void must(const char* name, auto& value) const { read(object.at(name), value); }
  void may(const char* name, auto& value) const {
    if (const auto at = object.find(name); at != object.end() && !at->is_null()) read(*at, value);
  }
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

}  // namespace json_fields

}  // namespace p5::topo
