// p2p: messages between two ranks, one way, both ways at once, or back and forth. Bandwidth counts one direction.
#include "bench/model/collectives/common.hpp"

namespace p5 {

namespace {

std::vector<Segment> result(const Shape& shape, Member member, std::string_view pattern) {
  if (member.rank == 0 && pattern == "one_way") return {};
  return {{0, shape.output_elements, 1 - member.rank, 0}};
}

}  // namespace

const Collective p2p{.name = "p2p",
                     .summary = "pairs of ranks: one_way, both_ways, ping_pong (half a round trip)",
                     .pairwise = true,
                     .route = Route::neighbours,
                     .patterns = {"one_way", "both_ways", "ping_pong"},
                     .shape = common::undivided,
                     .bus_factor = common::once,
                     .steps = common::one_step,
                     .result = result,
                     .in_place_offset = nullptr};

}  // namespace p5
