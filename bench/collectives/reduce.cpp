// reduce: the root gets the reduction over all ranks' inputs; the others get nothing.
#include "bench/collective.hpp"

namespace p5 {

namespace {

Shape shape(Bytes size, bool, std::size_t element, int) {
  const std::uint64_t count = (size.count + element - 1) / element;
  return {count, count, {count * element}, {count * element}};
}

// The root receives the message once at least, each other rank sends it once.
double bus_factor(int) { return 1.0; }

int steps(int ranks) { return ranks - 1; }

std::vector<Segment> result(const Shape& shape, Member member, std::string_view) {
  if (member.rank != member.root) return {};
  return {{0, shape.output_elements, Segment::reduced, 0}};
}

InPlaceOffset in_place_offset(const Shape&, Member) { return {}; }

}  // namespace

const Collective reduce{.name = "reduce",
                        .summary = "the root gets the reduction over all ranks",
                        .reduces = true,
                        .rooted = true,
                        .patterns = {},
                        .shape = shape,
                        .bus_factor = bus_factor,
                        .steps = steps,
                        .result = result,
                        .in_place_offset = in_place_offset};

}  // namespace p5
