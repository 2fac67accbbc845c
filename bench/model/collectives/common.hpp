// What several collectives have in common, for their descriptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/model/collective.hpp"

namespace p5::common {

// --- shapes

// The message is the buffer of one rank.
inline Shape undivided(Bytes size, bool, std::size_t element, int) {
  const std::uint64_t count = (size.count + element - 1) / element;
  return {count, count, {count * element}, {count * element}};
}

// The ranks share the message: as many elements each, at least one.
inline std::uint64_t share(Bytes size, bool per_rank, std::size_t element, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  return ((per_rank ? size.count : (size.count + n - 1) / n) + element - 1) / element;
}

inline Shape shares_to_whole(Bytes size, bool per_rank, std::size_t element, int ranks) {
  const std::uint64_t count = share(size, per_rank, element, ranks), all = count * static_cast<std::uint64_t>(ranks);
  return {count, all, {all * element}, {count * element}};
}

inline Shape whole_to_shares(Bytes size, bool per_rank, std::size_t element, int ranks) {
  const std::uint64_t count = share(size, per_rank, element, ranks), all = count * static_cast<std::uint64_t>(ranks);
  return {all, count, {all * element}, {count * element}};
}

// Of as many shares as there are ranks on both sides.
inline Shape whole_to_whole(Bytes size, bool per_rank, std::size_t element, int ranks) {
  const std::uint64_t count = share(size, per_rank, element, ranks), all = count * static_cast<std::uint64_t>(ranks);
  return {all, all, {all * element}, {count * element}};
}

// --- bus factors

inline double once(int) { return 1.0; }

// One of n parts stays where it is.
inline double all_parts_but_one(int ranks) { return ranks > 1 ? static_cast<double>(ranks - 1) / ranks : 1.0; }

// --- steps

inline int one_step(int) { return 1; }
inline int as_many_as_others(int ranks) { return ranks - 1; }

// --- results

inline std::vector<Segment> inputs_of_all(const Shape& shape, Member member, std::string_view) {
  std::vector<Segment> segments;
  for (int rank = 0; rank < member.ranks; ++rank)
    segments.push_back({static_cast<std::uint64_t>(rank) * shape.input_elements, shape.input_elements, rank, 0});
  return segments;
}

// Of a collective that exchanges blocks.
template <Block (*block)(const Shape& shape, Member from, Member to)>
std::vector<Segment> blocks_received(const Shape& shape, Member member, std::string_view) {
  std::vector<Segment> segments;
  for (Member from{.rank = 0, .ranks = member.ranks, .root = member.root}; from.rank < member.ranks; ++from.rank) {
    const Block received = block(shape, from, member);
    if (received.elements > 0)
      segments.push_back({received.output_offset, received.elements, from.rank, received.input_offset});
  }
  return segments;
}

// --- in place

inline InPlaceOffset same_place(const Shape&, Member) { return {}; }

// The share of a rank lies where it belongs in the whole.
inline InPlaceOffset input_in_output(const Shape& shape, Member member) {
  return {.input = static_cast<std::uint64_t>(member.rank) * shape.input_elements, .output = 0};
}
inline InPlaceOffset output_in_input(const Shape& shape, Member member) {
  return {.input = 0, .output = static_cast<std::uint64_t>(member.rank) * shape.output_elements};
}

}  // namespace p5::common
