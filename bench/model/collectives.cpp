// The table of collectives.
#include "bench/model/collective.hpp"

#include <algorithm>
#include <array>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"

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

}  // namespace p5
