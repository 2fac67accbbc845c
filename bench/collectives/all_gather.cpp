// all_gather: every rank gets the inputs of all ranks, in the order of the ranks.
#include "bench/collective.hpp"

namespace p5 {

namespace {

Shape shape(Bytes size, bool per_rank, std::size_t element, int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  const std::uint64_t share = per_rank ? size.count : (size.count + n - 1) / n;
  const std::uint64_t count = (share + element - 1) / element;
  return {count, count * n, {count * n * element}, {count * element}};
}

// Each rank receives (n-1)/n of the message.
double bus_factor(int ranks) { return ranks > 1 ? static_cast<double>(ranks - 1) / ranks : 1.0; }

int steps(int ranks) { return ranks - 1; }

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

const Collective all_gather{.name = "all_gather",
                            .summary = "every rank gets the inputs of all ranks",
                            .patterns = {},
                            .shape = shape,
                            .bus_factor = bus_factor,
                            .steps = steps,
                            .result = result,
                            .in_place_offset = in_place_offset};

}  // namespace p5
