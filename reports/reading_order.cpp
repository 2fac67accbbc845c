// The order of measurements for a reader: they were made in a random one.
#include <algorithm>
#include <tuple>

#include "reports/writer.hpp"

namespace p5::reports {

std::vector<const Result*> in_reading_order(const Report& report) {
  std::vector<const Result*> rows;
  for (const Result& result : report.results) rows.push_back(&result);
  const auto key = [](const Result* r) {
    const Case& c = r->measurement.measured_case;
    const auto all = collectives();
    return std::tuple(std::ranges::find(all, c.collective) - all.begin(), c.pattern, c.pair == "other_node", c.nic,
                      c.group, c.arm, c.type, c.op, c.in_place, c.bytes);
  };
  std::ranges::stable_sort(rows, {}, key);
  return rows;
}

}  // namespace p5::reports
