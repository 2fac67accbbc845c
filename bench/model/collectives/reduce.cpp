// reduce: the root gets the reduction over all ranks' inputs; the others get nothing.
#include "bench/model/collectives/common.hpp"

namespace p5 {

namespace {

std::vector<Segment> result(const Shape& shape, Member member, std::string_view) {
  if (member.rank != member.root) return {};
  return {{0, shape.output_elements, Segment::reduced, 0}};
}

}  // namespace

const Collective reduce{.name = "reduce",
                        .summary = "the root gets the reduction over all ranks",
                        .reduces = true,
                        .rooted = true,
                        .patterns = {},
                        .shape = common::undivided,
                        .bus_factor = common::once,
                        .steps = common::as_many_as_others,
                        .result = result,
                        .in_place_offset = common::same_place};

}  // namespace p5
