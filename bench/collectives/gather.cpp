// gather: the root gets the inputs of all ranks, in the order of the ranks.
#include "bench/collective.hpp"

namespace p5 {

namespace {

// The message is what the root gets.
Shape shape(Bytes size, bool per_rank, std::size_t element, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t share = per_rank ? size.count : (size.count + n - 1) / n;
  const std::uint64_t count = (share + element - 1) / element;
  return {count, count * n, {count * n * element}, {count * element}};
}

// The root has one of n parts already.
double bus_factor(int ranks) { return ranks > 1 ? static_cast<double>(ranks - 1) / ranks : 1.0; }

int steps(int ranks) { return ranks - 1; }

Block block(const Shape& shape, Member from, Member to) {
  if (to.rank != to.root) return {};
  return {shape.input_elements, 0, static_cast<std::uint64_t>(from.rank) * shape.input_elements};
}

std::vector<Segment> result(const Shape& shape, Member member, std::string_view) {
  return blocks_received(block, shape, member);
}

InPlaceOffset in_place_offset(const Shape& shape, Member member) {
  return {.input = static_cast<std::uint64_t>(member.rank) * shape.input_elements, .output = 0};
}

}  // namespace

const Collective gather{.name = "gather",
                        .summary = "the root gets the inputs of all ranks",
                        .rooted = true,
                        .route = Route::star,
                        .patterns = {},
                        .shape = shape,
                        .bus_factor = bus_factor,
                        .steps = steps,
                        .result = result,
                        .block = block,
                        .in_place_offset = in_place_offset};

}  // namespace p5
