// send_recv: a ring. Every rank sends its input to the next rank and gets that of the previous one.
#include "bench/collective.hpp"

namespace p5 {

namespace {

Shape shape(Bytes size, bool, std::size_t element, int) {
  const std::uint64_t count = (size.count + element - 1) / element;
  return {count, count, {count * element}, {count * element}};
}

double bus_factor(int) { return 1.0; }

int steps(int) { return 1; }

std::vector<Segment> result(const Shape& shape, Member member, std::string_view) {
  return {{0, shape.output_elements, previous_in_ring(member), 0}};
}

}  // namespace

const Collective send_recv{.name = "send_recv",
                           .summary = "a ring: every rank sends to the next and receives from the previous",
                           .route = Route::neighbours,
                           .patterns = {},
                           .shape = shape,
                           .bus_factor = bus_factor,
                           .steps = steps,
                           .result = result,
                           .in_place_offset = nullptr};

}  // namespace p5
