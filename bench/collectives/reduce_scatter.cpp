// reduce_scatter: the reduction over all ranks' inputs, of which each rank gets its share.
#include "bench/collective.hpp"

namespace p5 {

namespace {

// The message is the input of one rank; its share is the output.
Shape shape(Bytes size, bool per_rank, std::size_t element, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t share = per_rank ? size.count : (size.count + n - 1) / n;
  const std::uint64_t count = (share + element - 1) / element;
  return {count * n, count, {count * n * element}, {count * element}};
}

// Each rank sends (n-1)/n of its input.
double bus_factor(int ranks) { return ranks > 1 ? static_cast<double>(ranks - 1) / ranks : 1.0; }

int steps(int ranks) { return ranks - 1; }

std::uint64_t share_of(const Shape& shape, Member member) {
  return static_cast<std::uint64_t>(member.rank) * shape.output_elements;
}

std::vector<Segment> result(const Shape& shape, Member member, std::string_view) {
  return {{0, shape.output_elements, Segment::reduced, share_of(shape, member)}};
}

// The output replaces the rank's own share of the input.
InPlaceOffset in_place_offset(const Shape& shape, Member member) {
  return {.input = 0, .output = share_of(shape, member)};
}

}  // namespace

const Collective reduce_scatter{.name = "reduce_scatter",
                                .summary = "every rank gets its share of the reduction over all ranks",
                                .reduces = true,
                                .patterns = {},
                                .shape = shape,
                                .bus_factor = bus_factor,
                                .steps = steps,
                                .result = result,
                                .in_place_offset = in_place_offset};

}  // namespace p5
