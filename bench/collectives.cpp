// The table of collectives.
#include "bench/collective.hpp"

#include <algorithm>
#include <array>

#include "bench/error.hpp"
#include "bench/names.hpp"

namespace p5 {

namespace {
constexpr std::array table{&p2p,        &all_reduce,  &all_gather, &reduce_scatter, &broadcast, &reduce,
                           &all_to_all, &all_to_allv, &gather,     &scatter,        &send_recv, &hypercube};
}

std::span<const Collective* const> collectives() { return table; }

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const Collective* each : table) names.emplace_back(each->name);
  return names;
}

const Collective& find_collective(std::string_view name) {
  const auto found = std::ranges::find(table, name, &Collective::name);
  if (found == table.end()) throw UsageError(unknown_name("collective", name, collective_names()));
  return **found;
}

std::vector<Segment> blocks_received(Block (*block)(const Shape& shape, Member from, Member to), const Shape& shape,
                                     Member member) {
  std::vector<Segment> segments;
  for (Member from{.rank = 0, .ranks = member.ranks, .root = member.root}; from.rank < member.ranks; ++from.rank) {
    const Block received = block(shape, from, member);
    if (received.elements > 0)
      segments.push_back({received.output_offset, received.elements, from.rank, received.input_offset});
  }
  return segments;
}

}  // namespace p5
