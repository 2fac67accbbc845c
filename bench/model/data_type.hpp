// Element types and reduction operations, with the floating-point types of 8 and 16 bits that C++20 lacks. Conversions
// and sizes are constexpr, so that device code can use them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace p5 {

enum class DataType {
  int8,
  uint8,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  float8_e4m3,
  float8_e5m2
};
// mulsum: the sum of inputs that each rank multiplies by a factor of its own (mulsum_factor()).
enum class ReduceOp { sum, prod, min, max, avg, mulsum };

// Names as users write them, in enum order.
std::span<const std::string> data_type_names();
std::span<const std::string> reduce_op_names();
std::string_view name_of(DataType type);
std::string_view name_of(ReduceOp op);
// Both throw UsageError that suggests the nearest name.
DataType parse_data_type(std::string_view name);
ReduceOp parse_reduce_op(std::string_view name);

// A float of 8 or 16 bits with `fraction_bits` stored bits of significand. Conversions from float round to nearest
// even. Without infinities (`infinite` false) values beyond the largest become the largest, and all ones are the only
// NaN.
template <class Storage, int fraction_bits, bool infinite = true>
struct SmallFloat {
  static constexpr int width = 8 * sizeof(Storage);
  static constexpr int exponent_bits = width - 1 - fraction_bits;
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr std::uint32_t sign_bit = 1u << (width - 1);
  // The magnitude from which on there are no finite values: infinity, or the only NaN.
  static constexpr std::uint32_t not_finite = infinite ? ((1u << exponent_bits) - 1) << fraction_bits : sign_bit - 1;
  Storage bits = 0;

  constexpr SmallFloat() = default;
  constexpr explicit SmallFloat(float value) : bits(narrow(value)) {}
  constexpr explicit operator float() const { return widen(bits); }
  friend constexpr bool operator==(const SmallFloat&, const SmallFloat&) = default;

 private:
  static constexpr std::uint32_t overflow = infinite ? not_finite : not_finite - 1;

  static constexpr std::uint32_t round_shift(std::uint32_t value, int shift) {
    if (shift > 31) return 0;
    const std::uint32_t kept = value >> shift;
    const std::uint32_t rest = value & ((1u << shift) - 1);
    const std::uint32_t half = 1u << (shift - 1);
    return kept + (rest > half || (rest == half && (kept & 1)) ? 1 : 0);
  }

  static constexpr Storage narrow(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (wide >> (32 - width)) & sign_bit;
    const std::uint32_t magnitude = wide & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
      return static_cast<Storage>(sign | not_finite | (infinite ? 1u << (fraction_bits - 1) : 0u));
    // A subnormal float has the exponent of the smallest normal one and no leading one; bfloat16 can hold it.
    const int exponent = (magnitude >> 23 ? static_cast<int>(magnitude >> 23) : 1) - 127;
    if (exponent > bias + (infinite ? 0 : 1)) return static_cast<Storage>(sign | overflow);
    const std::uint32_t significand = (magnitude & 0x7fffffu) | (magnitude >> 23 ? 0x800000u : 0u);
    std::uint32_t rounded;
    if (exponent >= 1 - bias) {
      rounded = round_shift(significand, 23 - fraction_bits) +
                (static_cast<std::uint32_t>(exponent + bias - 1) << fraction_bits);
    } else {
      rounded = round_shift(significand, 23 - fraction_bits + (1 - bias - exponent));
    }
    return static_cast<Storage>(sign | (rounded > overflow ? overflow : rounded));
  }

  static constexpr float widen(Storage narrow) {
    const std::uint32_t sign = narrow & sign_bit ? 0x80000000u : 0u;
    const int exponent = (narrow >> fraction_bits) & ((1 << exponent_bits) - 1);
    const std::uint32_t fraction = narrow & ((1u << fraction_bits) - 1);
    if ((narrow & (sign_bit - 1)) >= not_finite)
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

using Float16 = SmallFloat<std::uint16_t, 10>;
using Bfloat16 = SmallFloat<std::uint16_t, 7>;
// As in "OCP 8-bit Floating Point Specification (OFP8)", 2023, and NCCL from 2.24 on.
using Float8E4m3 = SmallFloat<std::uint8_t, 3, false>;
using Float8E5m2 = SmallFloat<std::uint8_t, 2>;

template <class T>
inline constexpr bool is_small_float = false;
template <class Storage, int fraction_bits, bool infinite>
inline constexpr bool is_small_float<SmallFloat<Storage, fraction_bits, infinite>> = true;

// Significant bits of a floating-point type: all integers up to 2^precision are exact.
template <class T>
inline constexpr int precision = std::numeric_limits<T>::digits;
template <class Storage, int fraction_bits, bool infinite>
inline constexpr int precision<SmallFloat<Storage, fraction_bits, infinite>> = fraction_bits + 1;

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
    case DataType::float8_e4m3:
      return action.template operator()<Float8E4m3>();
    case DataType::float8_e5m2:
      return action.template operator()<Float8E5m2>();
    case DataType::float32:
      return action.template operator()<float>();
    case DataType::float64:
      break;
  }
  return action.template operator()<double>();
}

constexpr bool is_float8(DataType type) { return type == DataType::float8_e4m3 || type == DataType::float8_e5m2; }

constexpr std::size_t size_of(DataType type) {
  return with_type(type, []<class T>() { return sizeof(T); });
}

}  // namespace p5
