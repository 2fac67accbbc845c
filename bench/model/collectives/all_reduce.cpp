// all_reduce: every rank gets the reduction over all ranks' inputs.
#include "bench/model/collectives/common.hpp"

namespace p5 {

namespace {

// Each rank sends and receives 2(n-1)/n of the message at least.
double bus_factor(int ranks) { return ranks > 1 ? 2.0 * (ranks - 1) / ranks : 1.0; }

int steps(int ranks) { return 2 * (ranks - 1); }

std::vector<Segment> result(const Shape& shape, Member, std::string_view) {
  return {{0, shape.output_elements, Segment::reduced, 0}};
}

}  // namespace

const Collective all_reduce{.name = "all_reduce",
                            .summary = "every rank gets the reduction over all ranks",
                            .reduces = true,
                            .route = Route::sums,
                            .patterns = {},
                            .shape = common::undivided,
                            .bus_factor = bus_factor,
                            .steps = steps,
                            .result = result,
                            .in_place_offset = common::same_place};

}  // namespace p5
