// all_to_all: every rank sends each rank, itself included, a block of its own. The message is the input of one rank.
#include "bench/model/collectives/common.hpp"

namespace p5 {

namespace {

// A group that is smaller than the case's largest divides the same input among fewer.
Block block(const Shape& shape, Member from, Member to) {
  const std::uint64_t elements = shape.input_elements / static_cast<std::uint64_t>(from.ranks);
  return {elements, static_cast<std::uint64_t>(to.rank) * elements, static_cast<std::uint64_t>(from.rank) * elements};
}

}  // namespace

const Collective all_to_all{.name = "all_to_all",
                            .summary = "every rank sends a block of its own to every rank",
                            .route = Route::exchange,
                            .patterns = {},
                            .shape = common::whole_to_whole,
                            .bus_factor = common::all_parts_but_one,
                            .steps = common::as_many_as_others,
                            .result = common::blocks_received<block>,
                            .block = block,
                            .in_place_offset = nullptr};

}  // namespace p5
