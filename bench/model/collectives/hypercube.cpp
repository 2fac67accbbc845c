// hypercube: an all_gather by sends and receives alone: in each step a rank exchanges all that it has with the one
// whose number differs in one bit, so that what it has doubles. Its bus bandwidth is nccl-tests', which prints it as
// algorithm bandwidth too.
#include "bench/model/collectives/common.hpp"

namespace p5 {

namespace {

int steps(int ranks) {
  int count = 0;
  while (1 << count < ranks) ++count;
  return count;
}

}  // namespace

const Collective hypercube{.name = "hypercube",
                           .summary = "an all_gather in which ranks exchange what they have, twice as much each time",
                           .powers_of_two = true,
                           .route = Route::exchange,
                           .patterns = {},
                           .shape = common::shares_to_whole,
                           .bus_factor = common::all_parts_but_one,
                           .steps = steps,
                           .result = common::inputs_of_all,
                           .in_place_offset = common::input_in_output};

}  // namespace p5
