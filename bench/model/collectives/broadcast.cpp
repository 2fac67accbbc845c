// broadcast: every rank gets the root's input, out of place the root too.
#include "bench/model/collectives/common.hpp"

namespace p5 {

namespace {

std::vector<Segment> result(const Shape& shape, Member member, std::string_view) {
  return {{0, shape.output_elements, member.root, 0}};
}

}  // namespace

const Collective broadcast{.name = "broadcast",
                           .summary = "every rank gets the input of the root",
                           .rooted = true,
                           .patterns = {},
                           .shape = common::undivided,
                           .bus_factor = common::once,
                           .steps = common::as_many_as_others,
                           .result = result,
                           .in_place_offset = common::same_place};

}  // namespace p5
