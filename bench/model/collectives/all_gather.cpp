// all_gather: every rank gets the inputs of all ranks, in the order of the ranks.
#include "bench/model/collectives/common.hpp"

namespace p5 {

const Collective all_gather{.name = "all_gather",
                            .summary = "every rank gets the inputs of all ranks",
                            .patterns = {},
                            .shape = common::shares_to_whole,
                            .bus_factor = common::all_parts_but_one,
                            .steps = common::as_many_as_others,
                            .result = common::inputs_of_all,
                            .in_place_offset = common::input_in_output};

}  // namespace p5
