// scatter: every rank gets its share of the root's input, which is the message.
#include "bench/model/collectives/common.hpp"

namespace p5 {

namespace {

Block block(const Shape& shape, Member from, Member to) {
  if (from.rank != from.root) return {};
  return {shape.output_elements, static_cast<std::uint64_t>(to.rank) * shape.output_elements, 0};
}

}  // namespace

const Collective scatter{.name = "scatter",
                         .summary = "every rank gets its share of the root's input",
                         .rooted = true,
                         .route = Route::star,
                         .patterns = {},
                         .shape = common::whole_to_shares,
                         .bus_factor = common::all_parts_but_one,
                         .steps = common::as_many_as_others,
                         .result = common::blocks_received<block>,
                         .block = block,
                         .in_place_offset = common::output_in_input};

}  // namespace p5
