// broadcast: every rank gets the root's input, out of place the root too.
#include "bench/collective.hpp"

namespace p5 {

namespace {

Shape shape(Bytes size, bool, std::size_t element, int) {
  const std::uint64_t count = (size.count + element - 1) / element;
  return {count, count, {count * element}, {count * element}};
}

// The root sends the message once at least, each other rank receives it once.
double bus_factor(int) { return 1.0; }

int steps(int ranks) { return ranks - 1; }

std::vector<Segment> result(const Shape& shape, Member member, std::string_view) {
  return {{0, shape.output_elements, member.root, 0}};
}

InPlaceOffset in_place_offset(const Shape&, Member) { return {}; }

}  // namespace

const Collective broadcast{.name = "broadcast",
                           .summary = "every rank gets the input of the root",
                           .rooted = true,
                           .patterns = {},
                           .shape = shape,
                           .bus_factor = bus_factor,
                           .steps = steps,
                           .result = result,
                           .in_place_offset = in_place_offset};

}  // namespace p5
