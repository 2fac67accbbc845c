// Element types and reduction operations, with the two 16-bit floating-point types that C++20 lacks. Conversions and
// sizes are constexpr, so that device code can use them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace p5 {

enum class DataType { int8, uint8, int32, uint32, int64, uint64, float16, bfloat16, float32, float64 };
enum class ReduceOp { sum, prod, min, max, avg };

// Names as users write them, in enum order.
std::span<const std::string> data_type_names();
std::span<const std::string> reduce_op_names();
std::string_view name_of(DataType type);
std::string_view name_of(ReduceOp op);
// Both throw UsageError that suggests the nearest name.
DataType parse_data_type(std::string_view name);
ReduceOp parse_reduce_op(std::string_view name);

// A 16-bit float with `fraction_bits` stored bits of significand. Conversions from float round to nearest even.
template <int fraction_bits>
struct Float16Bits {
  static constexpr int exponent_bits = 15 - fraction_bits;
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  std::uint16_t bits = 0;

  constexpr Float16Bits() = default;
  constexpr explicit Float16Bits(float value) : bits(narrow(value)) {}
  constexpr explicit operator float() const { return widen(bits); }
  friend constexpr bool operator==(const Float16Bits&, const Float16Bits&) = default;

 private:
  static constexpr std::uint32_t round_shift(std::uint32_t value, int shift) {
    if (shift > 31) return 0;
    const std::uint32_t kept = value >> shift;
    const std::uint32_t rest = value & ((1u << shift) - 1);
    const std::uint32_t half = 1u << (shift - 1);
    return kept + (rest > half || (rest == half && (kept & 1)) ? 1 : 0);
  }

  static constexpr std::uint16_t narrow(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (wide >> 16) & 0x8000u;
    const std::uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits;
    const std::uint32_t magnitude = wide & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | infinity | (1u << (fraction_bits - 1)));
    // A subnormal float has the exponent of the smallest normal one and no leading one; bfloat16 can hold it.
    const int exponent = (magnitude >> 23 ? static_cast<int>(magnitude >> 23) : 1) - 127;
    if (exponent > bias) return static_cast<std::uint16_t>(sign | infinity);
    const std::uint32_t significand = (magnitude & 0x7fffffu) | (magnitude >> 23 ? 0x800000u : 0u);
    std::uint32_t rounded;
    if (exponent >= 1 - bias) {
      rounded = round_shift(significand, 23 - fraction_bits) +
                (static_cast<std::uint32_t>(exponent + bias - 1) << fraction_bits);
    } else {
      rounded = round_shift(significand, 23 - fraction_bits + (1 - bias - exponent));
    }
    return static_cast<std::uint16_t>(sign | (rounded > infinity ? infinity : rounded));
  }

  static constexpr float widen(std::uint16_t narrow) {
    const std::uint32_t sign = (narrow & 0x8000u) << 16;
    const int exponent = (narrow >> fraction_bits) & ((1 << exponent_bits) - 1);
    const std::uint32_t fraction = narrow & ((1u << fraction_bits) - 1);
    if (exponent == (1 << exponent_bits) - 1)
      return std::bit_cast<float>(sign | 0x7f800000u | (fraction << (23 - fraction_bits)));
    if (exponent == 0) {
      // Zero or subnormal: fraction * 2^(1 - bias - fraction_bits), the power built as two exact factors.
      float magnitude = static_cast<float>(fraction);
      magnitude *= power_of_two((1 - bias - fraction_bits) / 2);
      magnitude *= power_of_two((1 - bias - fraction_bits) - (1 - bias - fraction_bits) / 2);
      return sign ? -magnitude : magnitude;
    }
    return std::bit_cast<float>(sign | (static_cast<std::uint32_t>(exponent - bias + 127) << 23) |
                                (fraction << (23 - fraction_bits)));
  }

  static constexpr float power_of_two(int exponent) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
  }
};

using Float16 = Float16Bits<10>;
using Bfloat16 = Float16Bits<7>;

// Calls `action.template operator()<T>()` with the C++ type of `type`.
template <class Action>
constexpr decltype(auto) with_type(DataType type, Action&& action) {
  switch (type) {
    case DataType::int8:
      return action.template operator()<std::int8_t>();
    case DataType::uint8:
      return action.template operator()<std::uint8_t>();
    case DataType::int32:
      return action.template operator()<std::int32_t>();
    case DataType::uint32:
      return action.template operator()<std::uint32_t>();
    case DataType::int64:
      return action.template operator()<std::int64_t>();
    case DataType::uint64:
      return action.template operator()<std::uint64_t>();
    case DataType::float16:
      return action.template operator()<Float16>();
    case DataType::bfloat16:
      return action.template operator()<Bfloat16>();
    case DataType::float32:
      return action.template operator()<float>();
    case DataType::float64:
      break;
  }
  return action.template operator()<double>();
}

constexpr std::size_t size_of(DataType type) {
  return with_type(type, []<class T>() { return sizeof(T); });
}

}  // namespace p5
