// reduce_scatter: the reduction over all ranks' inputs, of which each rank gets its share. The message is the input of
// one rank.
#include "bench/model/collectives/common.hpp"

namespace p5 {

namespace {

std::vector<Segment> result(const Shape& shape, Member member, std::string_view) {
  return {
      {0, shape.output_elements, Segment::reduced, static_cast<std::uint64_t>(member.rank) * shape.output_elements}};
}

}  // namespace

const Collective reduce_scatter{.name = "reduce_scatter",
                                .summary = "every rank gets its share of the reduction over all ranks",
                                .reduces = true,
                                .patterns = {},
                                .shape = common::whole_to_shares,
                                .bus_factor = common::all_parts_but_one,
                                .steps = common::as_many_as_others,
                                .result = result,
                                .in_place_offset = common::output_in_input};

}  // namespace p5
