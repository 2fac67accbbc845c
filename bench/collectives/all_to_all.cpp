// all_to_all: every rank sends each rank, itself included, a block of its own.
#include "bench/collective.hpp"

namespace p5 {

namespace {

// The message is the input of one rank: a block for each rank.
Shape shape(Bytes size, bool per_rank, std::size_t element, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t block = per_rank ? size.count : (size.count + n - 1) / n;
  const std::uint64_t count = (block + element - 1) / element;
  return {count * n, count * n, {count * n * element}, {count * element}};
}

// Of n blocks, a rank's own stays with it.
double bus_factor(int ranks) { return ranks > 1 ? static_cast<double>(ranks - 1) / ranks : 1.0; }

int steps(int ranks) { return ranks - 1; }

// A group that is smaller than the case's largest divides the same input among fewer.
Block block(const Shape& shape, Member from, Member to) {
  const std::uint64_t elements = shape.input_elements / static_cast<std::uint64_t>(from.ranks);
  return {elements, static_cast<std::uint64_t>(to.rank) * elements, static_cast<std::uint64_t>(from.rank) * elements};
}

std::vector<Segment> result(const Shape& shape, Member member, std::string_view) {
  return blocks_received(block, shape, member);
}

}  // namespace

const Collective all_to_all{.name = "all_to_all",
                            .summary = "every rank sends a block of its own to every rank",
                            .route = Route::exchange,
                            .patterns = {},
                            .shape = shape,
                            .bus_factor = bus_factor,
                            .steps = steps,
                            .result = result,
                            .block = block,
                            .in_place_offset = nullptr};

}  // namespace p5
