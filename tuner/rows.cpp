#include "tuner/rows.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/base/statistics.hpp"

namespace p5::tuner {

namespace {

bool failed(const SearchResult& result, const Setting& setting) {
  return std::ranges::any_of(result.failures,
                             [&](const Failure& failure) { return failure.candidate.setting == setting; });
}

std::uint64_t power_of_two_below(std::uint64_t bytes) {
  std::uint64_t power = 1;
  while (power <= bytes / 2) power *= 2;
  return power;
}

}  // namespace

std::vector<Row> rows_of(const SearchResult& result) {
  std::map<Function, std::vector<const Record*>> collectives;
  for (const Record& record : result.records)
    if (const std::optional<Function> function = parse_function(record.point.collective))
      collectives[*function].push_back(&record);
  std::vector<Row> rows;
  for (auto& [function, records] : collectives) {
    std::ranges::sort(records, {}, [](const Record* record) { return record->point.bytes; });
    for (std::size_t from = 0, to = 0; from < records.size(); from = to) {
      const std::optional<Setting>& winner = records[from]->winner;
      while (to < records.size() && records[to]->winner == winner) ++to;
      if (!winner || failed(result, *winner)) continue;
      rows.push_back({.function = function,
                      .from = records[from]->point.bytes,
                      .to = records[to - 1]->point.bytes,
                      .setting = *winner,
                      .microseconds = 1e6 * median(samples_of(*records[(from + to - 1) / 2], {winner}))});
    }
  }
  return rows;
}

std::vector<HeldOut> held_out(const std::vector<Row>& rows, std::uint64_t element, std::uint64_t step, int most) {
  std::vector<HeldOut> sizes;
  const auto add = [&](const Row& row, std::uint64_t bytes) {
    bytes = (bytes + step - 1) / step * step;
    const HeldOut size{row.function, bytes};
    const bool inside = row.from < bytes && bytes < row.to;
    if (inside && std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
  };
  for (const Row& row : rows) {
    std::vector<std::uint64_t> between;
    for (std::uint64_t power = power_of_two_below(row.from); power < row.to && power > 0; power *= 2)
      if (const std::uint64_t bytes = power + power / 2; row.from < bytes && bytes < row.to) between.push_back(bytes);
    // Of many: the first, the last, and evenly between.
    const std::size_t wanted = std::min(between.size(), static_cast<std::size_t>(std::max(most - 1, 1)));
    for (std::size_t i = 0; i < wanted; ++i)
      add(row, between[wanted == 1 ? between.size() / 2 : i * (between.size() - 1) / (wanted - 1)]);
    const auto middle =
        static_cast<std::uint64_t>(std::sqrt(static_cast<double>(row.from) * static_cast<double>(row.to)));
    add(row, (middle / step | 1) * std::max(step, element));
  }
  return sizes;
}

}  // namespace p5::tuner
