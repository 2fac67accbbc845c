// The floating-point types of 8 and 16 bits against tables that are computed from their definition in double.
#include "bench/model/data_type.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "bench/base/error.hpp"

namespace p5 {
namespace {

template <class T>
struct Format;
template <>
struct Format<Float16> {
  static constexpr int fraction_bits = 10, lowest_exponent = -14, highest_exponent = 15;
};
template <>
struct Format<Bfloat16> {
  static constexpr int fraction_bits = 7, lowest_exponent = -126, highest_exponent = 127;
};
template <>
struct Format<Float8E5m2> {
  static constexpr int fraction_bits = 2, lowest_exponent = -14, highest_exponent = 15;
};
template <>
struct Format<Float8E4m3> {
  static constexpr int fraction_bits = 3, lowest_exponent = -6, highest_exponent = 8;
};

// All values from zero up to the largest finite one, by the definition of the format.
template <class T>
std::vector<double> finite_values() {
  std::vector<double> values;
  const int per_binade = 1 << Format<T>::fraction_bits;
  for (int i = 0; i < per_binade; ++i)
    values.push_back(std::ldexp(i, Format<T>::lowest_exponent - Format<T>::fraction_bits));
  for (int exponent = Format<T>::lowest_exponent; exponent <= Format<T>::highest_exponent; ++exponent)
    for (int i = 0; i < per_binade; ++i)
      values.push_back(std::ldexp(per_binade + i, exponent - Format<T>::fraction_bits));
  if (std::is_same_v<T, Float8E4m3>) values.pop_back();  // all ones are no number
  return values;
}

// The bit pattern of the value nearest to a magnitude, the even one of two; beyond the last by half a step: infinity
// or, in float8_e4m3, the last.
std::uint16_t nearest_bits(const std::vector<double>& values, double magnitude, std::size_t most) {
  const auto above = static_cast<std::size_t>(std::ranges::lower_bound(values, magnitude) - values.begin());
  if (above == 0) return 0;
  const double next = above < values.size() ? values[above] : 2 * values.back() - values[above - 2];
  // exact: neighbours are less than a factor of two apart
  const double down = magnitude - values[above - 1], up = next - magnitude;
  const bool up_is_nearer = up < down || (up == down && above % 2 == 0);
  return static_cast<std::uint16_t>(std::min(up_is_nearer ? above : above - 1, most));
}

template <class T>
class SmallFloats : public testing::Test {
 public:
  static constexpr std::uint32_t sign = T::sign_bit;
  static constexpr bool infinite = !std::is_same_v<T, Float8E4m3>;
  // The bits of a magnitude that is too large.
  std::uint32_t overflow() const { return static_cast<std::uint32_t>(values_.size()) - (infinite ? 0 : 1); }

  void expect_nearest(float value) const {
    const auto wanted =
        nearest_bits(values_, std::fabs(static_cast<double>(value)), overflow()) | (std::signbit(value) ? sign : 0u);
    ASSERT_EQ(T(value).bits, wanted) << std::hexfloat << value;
  }

  const std::vector<double> values_ = finite_values<T>();
};
using SmallFloatTypes = testing::Types<Float16, Bfloat16, Float8E4m3, Float8E5m2>;
TYPED_TEST_SUITE(SmallFloats, SmallFloatTypes);

TYPED_TEST(SmallFloats, widen_to_the_values_of_their_definition) {
  for (std::size_t bits = 0; bits < this->values_.size(); ++bits) {
    TypeParam value;
    value.bits = static_cast<decltype(value.bits)>(bits);
    ASSERT_EQ(static_cast<double>(static_cast<float>(value)), this->values_[bits]) << bits;
    value.bits = static_cast<decltype(value.bits)>(bits | this->sign);
    ASSERT_EQ(static_cast<double>(static_cast<float>(value)), -this->values_[bits]) << bits;
    ASSERT_TRUE(std::signbit(static_cast<float>(value))) << bits;
  }
}

TYPED_TEST(SmallFloats, come_back_unchanged_from_float_for_all_patterns) {
  const std::uint32_t numbers = this->overflow() + 1, magnitude = this->sign - 1;  // infinity counts
  std::uint32_t nans = 0;
  for (std::uint32_t bits = 0; bits < 2 * this->sign; ++bits) {
    TypeParam value;
    value.bits = static_cast<decltype(value.bits)>(bits);
    const auto wide = static_cast<float>(value);
    const TypeParam back(wide);
    if ((bits & magnitude) >= numbers) {
      ++nans;
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_GE(back.bits & magnitude, numbers) << bits;
      ASSERT_EQ(back.bits & this->sign, bits & this->sign) << bits;
    } else {
      ASSERT_EQ(std::isinf(wide), this->infinite && (bits & magnitude) == numbers - 1) << bits;
      ASSERT_EQ(back, value) << bits;
    }
  }
  EXPECT_EQ(nans, this->infinite ? 2u * ((1u << Format<TypeParam>::fraction_bits) - 1) : 2u);
}

TYPED_TEST(SmallFloats, round_to_nearest_even_around_every_midpoint) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i + 1 < this->values_.size(); ++i) {
    const auto midpoint = static_cast<float>((this->values_[i] + this->values_[i + 1]) / 2);
    ASSERT_EQ(static_cast<double>(midpoint), (this->values_[i] + this->values_[i + 1]) / 2);
    for (const float value : {midpoint, std::nextafter(midpoint, 0.0f), std::nextafter(midpoint, infinity)}) {
      this->expect_nearest(value);
      this->expect_nearest(-value);
    }
  }
}

TYPED_TEST(SmallFloats, round_arbitrary_floats_to_nearest_even) {
  std::mt19937 random(3);
  for (int i = 0; i < 300000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(value)) this->expect_nearest(value);
    const auto in_range =
        static_cast<float>(std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 50) - 60));
    this->expect_nearest(in_range);
  }
}

TYPED_TEST(SmallFloats, round_beyond_the_largest_value_by_half_a_step_to_infinity_or_the_largest) {
  const double largest = this->values_.back();
  const double half_step = (largest - this->values_[this->values_.size() - 2]) / 2;
  const auto limit = static_cast<float>(largest + half_step);
  const std::uint32_t beyond = this->overflow();
  EXPECT_EQ(TypeParam(limit).bits, beyond);
  EXPECT_EQ(TypeParam(std::nextafter(limit, 0.0f)).bits, this->values_.size() - 1);
  EXPECT_EQ(TypeParam(-limit).bits, beyond | this->sign);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::infinity()).bits, beyond);
  EXPECT_EQ(TypeParam(-std::numeric_limits<float>::infinity()).bits, beyond | this->sign);
}

TYPED_TEST(SmallFloats, keep_tiny_values_and_the_sign_of_zero) {
  EXPECT_EQ(TypeParam(0.0f).bits, 0u);
  EXPECT_EQ(TypeParam(-0.0f).bits, this->sign);
  const auto smallest = static_cast<float>(this->values_[1]);
  EXPECT_EQ(TypeParam(smallest).bits, 1u);
  EXPECT_EQ(TypeParam(smallest / 2).bits, 0u);  // a tie, to even
  EXPECT_EQ(TypeParam(std::nextafter(smallest / 2, 1.0f)).bits, 1u);
  EXPECT_EQ(TypeParam(smallest * 1.5f).bits, 2u);  // a tie, to even
  EXPECT_EQ(TypeParam(-std::numeric_limits<float>::denorm_min()).bits, this->sign);
}

TYPED_TEST(SmallFloats, keep_nan_a_nan) {
  for (const std::uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xff800001u, 0xffffffffu, 0x7fffffffu}) {
    const TypeParam value(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(static_cast<float>(value))) << bits;
    EXPECT_EQ((value.bits & this->sign) != 0, bits >> 31 != 0) << bits;
  }
}

// Published bit patterns: IEEE 754-2008, 3.6, gives binary16 bias 15 and 10 stored bits.
TEST(Float16, has_the_familiar_constants) {
  EXPECT_EQ(Float16(1.0f).bits, 0x3c00u);
  EXPECT_EQ(Float16(-2.0f).bits, 0xc000u);
  EXPECT_EQ(Float16(65504.0f).bits, 0x7bffu);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7c00u);
  EXPECT_EQ(Float16(0x1p-24f).bits, 0x0001u);
}

TEST(Bfloat16, is_the_upper_half_of_a_float) {
  EXPECT_EQ(Bfloat16(1.0f).bits, 0x3f80u);
  EXPECT_EQ(Bfloat16(-2.0f).bits, 0xc000u);
  EXPECT_EQ(Bfloat16(0x1p-133f).bits, 0x0001u);
  EXPECT_EQ(Bfloat16(0x1p-127f).bits, 0x0040u);
}

// The bit patterns that NVIDIA's and OCP's documents give.
TEST(Float8, has_the_familiar_constants) {
  EXPECT_EQ(Float8E4m3(1.0f).bits, 0x38u);
  EXPECT_EQ(Float8E4m3(448.0f).bits, 0x7eu);
  EXPECT_EQ(Float8E4m3(0x1p-9f).bits, 0x01u);
  EXPECT_EQ(Float8E5m2(1.0f).bits, 0x3cu);
  EXPECT_EQ(Float8E5m2(57344.0f).bits, 0x7bu);
  EXPECT_EQ(Float8E5m2(0x1p-16f).bits, 0x01u);
}

TEST(DataTypes, have_the_sizes_of_their_names) {
  const std::vector<std::size_t> sizes{1, 1, 4, 4, 8, 8, 2, 2, 4, 8, 1, 1};
  for (std::size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(size_of(static_cast<DataType>(i)), sizes[i]) << i;
}

TEST(DataTypes, are_parsed_by_the_names_that_they_print) {
  ASSERT_EQ(data_type_names().size(), 12u);
  for (const std::string& name : data_type_names()) EXPECT_EQ(name_of(parse_data_type(name)), name);
  EXPECT_EQ(parse_data_type("bfloat16"), DataType::bfloat16);
  EXPECT_EQ(name_of(DataType::float64), "float64");
}

TEST(ReduceOps, are_parsed_by_the_names_that_they_print) {
  ASSERT_EQ(reduce_op_names().size(), 6u);
  for (const std::string& name : reduce_op_names()) EXPECT_EQ(name_of(parse_reduce_op(name)), name);
  EXPECT_EQ(parse_reduce_op("avg"), ReduceOp::avg);
}

TEST(DataTypes, refuse_unknown_names) {
  EXPECT_THROW(parse_data_type("float23"), UsageError);
  EXPECT_THROW(parse_data_type(""), UsageError);
  EXPECT_THROW(parse_data_type("Float32"), UsageError);
  EXPECT_THROW(parse_reduce_op("mean"), UsageError);
}

}  // namespace
}  // namespace p5
