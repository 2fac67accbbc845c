// The closed-form results of collectives against reductions that are carried out in the same type and in many orders.
#include "bench/model/pattern.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace p5 {
namespace {

using pattern::is_floating;

constexpr std::array all_ops{ReduceOp::sum, ReduceOp::prod, ReduceOp::min,
                             ReduceOp::max, ReduceOp::avg,  ReduceOp::mulsum};
constexpr std::array group_sizes{1, 2, 3, 4, 7, 8, 129, 300, 4096};

Pattern reducing(ReduceOp op, int ranks, std::uint64_t seed = 42) {
  return {.seed = seed, .ranks = ranks, .reduces = true, .op = op};
}

// Small, large, and beyond 2^32; fewer elements for larger groups.
std::vector<std::uint64_t> some_indices(int ranks) {
  std::vector<std::uint64_t> indices{(std::uint64_t{1} << 33) + 5, (std::uint64_t{1} << 40) - 1};
  const std::uint64_t count = ranks <= 8 ? 500 : ranks <= 300 ? 60 : 6;
  for (std::uint64_t index = 0; index < count; ++index) indices.push_back(index * (ranks > 300 ? 701 : 1));
  return indices;
}

// Arithmetic in T and nothing wider: floats are rounded after each step, integers wrap.
template <class T>
auto calculate(T a, T b, auto operation) {
  if constexpr (is_small_float<T>) {
    return T(operation(static_cast<float>(a), static_cast<float>(b)));
  } else if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(operation(static_cast<Unsigned>(a), static_cast<Unsigned>(b)));
  } else {
    return operation(a, b);
  }
}

template <class T>
bool less(T a, T b) {
  if constexpr (std::is_arithmetic_v<T>)
    return a < b;
  else
    return static_cast<float>(a) < static_cast<float>(b);
}

template <class T>
T combined_value(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::prod:
      return calculate(a, b, std::multiplies<>());
    case ReduceOp::min:
      return less(b, a) ? b : a;
    case ReduceOp::max:
      return less(a, b) ? b : a;
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::mulsum:
      break;
  }
  return calculate(a, b, std::plus<>());
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(value);
  else
    return T(static_cast<float>(value));
}

template <class T>
DataType type_of() {
  for (int type = 0;; ++type)
    if (with_type(static_cast<DataType>(type), []<class U>() { return std::is_same_v<T, U>; }))
      return static_cast<DataType>(type);
}

template <class T>
T divided(T sum, int ranks) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::int64_t>(sum) / ranks);
  else
    return calculate(sum, from_double<T>(ranks), std::divides<>());
}

template <class T>
T fold(ReduceOp op, const std::vector<T>& inputs) {
  T result = inputs.front();
  for (std::size_t i = 1; i < inputs.size(); ++i) result = combined_value(op, result, inputs[i]);
  return op == ReduceOp::avg ? divided(result, static_cast<int>(inputs.size())) : result;
}

template <class T>
T fold_as_tree(ReduceOp op, std::vector<T> inputs) {
  const auto ranks = static_cast<int>(inputs.size());
  while (inputs.size() > 1) {
    const std::size_t half = (inputs.size() + 1) / 2;
    for (std::size_t i = 0; i + half < inputs.size(); ++i) inputs[i] = combined_value(op, inputs[i], inputs[i + half]);
    inputs.resize(half);
  }
  return op == ReduceOp::avg ? divided(inputs.front(), ranks) : inputs.front();
}

// An average that scales each input by a rounded 1/ranks before it adds.
template <class T>
T scale_then_add(std::vector<T> inputs) {
  const T factor = from_double<T>(1.0 / static_cast<double>(inputs.size()));
  for (T& input : inputs) input = calculate(input, factor, std::multiplies<>());
  return fold(ReduceOp::sum, inputs);
}

// Inputs as a reduction adds or compares them: those of a mulsum times the factors of their ranks.
template <class T>
std::vector<T> inputs_of(const Pattern& p, std::uint64_t index) {
  std::vector<T> inputs;
  for (int rank = 0; rank < p.ranks; ++rank) {
    inputs.push_back(input_element<T>(p, rank, index));
    if (p.op == ReduceOp::mulsum)
      inputs.back() = calculate(inputs.back(), from_double<T>(mulsum_factor(rank)), std::multiplies<>());
  }
  return inputs;
}

template <class T>
bool finite(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return std::isfinite(static_cast<double>(value));
  else
    return std::isfinite(static_cast<float>(value));
}

template <class T>
bool same_bits(T a, T b) {
  return distance_in_units(a, b) == 0;
}

template <class T>
class PatternTest : public testing::Test {};
using AllTypes = testing::Types<std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t,
                                Float16, Bfloat16, Float8E4m3, Float8E5m2, float, double>;
TYPED_TEST_SUITE(PatternTest, AllTypes);

TYPED_TEST(PatternTest, is_exact_in_any_order_of_reduction) {
  using T = TypeParam;
  std::mt19937_64 random(7);
  for (const ReduceOp op : all_ops) {
    for (const int ranks : group_sizes) {
      if (op == ReduceOp::avg && ranks > most_ranks_of_average(type_of<T>())) continue;
      const Pattern p = reducing(op, ranks);
      const std::uint64_t allowed = tolerance<T>(p);
      for (const std::uint64_t index : some_indices(ranks)) {
        auto inputs = inputs_of<T>(p, index);
        const T wanted = reduced_element<T>(p, index);
        ASSERT_TRUE(finite(wanted));
        ASSERT_LE(distance_in_units(fold(op, inputs), wanted), allowed) << name_of(op) << " " << ranks << " " << index;
        for (int order = 0; order < 4; ++order) {
          std::ranges::shuffle(inputs, random);
          ASSERT_LE(distance_in_units(fold(op, inputs), wanted), allowed)
              << name_of(op) << " " << ranks << " " << index;
          ASSERT_LE(distance_in_units(fold_as_tree(op, inputs), wanted), allowed)
              << name_of(op) << " " << ranks << " " << index;
        }
      }
    }
  }
}

TYPED_TEST(PatternTest, is_exact_in_any_order_for_every_group_size_up_to_70) {
  using T = TypeParam;
  std::mt19937_64 random(8);
  for (const ReduceOp op : all_ops) {
    for (int ranks = 1; ranks <= 70; ++ranks) {
      const Pattern p = reducing(op, ranks, 43);
      for (std::uint64_t index = 0; index < 80; ++index) {
        auto inputs = inputs_of<T>(p, index);
        std::ranges::shuffle(inputs, random);
        ASSERT_LE(distance_in_units(fold(op, inputs), reduced_element<T>(p, index)), tolerance<T>(p))
            << name_of(op) << " " << ranks << " " << index;
      }
    }
  }
}

// Random draws seldom approach the worst case, so the bound itself is checked: magnitudes of an element's inputs.
TYPED_TEST(PatternTest, never_sums_beyond_what_the_type_holds_exactly) {
  using T = TypeParam;
  if constexpr (is_floating<T>) {
    for (int ranks = 1; ranks <= 5000; ++ranks) {
      const pattern::SumBounds<T> bounds(ranks);
      const std::int64_t non_zero = (ranks + bounds.stride - 1) / bounds.stride;
      ASSERT_GE(bounds.step, 1) << ranks;
      ASSERT_LE(2 * non_zero * bounds.step + bounds.total, std::int64_t{1} << precision<T>) << ranks;
    }
  } else {
    EXPECT_EQ(tolerance<T>(reducing(ReduceOp::sum, 5000)), 0u);  // integers wrap in the same way in any order
  }
}

TYPED_TEST(PatternTest, averages_within_two_units_when_inputs_are_scaled_first) {
  using T = TypeParam;
  if constexpr (is_floating<T>) {
    std::mt19937_64 random(9);
    std::vector<int> sizes{group_sizes.begin(), group_sizes.end()};
    for (int ranks = 5; ranks < 100; ranks += 2) sizes.push_back(ranks);
    for (const int ranks : sizes) {
      if (ranks > most_ranks_of_average(type_of<T>())) continue;
      const Pattern p = reducing(ReduceOp::avg, ranks);
      for (const std::uint64_t index : some_indices(ranks)) {
        auto inputs = inputs_of<T>(p, index);
        std::ranges::shuffle(inputs, random);
        ASSERT_LE(distance_in_units(scale_then_add(inputs), reduced_element<T>(p, index)), 2u) << ranks << " " << index;
      }
    }
  } else {
    EXPECT_EQ(tolerance<T>(reducing(ReduceOp::avg, 3)), 0u);
  }
}

TYPED_TEST(PatternTest, has_finite_inputs_only) {
  using T = TypeParam;
  for (const int ranks : {1, 2, 8, 300, 4096}) {
    for (std::uint64_t index = 0; index < 2000; ++index) {
      const int rank = static_cast<int>(index * 7 % static_cast<std::uint64_t>(ranks));
      for (const ReduceOp op : all_ops) ASSERT_TRUE(finite(input_element<T>(reducing(op, ranks), rank, index)));
      ASSERT_TRUE(finite(input_element<T>({.seed = 1, .ranks = ranks}, rank, index)));
    }
  }
}

// Reduction of all inputs except one, divided by the number of all ranks for averages: the result when a rank is
// missing.
template <class T>
T without(const Pattern& p, int left_out, std::uint64_t index) {
  auto inputs = inputs_of<T>(p, index);
  inputs.erase(inputs.begin() + left_out);
  const T folded = fold(p.op == ReduceOp::avg ? ReduceOp::sum : p.op, inputs);
  return p.op == ReduceOp::avg ? divided(folded, p.ranks) : folded;
}

// The search starts at the element with the rank's own number, where the rank is the first winner.
template <class T>
bool matters(const Pattern& p, int rank) {
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const std::uint64_t index = (static_cast<std::uint64_t>(rank) + i) % 5000;
    if (distance_in_units(without<T>(p, rank, index), reduced_element<T>(p, index)) > tolerance<T>(p)) return true;
  }
  return false;
}

TYPED_TEST(PatternTest, shows_when_any_rank_is_left_out) {
  using T = TypeParam;
  for (const ReduceOp op : all_ops) {
    for (const int ranks : {2, 3, 4, 7, 8, 129, 300, 4096}) {
      // 8-bit sums are below 128: their average over so many ranks is 0 for any inputs.
      if (op == ReduceOp::avg && std::is_integral_v<T> && sizeof(T) == 1 && ranks > 126) continue;
      const Pattern p = reducing(op, ranks);
      // By day a few of many ranks, with the first and the last of the most.
      const bool nightly = std::getenv("P5BENCH_NIGHTLY") != nullptr;
      for (int rank = 0; rank<ranks; rank += ranks> 300 ? (nightly ? 819 : 4095) : ranks > 8 && !nightly ? 64 : 1)
        EXPECT_TRUE(matters<T>(p, rank)) << name_of(op) << " " << ranks << " " << rank;
    }
  }
}

TYPED_TEST(PatternTest, shows_when_a_rank_does_not_multiply) {
  using T = TypeParam;
  for (const int ranks : {2, 3, 8, 129, 300}) {
    const Pattern p = reducing(ReduceOp::mulsum, ranks);
    for (int rank = 1; rank < ranks; rank += 2) {
      bool shown = false;
      for (std::uint64_t index = 0; index < 5000 && !shown; ++index) {
        auto inputs = inputs_of<T>(p, (static_cast<std::uint64_t>(rank) + index) % 5000);
        inputs[static_cast<std::size_t>(rank)] =
            input_element<T>(p, rank, (static_cast<std::uint64_t>(rank) + index) % 5000);
        shown =
            !same_bits(fold(p.op, inputs), reduced_element<T>(p, (static_cast<std::uint64_t>(rank) + index) % 5000));
      }
      EXPECT_TRUE(shown) << ranks << " " << rank;
    }
  }
}

TYPED_TEST(PatternTest, shows_when_a_rank_is_counted_twice) {
  using T = TypeParam;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::mulsum}) {
    const Pattern p = reducing(op, 8);
    for (int rank = 0; rank < p.ranks; ++rank) {
      int shown = 0;
      for (std::uint64_t index = 0; index < 1000; ++index) {
        const T right = reduced_element<T>(p, index);
        shown += !same_bits(combined_value(op, right, input_element<T>(p, rank, index)), right);
      }
      EXPECT_GT(shown, 100) << name_of(op) << " " << rank;
    }
  }
}

// Share of the first elements at which two runs of values agree.
template <class T>
double agreement(auto one, auto other) {
  constexpr int count = 4000;
  int equal = 0;
  for (std::uint64_t index = 0; index < count; ++index) equal += same_bits<T>(one(index), other(index));
  return equal / static_cast<double>(count);
}

TYPED_TEST(PatternTest, copies_differ_between_ranks_slots_and_indices) {
  using T = TypeParam;
  const double by_chance = std::is_same_v<T, Float8E5m2> ? 0.03 : 0.02;  // it has few values
  const auto values = [](std::uint64_t seed, int rank, std::uint64_t shift) {
    return [=](std::uint64_t index) { return input_element<T>({.seed = seed, .ranks = 8}, rank, index + shift); };
  };
  const auto mine = values(5, 3, 0);
  for (int rank = 0; rank < 8; ++rank) {
    if (rank != 3) {
      EXPECT_LT(agreement<T>(mine, values(5, rank, 0)), by_chance) << rank;
    }
  }
  for (const std::uint64_t seed : {0u, 4u, 6u, 7u, 1000u})
    EXPECT_LT(agreement<T>(mine, values(seed, 3, 0)), by_chance) << seed;
  for (const std::uint64_t shift : {1u, 2u, 3u, 16u, 64u, 1024u, 4096u})
    EXPECT_LT(agreement<T>(mine, values(5, 3, shift)), by_chance) << shift;
}

TYPED_TEST(PatternTest, results_differ_between_slots_and_indices) {
  using T = TypeParam;
  const double by_chance = std::is_same_v<T, Float8E5m2> ? 0.12 : 0.1;
  for (const ReduceOp op : all_ops) {
    const auto results = [op](std::uint64_t seed, std::uint64_t shift) {
      return [=](std::uint64_t index) { return reduced_element<T>(reducing(op, 4, seed), index + shift); };
    };
    for (const std::uint64_t seed : {0u, 4u, 6u, 1000u})
      EXPECT_LT(agreement<T>(results(5, 0), results(seed, 0)), by_chance) << name_of(op);
    for (const std::uint64_t shift : {1u, 4u, 64u})
      EXPECT_LT(agreement<T>(results(5, 0), results(5, shift)), by_chance) << name_of(op);
  }
}

TYPED_TEST(PatternTest, is_usable_at_compile_time) {
  using T = TypeParam;
  constexpr T input = input_element<T>(Pattern{.seed = 1, .ranks = 1, .reduces = true}, 0, 9);
  constexpr T result = reduced_element<T>(Pattern{.seed = 1, .ranks = 1, .reduces = true}, 9);
  static_assert(distance_in_units(input, result) == 0);
  EXPECT_TRUE(same_bits(input, result));
}

TEST(DistanceInUnits, counts_representable_values_across_zero_and_sign) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(distance_in_units(1.0f, 1.0f), 0u);
  EXPECT_EQ(distance_in_units(1.0f, std::nextafter(1.0f, 2.0f)), 1u);
  EXPECT_EQ(distance_in_units(2.0f, std::nextafter(2.0f, 0.0f)), 1u);
  EXPECT_EQ(distance_in_units(-1.0f, std::nextafter(-1.0f, -2.0f)), 1u);
  EXPECT_EQ(distance_in_units(0.0f, -0.0f), 1u);
  EXPECT_EQ(distance_in_units(0.0f, tiny), 1u);
  EXPECT_EQ(distance_in_units(-0.0f, -tiny), 1u);
  EXPECT_EQ(distance_in_units(tiny, -tiny), 3u);
  EXPECT_EQ(distance_in_units(1.0, 1.0 + 4 * std::numeric_limits<double>::epsilon()), 4u);
  EXPECT_EQ(distance_in_units(Float16(1.0f), Float16(1.0f + 3.0f / 1024)), 3u);
  EXPECT_EQ(distance_in_units(Bfloat16(-1.0f), Bfloat16(-1.0f - 2.0f / 128)), 2u);
}

TEST(DistanceInUnits, does_not_overflow_and_keeps_nan_far_from_numbers) {
  constexpr double huge = std::numeric_limits<double>::max();
  EXPECT_EQ(distance_in_units(huge, -huge), 2 * std::bit_cast<std::uint64_t>(huge) + 1);
  EXPECT_EQ(distance_in_units(-huge, huge), distance_in_units(huge, -huge));
  const auto ones = std::bit_cast<double>(~std::uint64_t{0});
  EXPECT_GT(distance_in_units(ones, 1.0), 1000u);
  EXPECT_GT(distance_in_units(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::max()), 1000u);
}

TEST(DistanceInUnits, of_integers_is_equal_or_not) {
  EXPECT_EQ(distance_in_units(5, 5), 0u);
  EXPECT_EQ(distance_in_units(5, 500), 1u);
}

}  // namespace
}  // namespace p5
