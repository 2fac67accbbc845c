// all_to_allv: every rank sends the others blocks of different length: the farther on in the ring of ranks, the longer,
// and nothing to itself. The default traffic of nccl-tests' alltoallv, whose figures are then comparable; it also
// counts bus bandwidth as if a block stayed with its rank. The message is the input of one rank, and as much comes to
// each.
#include "bench/model/collectives/common.hpp"

namespace p5 {

namespace {

// Elements for all that are less than `distance` ranks on: of parts in the proportion 0, 1, .. n-1, the first
// `distance`.
std::uint64_t nearer_than(int distance, const Shape& shape, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks), d = static_cast<std::uint64_t>(distance);
  if (d == 0) return 0;
  if (n == 1) return shape.input_elements;
  // The whole and the rest apart: their product would not fit 64 bits.
  const std::uint64_t triangle = n * (n - 1), part = d * (d - 1);
  return shape.input_elements / triangle * part + shape.input_elements % triangle * part / triangle;
}

// Blocks lie in the order of the other member's rank. From the member itself on, distances count from 0; before it they
// go on where the last rank's ended.
Block block(const Shape& shape, Member from, Member to) {
  const int n = from.ranks, distance = (to.rank - from.rank + n) % n;
  const auto nearer = [&](int than) { return nearer_than(than, shape, n); };
  const std::uint64_t all = shape.input_elements;
  return {.elements = nearer(distance + 1) - nearer(distance),
          .input_offset = nearer(distance) + (to.rank >= from.rank ? all : 0) - nearer(n - from.rank),
          .output_offset = nearer(to.rank + 1) + (from.rank > to.rank ? all : 0) - nearer(distance + 1)};
}

}  // namespace

const Collective all_to_allv{.name = "all_to_allv",
                             .summary = "every rank sends the others blocks of different length",
                             .route = Route::uneven_exchange,
                             .patterns = {},
                             .shape = common::whole_to_whole,
                             .bus_factor = common::all_parts_but_one,
                             .steps = common::as_many_as_others,
                             .result = common::blocks_received<block>,
                             .block = block,
                             .in_place_offset = nullptr};

}  // namespace p5
