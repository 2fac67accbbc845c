// Inputs and expected results of collectives, in closed form: the expected value of an element costs the same for 2
// ranks as for 4096. Inputs are chosen so that the result is exact in any order of the reduction; only the
// floating-point average may be off, by 2 units in the last place, because an implementation may scale each input
// before it adds. All functions are constexpr, so that host and device compute the same bits.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "bench/model/data_type.hpp"

namespace p5 {

// Data of one buffer slot, on all ranks of a group.
struct Pattern {
  std::uint64_t seed = 0;  // differs between slots and between fills, so that stale data is wrong data
  int ranks = 1;           // group size
  bool reduces = false;    // false: inputs are copied, any finite value is valid
  ReduceOp op = ReduceOp::sum;
  int terms = 1;  // of inputs that are copied: as many as a result may add up
};

// The factor of a rank in a ReduceOp::mulsum, as in nccl-tests: 1 at even and 2 at odd ranks of the group.
constexpr int mulsum_factor(int rank) { return 1 + rank % 2; }

namespace pattern {

// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) over a mix of the three coordinates.
constexpr std::uint64_t hash(std::uint64_t seed, std::uint64_t rank, std::uint64_t index) {
  std::uint64_t x = seed + index * 0x9e3779b97f4a7c15u + (rank + 1) * 0xd1b54a32d192ed03u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A coordinate of no rank, for numbers that all ranks share.
inline constexpr std::uint64_t shared = ~std::uint64_t{0} - 1;

template <class T>
inline constexpr bool is_floating = std::is_floating_point_v<T> || is_small_float<T>;

// value * 2^exponent; exact for |value| <= 2^precision and the small exponents used here.
template <class T>
constexpr T scaled(std::int64_t value, int exponent) {
  const double factor = std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
  const double exact = static_cast<double>(value) * factor;
  if constexpr (std::is_same_v<T, double>)
    return exact;
  else
    return T(static_cast<float>(exact));
}

// Exponent of an element, shared by all ranks: -2 to 2, within float16 for all values below 2^13 and within float8_e4m3
// for all up to 2^6.
constexpr int shared_exponent(const Pattern& p, std::uint64_t index) {
  return static_cast<int>(hash(p.seed, shared, ~index) % 5) - 2;
}

constexpr int previous(int rank, int ranks) { return rank == 0 ? ranks - 1 : rank - 1; }
constexpr int winner(const Pattern& p, std::uint64_t index) {
  return static_cast<int>(index % static_cast<std::uint64_t>(p.ranks));
}
constexpr std::int64_t between(std::uint64_t random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random % static_cast<std::uint64_t>(high - low + 1));
}

// --- copies: any finite value; of those that a result adds up, integers so small that each sum is exact

template <class T>
constexpr T copied(const Pattern& p, int rank, std::uint64_t index) {
  const std::uint64_t random = hash(p.seed, static_cast<std::uint64_t>(rank), index);
  if constexpr (is_floating<T>) {
    if (p.terms > 1) {
      const std::int64_t part = (std::int64_t{1} << precision<T>) / p.terms;
      return scaled<T>(between(random, -part, part), 0);
    }
    const std::int64_t bound = (std::int64_t{1} << precision<T>)-1;
    return scaled<T>(between(random, -bound, bound), static_cast<int>(random >> 61) - 4);
  } else {
    return static_cast<T>(random);
  }
}

// Integers wrap around; the sum of a small type is that of its float values.
template <class T>
constexpr T added(T a, T b) {
  if constexpr (is_small_float<T>)
    return T(static_cast<float>(a) + static_cast<float>(b));
  else if constexpr (is_floating<T>)
    return a + b;
  else
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

// --- sum and mulsum: rank r contributes d(r) - d(r-1), which cancels around the ring; one rank, the winner, adds the
// total. The input of a mulsum is the contribution divided by the rank's factor, so its result is that of the sum.

// Floating point: the magnitudes of all inputs of an element add up to at most 2^precision, so every partial sum in any
// order is an exact integer. With many ranks and few bits only each `stride`-th d is non-zero.
template <class T>
struct SumBounds {
  std::int64_t stride, step, total;
  constexpr explicit SumBounds(int ranks) {
    const std::int64_t half = std::int64_t{1} << (precision<T> - 1);
    stride = (ranks + half / 2 - 1) / (half / 2);
    step = half / (2 * ((ranks + stride - 1) / stride));
    total = half;
  }
};

constexpr bool is_halved(const Pattern& p, int rank) { return p.op == ReduceOp::mulsum && mulsum_factor(rank) == 2; }

// Integers, d(r): at a rank with a factor of 2 the difference to the rank before it is even.
constexpr std::uint64_t sum_word(const Pattern& p, int rank, std::uint64_t index) {
  const std::uint64_t own = hash(p.seed, static_cast<std::uint64_t>(rank), index);
  if (!is_halved(p, rank)) return own;
  return (own & ~std::uint64_t{1}) | (hash(p.seed, static_cast<std::uint64_t>(rank - 1), index) & 1);
}

constexpr std::uint64_t sum_total_word(const Pattern& p, std::uint64_t index) {
  const std::uint64_t total = hash(p.seed, shared, index);
  return is_halved(p, winner(p, index)) ? total & ~std::uint64_t{1} : total;
}

template <class T>
constexpr std::int64_t sum_step(const Pattern& p, const SumBounds<T>& bounds, int rank, std::uint64_t index) {
  const std::uint64_t random = hash(p.seed, static_cast<std::uint64_t>(rank), index);
  if (bounds.stride > 1 && (static_cast<std::uint64_t>(rank) + index) % static_cast<std::uint64_t>(bounds.stride) != 0)
    return 0;
  return between(random, 0, bounds.step);
}

template <class T>
constexpr std::int64_t sum_total(const Pattern& p, const SumBounds<T>& bounds, std::uint64_t index) {
  return between(hash(p.seed, shared, index), -bounds.total, bounds.total);
}

template <class T>
constexpr T sum_input(const Pattern& p, int rank, std::uint64_t index) {
  if constexpr (is_floating<T>) {
    const SumBounds<T> bounds(p.ranks);
    std::int64_t value = sum_step(p, bounds, rank, index) - sum_step(p, bounds, previous(rank, p.ranks), index);
    if (rank == winner(p, index)) value += sum_total(p, bounds, index);
    return scaled<T>(value, shared_exponent(p, index) - (is_halved(p, rank) ? 1 : 0));
  } else {  // modulo 2^width
    std::uint64_t value = sum_word(p, rank, index) - sum_word(p, previous(rank, p.ranks), index);
    if (rank == winner(p, index)) value += sum_total_word(p, index);
    return static_cast<T>(is_halved(p, rank) ? value >> 1 : value);
  }
}

template <class T>
constexpr T sum_result(const Pattern& p, std::uint64_t index) {
  if constexpr (is_floating<T>) {
    return scaled<T>(sum_total(p, SumBounds<T>(p.ranks), index), shared_exponent(p, index));
  } else {
    return static_cast<T>(sum_total_word(p, index));
  }
}

// --- prod: unit factors that cancel around the ring, and the product at the winner.

// Inverse of an odd number modulo 2^64 by Newton's iteration: each step doubles the number of correct bits.
constexpr std::uint64_t inverse(std::uint64_t odd) {
  std::uint64_t x = (3 * odd) ^ 2;
  for (int bits = 5; bits < 64; bits *= 2) x *= 2 - odd * x;
  return x;
}

constexpr std::uint64_t prod_unit(const Pattern& p, int rank, std::uint64_t index) {
  return hash(p.seed, static_cast<std::uint64_t>(rank), index) | 1;
}

constexpr std::uint64_t prod_shared(const Pattern& p, std::uint64_t index) { return hash(p.seed, shared, index) | 1; }

template <class T>
constexpr std::int64_t prod_total(const Pattern& p, std::uint64_t index) {
  const std::int64_t bound = (std::int64_t{1} << precision<T>)-1;
  const std::int64_t magnitude = between(hash(p.seed, shared, index), 1, bound);
  return hash(p.seed, shared, ~index) & 1 ? -magnitude : magnitude;
}

// Floating point: factors are +-1, except for the winner's integer * 2^e and its neighbour's 2^-e; products stay exact
// and within float16 in any order. e is -2 to 2.
template <class T>
constexpr T prod_input(const Pattern& p, int rank, std::uint64_t index) {
  if constexpr (is_floating<T>) {
    const bool negative = (prod_unit(p, rank, index) ^ prod_unit(p, previous(rank, p.ranks), index)) & 2;
    const int e = p.ranks > 1 ? shared_exponent(p, index) : 0;
    const int first = winner(p, index);
    if (rank == first) return scaled<T>(negative ? -prod_total<T>(p, index) : prod_total<T>(p, index), e);
    return scaled<T>(negative ? -1 : 1, previous(rank, p.ranks) == first ? -e : 0);
  } else {
    std::uint64_t value = prod_unit(p, rank, index) * inverse(prod_unit(p, previous(rank, p.ranks), index));
    if (rank == winner(p, index)) value *= prod_shared(p, index);
    return static_cast<T>(value);
  }
}

template <class T>
constexpr T prod_result(const Pattern& p, std::uint64_t index) {
  if constexpr (is_floating<T>)
    return scaled<T>(prod_total<T>(p, index), 0);
  else
    return static_cast<T>(prod_shared(p, index));
}

// --- min and max: the winner has the extreme value, every other rank a value beyond it by its own gap.

template <class T>
inline constexpr std::int64_t extreme_span =
    std::int64_t{1} << (is_floating<T> ? (precision<T> - 2 < 40 ? precision<T> - 2 : 40)
                                       : (sizeof(T) * 8 - 3 < 40 ? sizeof(T) * 8 - 3 : 40));

template <class T>
constexpr std::int64_t extreme_value(const Pattern& p, std::uint64_t index) {
  return between(hash(p.seed, shared, index), -extreme_span<T>, extreme_span<T>);
}

// Unsigned values lie around half the range, where a signed comparison is wrong.
template <class T>
constexpr T extreme_from(const Pattern& p, std::int64_t value, std::uint64_t index) {
  if constexpr (is_floating<T>)
    return scaled<T>(value, shared_exponent(p, index));
  else if constexpr (std::is_unsigned_v<T>)
    return static_cast<T>(static_cast<std::uint64_t>(value) + (std::uint64_t{1} << (sizeof(T) * 8 - 1)));
  else
    return static_cast<T>(value);
}

template <class T>
constexpr T extreme_input(const Pattern& p, int rank, std::uint64_t index) {
  const std::int64_t value = extreme_value<T>(p, index);
  if (rank == winner(p, index)) return extreme_from<T>(p, value, index);
  const std::int64_t gap = between(hash(p.seed, static_cast<std::uint64_t>(rank), index), 1, extreme_span<T> - 1);
  return extreme_from<T>(p, p.op == ReduceOp::min ? value + gap : value - gap, index);
}

template <class T>
constexpr T extreme_result(const Pattern& p, std::uint64_t index) {
  return extreme_from<T>(p, extreme_value<T>(p, index), index);
}

// --- avg: two ranks contribute values of one sign, the others zero; the sum neither cancels nor overflows. The average
// of 8-bit integers over more than 126 ranks is always 0: there only a non-zero result is detected as wrong.

template <class T>
inline constexpr std::int64_t avg_bound = is_floating<T>
                                              ? (std::int64_t{1} << (precision<T> - 1)) - 1
                                              : (std::int64_t{1} << (sizeof(T) < 8 ? sizeof(T) * 8 - 2 : 52)) - 1;

constexpr int second_of_two(const Pattern& p, std::uint64_t index) {
  if (p.ranks == 1) return -1;
  const auto ranks = static_cast<std::uint64_t>(p.ranks);
  return static_cast<int>((index % ranks + 1 + (index / ranks) % (ranks - 1)) % ranks);
}

template <class T>
constexpr std::int64_t avg_value(const Pattern& p, int which, std::uint64_t index) {
  return between(hash(p.seed, shared - 1 - static_cast<std::uint64_t>(which), index), 1, avg_bound<T>);
}

template <class T>
constexpr bool avg_negative(const Pattern& p, std::uint64_t index) {
  return is_floating<T> && (hash(p.seed, shared, index) & 1);
}

template <class T>
constexpr T avg_from(const Pattern& p, std::int64_t value, std::uint64_t index) {
  if constexpr (is_floating<T>)
    return scaled<T>(avg_negative<T>(p, index) ? -value : value, shared_exponent(p, index));
  else
    return static_cast<T>(value);
}

template <class T>
constexpr T avg_input(const Pattern& p, int rank, std::uint64_t index) {
  if (rank == winner(p, index)) return avg_from<T>(p, avg_value<T>(p, 0, index), index);
  if (rank == second_of_two(p, index)) return avg_from<T>(p, avg_value<T>(p, 1, index), index);
  return avg_from<T>(p, 0, index);
}

template <class T>
constexpr T avg_result(const Pattern& p, std::uint64_t index) {
  const std::int64_t sum = avg_value<T>(p, 0, index) + (p.ranks > 1 ? avg_value<T>(p, 1, index) : 0);
  if constexpr (is_floating<T>) {
    const double exact = scaled<double>(avg_negative<T>(p, index) ? -sum : sum, shared_exponent(p, index)) / p.ranks;
    if constexpr (std::is_same_v<T, double>)
      return exact;
    else
      return T(static_cast<float>(exact));
  } else {
    return static_cast<T>(sum / p.ranks);
  }
}

}  // namespace pattern

// Element `index` of rank `rank`'s input; ranks count within the group.
template <class T>
constexpr T input_element(const Pattern& p, int rank, std::uint64_t index) {
  if (!p.reduces) return pattern::copied<T>(p, rank, index);
  switch (p.op) {
    case ReduceOp::sum:
    case ReduceOp::mulsum:
      return pattern::sum_input<T>(p, rank, index);
    case ReduceOp::prod:
      return pattern::prod_input<T>(p, rank, index);
    case ReduceOp::avg:
      return pattern::avg_input<T>(p, rank, index);
    case ReduceOp::min:
    case ReduceOp::max:
      break;
  }
  return pattern::extreme_input<T>(p, rank, index);
}

// The reduction of all ranks' elements at `index`.
template <class T>
constexpr T reduced_element(const Pattern& p, std::uint64_t index) {
  switch (p.op) {
    case ReduceOp::sum:
    case ReduceOp::mulsum:
      return pattern::sum_result<T>(p, index);
    case ReduceOp::prod:
      return pattern::prod_result<T>(p, index);
    case ReduceOp::avg:
      return pattern::avg_result<T>(p, index);
    case ReduceOp::min:
    case ReduceOp::max:
      break;
  }
  return pattern::extreme_result<T>(p, index);
}

// Largest group whose average can be verified: beyond it 1/ranks, by which implementations multiply, is no normal
// number of the type.
constexpr int most_ranks_of_average(DataType type) {
  return with_type(type, []<class T>() {
    if constexpr (is_small_float<T>)
      return T::bias > 30 ? 1 << 30 : 1 << (T::bias - 1);
    else
      return 1 << 30;
  });
}

// Number of representable values between a and b: 0 for the same bits; +0 and -0 differ by 1.
template <class T>
constexpr std::uint64_t distance_in_units(T a, T b) {
  if constexpr (pattern::is_floating<T>) {
    using Word = std::conditional_t<sizeof(T) == 8, std::int64_t,
                                    std::conditional_t<sizeof(T) == 4, std::int32_t,
                                                       std::conditional_t<sizeof(T) == 2, std::int16_t, std::int8_t>>>;
    const auto ordered = [](T value) {  // monotone in the value
      const auto word = static_cast<std::int64_t>(std::bit_cast<Word>(value));
      return word < 0 ? static_cast<std::int64_t>(std::numeric_limits<Word>::min()) - word - 1 : word;
    };
    const std::int64_t x = ordered(a), y = ordered(b);
    return x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
                 : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x);
  } else {
    return a == b ? 0 : 1;
  }
}

// Units in the last place by which a correct result may be off.
template <class T>
constexpr std::uint64_t tolerance(const Pattern& p) {
  return p.reduces && p.op == ReduceOp::avg && pattern::is_floating<T> ? 2 : 0;
}

}  // namespace p5
