// send_recv: a ring. Every rank sends its input to the next rank and gets that of the previous one.
#include "bench/model/collectives/common.hpp"

namespace p5 {

namespace {

std::vector<Segment> result(const Shape& shape, Member member, std::string_view) {
  return {{0, shape.output_elements, previous_in_ring(member), 0}};
}

}  // namespace

const Collective send_recv{.name = "send_recv",
                           .summary = "a ring: every rank sends to the next and receives from the previous",
                           .route = Route::neighbours,
                           .patterns = {},
                           .shape = common::undivided,
                           .bus_factor = common::once,
                           .steps = common::one_step,
                           .result = result,
                           .in_place_offset = nullptr};

}  // namespace p5
