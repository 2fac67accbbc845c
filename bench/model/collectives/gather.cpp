// gather: the root gets the inputs of all ranks, in the order of the ranks. They are the message.
#include "bench/model/collectives/common.hpp"

namespace p5 {

namespace {

Block block(const Shape& shape, Member from, Member to) {
  if (to.rank != to.root) return {};
  return {shape.input_elements, 0, static_cast<std::uint64_t>(from.rank) * shape.input_elements};
}

}  // namespace

const Collective gather{.name = "gather",
                        .summary = "the root gets the inputs of all ranks",
                        .rooted = true,
                        .route = Route::star,
                        .patterns = {},
                        .shape = common::shares_to_whole,
                        .bus_factor = common::all_parts_but_one,
                        .steps = common::as_many_as_others,
                        .result = common::blocks_received<block>,
                        .block = block,
                        .in_place_offset = common::input_in_output};

}  // namespace p5
