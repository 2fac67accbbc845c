// hypercube: an all-gather by sends and receives alone: in each step a rank exchanges all that it has with the one
// whose number differs in one bit, so that what it has doubles. nccl-tests' hypercube.
#include "bench/collective.hpp"

namespace p5 {

namespace {

Shape shape(Bytes size, bool per_rank, std::size_t element, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t share = per_rank ? size.count : (size.count + n - 1) / n;
  const std::uint64_t count = (share + element - 1) / element;
  return {count, count * n, {count * n * element}, {count * element}};
}

// Each rank receives (n-1)/n of the message. nccl-tests has the same bus bandwidth, and calls it algorithm bandwidth.
double bus_factor(int ranks) { return ranks > 1 ? static_cast<double>(ranks - 1) / ranks : 1.0; }

int steps(int ranks) {
  int count = 0;
  while (1 << count < ranks) ++count;
  return count;
}

std::vector<Segment> result(const Shape& shape, Member member, std::string_view) {
  std::vector<Segment> segments;
  for (int rank = 0; rank < member.ranks; ++rank)
    segments.push_back({static_cast<std::uint64_t>(rank) * shape.input_elements, shape.input_elements, rank, 0});
  return segments;
}

InPlaceOffset in_place_offset(const Shape& shape, Member member) {
  return {.input = static_cast<std::uint64_t>(member.rank) * shape.input_elements, .output = 0};
}

}  // namespace

const Collective hypercube{.name = "hypercube",
                           .summary = "an all_gather in which ranks exchange what they have, twice as much each time",
                           .powers_of_two = true,
                           .route = Route::exchange,
                           .patterns = {},
                           .shape = shape,
                           .bus_factor = bus_factor,
                           .steps = steps,
                           .result = result,
                           .in_place_offset = in_place_offset};

}  // namespace p5
