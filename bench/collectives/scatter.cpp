// scatter: every rank gets its share of the root's input.
#include "bench/collective.hpp"

namespace p5 {

namespace {

// The message is the root's input.
Shape shape(Bytes size, bool per_rank, std::size_t element, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t share = per_rank ? size.count : (size.count + n - 1) / n;
  const std::uint64_t count = (share + element - 1) / element;
  return {count * n, count, {count * n * element}, {count * element}};
}

// One of n parts stays with the root.
double bus_factor(int ranks) { return ranks > 1 ? static_cast<double>(ranks - 1) / ranks : 1.0; }

int steps(int ranks) { return ranks - 1; }

std::uint64_t share_of(const Shape& shape, Member member) {
  return static_cast<std::uint64_t>(member.rank) * shape.output_elements;
}

Block block(const Shape& shape, Member from, Member to) {
  if (from.rank != from.root) return {};
  return {shape.output_elements, share_of(shape, to), 0};
}

std::vector<Segment> result(const Shape& shape, Member member, std::string_view) {
  return blocks_received(block, shape, member);
}

// The root's own share stays where it is; elsewhere the output lies as far into the buffer.
InPlaceOffset in_place_offset(const Shape& shape, Member member) {
  return {.input = 0, .output = share_of(shape, member)};
}

}  // namespace

const Collective scatter{.name = "scatter",
                         .summary = "every rank gets its share of the root's input",
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
