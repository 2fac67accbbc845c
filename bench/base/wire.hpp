// Binary serialization of plain values between participants of a job, which run the same binary on the same
// architecture: numbers, enumerators, texts, lists, maps, optionals, and structures with a list of fields (fields(), as
// in json_fields.hpp).
#pragma once

#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace p5::wire {

// A value without content.
struct Nothing {};

template <class Value>
constexpr bool plain = std::is_arithmetic_v<Value> || std::is_enum_v<Value>;

class Writer {
 public:
  void must(const char* /*name*/, const auto& value) { put(value); }
  void some(const char* /*name*/, const auto& value) { put(value); }

  template <class Value>
  void put(const Value& value) {
    if constexpr (plain<Value>)
      put_bytes(&value, sizeof value);
    else if constexpr (!std::is_empty_v<Value>)
      fields(*this, value);
  }
  void put(const std::string& text) {
    put(text.size());
    put_bytes(text.data(), text.size());
  }
  template <class Value>
  void put(const std::optional<Value>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class Value>
  void put(const std::vector<Value>& values) {
    put(values.size());
    if constexpr (plain<Value>)
      put_bytes(values.data(), values.size() * sizeof(Value));
    else
      for (const Value& value : values) put(value);
  }
  template <class Value>
  void put(const std::map<std::string, Value>& values) {
    put(values.size());
    for (const auto& [name, value] : values) put(name), put(value);
  }

  std::string blob;

 private:
  void put_bytes(const void* bytes, std::size_t count) { blob.append(static_cast<const char*>(bytes), count); }
};

class Reader {
 public:
  explicit Reader(std::string_view blob) : rest_(blob) {}

  void must(const char* /*name*/, auto& value) { get(value); }
  void some(const char* /*name*/, auto& value) { get(value); }

  template <class Value>
  void get(Value& value) {
    if constexpr (plain<Value>)
      std::memcpy(&value, bytes(sizeof value), sizeof value);
    else if constexpr (!std::is_empty_v<Value>)
      fields(*this, value);
  }
  void get(std::string& text) {
    const std::size_t count = size();
    text.assign(bytes(count), count);
  }
  template <class Value>
  void get(std::optional<Value>& value) {
    bool there = false;
    get(there);
    value.reset();
    if (there) get(value.emplace());
  }
  template <class Value>
  void get(std::vector<Value>& values) {
    values.resize(size());
    if constexpr (plain<Value>) {
      const std::size_t count = values.size() * sizeof(Value);
      if (count > 0) std::memcpy(values.data(), bytes(count), count);
    } else {
      for (Value& value : values) get(value);
    }
  }
  template <class Value>
  void get(std::map<std::string, Value>& values) {
    values.clear();
    for (std::size_t left = size(); left > 0; --left) {
      std::string name;
      get(name);
      get(values[name]);
    }
  }

 private:
  // Each item takes at least one byte; a larger count is malformed.
  std::size_t size() {
    std::size_t count = 0;
    get(count);
    if (count > rest_.size()) throw std::runtime_error("a control message is not in the format of this version");
    return count;
  }
  const char* bytes(std::size_t count) {
    if (count > rest_.size()) throw std::runtime_error("a control message is incomplete");
    const char* const at = rest_.data();
    rest_.remove_prefix(count);
    return at;
  }

  std::string_view rest_;
};

template <class Value>
std::string serialize(const Value& value) {
  Writer writer;
  writer.put(value);
  return std::move(writer.blob);
}

template <class Value>
Value deserialize(const std::string& blob) {
  Value value{};
  Reader(blob).get(value);
  return value;
}

}  // namespace p5::wire
