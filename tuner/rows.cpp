#include "tuner/rows.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace p5::tuner {

namespace {

// One size of one collective on its way to a row.
struct Spot {
  const Record* record = nullptr;
  std::optional<Setting> setting;
};

// 1 - time / default's time from all blocks of the cell; null where the setting was not measured.
std::optional<double> gain_in(const Record& record, const Setting& setting) {
  const std::vector<double> ratios = log_ratios(record, setting);
  if (ratios.empty()) return std::nullopt;
  return 1 - std::exp(median(ratios));
}

// Where launches were measured, only what was, and is not slower so beyond doubt.
bool bears_launch(const Record& record, const Setting& setting) {
  const bool any = std::ranges::any_of(record.blocks, [](const Block& each) { return each.visit == Visit::launched; });
  return !any || !may_be_slower_with_launch(record, setting).value_or(true);
}

// Whether `other` may stand in for the setting that the place has.
bool replaces(const Spot& place, const Setting& other, const RowRules& rules) {
  if (!bears_launch(*place.record, other)) return false;
  const std::optional<double> theirs = gain_in(*place.record, other), ours = gain_in(*place.record, *place.setting);
  return theirs && ours && *theirs >= rules.least_gain && 1 - *theirs <= (1 - *ours) * (1 + rules.within);
}

void keep_incumbents(std::vector<Spot>& places, const RowRules& rules) {
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i].setting && places[i - 1].setting && replaces(places[i], *places[i - 1].setting, rules))
      places[i].setting = places[i - 1].setting;
}

// A size that stands alone joins the row that begins behind it.
void join_next(std::vector<Spot>& places, const RowRules& rules) {
  for (std::size_t i = places.size(); i-- > 0;) {
    if (i + 1 >= places.size() || !places[i].setting || !places[i + 1].setting) continue;
    const bool alone = i == 0 || places[i - 1].setting != places[i].setting;
    if (alone && replaces(places[i], *places[i + 1].setting, rules)) places[i].setting = places[i + 1].setting;
  }
}

// A size between two that agree, where the same setting was measured and is at least not slower.
void bridge(std::vector<Spot>& places, const SearchResult& result) {
  for (std::size_t i = 1; i + 1 < places.size(); ++i) {
    if (places[i].setting || !places[i - 1].setting || places[i - 1].setting != places[i + 1].setting) continue;
    const Setting& setting = *places[i - 1].setting;
    const bool failed = std::ranges::any_of(
        result.failures, [&](const Failure& failure) { return failure.candidate.setting == setting; });
    if (const std::optional<double> gain = gain_in(*places[i].record, setting);
        !failed && gain && *gain >= 0 && bears_launch(*places[i].record, setting))
      places[i].setting = setting;
  }
}

struct Weighed {
  Row row;
  double saved = 0;  // sum over its sizes
};

std::vector<Weighed> rows_of_places(Function function, const std::vector<Spot>& places) {
  std::vector<Weighed> rows;
  for (std::size_t i = 0; i < places.size();) {
    std::size_t end = i + 1;
    while (end < places.size() && places[end].setting == places[i].setting) ++end;
    if (places[i].setting) {
      const Setting& setting = *places[i].setting;
      const Record& middle = *places[(i + end - 1) / 2].record;
      Weighed weighed{.row = {.function = function,
                              .from = places[i].record->cell.tuner_bytes,
                              .to = places[end - 1].record->cell.tuner_bytes,
                              .setting = setting,
                              .microseconds = 1e6 * median(samples_of(middle, {setting}))}};
      for (std::size_t each = i; each < end; ++each)
        weighed.saved += gain_in(*places[each].record, setting).value_or(0);
      rows.push_back(weighed);
    }
    i = end;
  }
  return rows;
}

std::uint64_t power_of_two_below(std::uint64_t bytes) {
  std::uint64_t power = 1;
  while (power <= bytes / 2) power *= 2;
  return power;
}

}  // namespace

std::vector<Row> rows_of(const SearchResult& result, const std::vector<CellVerdict>& verdicts, const RowRules& rules) {
  std::map<Function, std::vector<Spot>> collectives;
  for (std::size_t i = 0; i < result.records.size(); ++i) {
    const Record& record = result.records[i];
    const std::optional<Function> function = parse_function(record.cell.collective);
    if (function) collectives[*function].push_back({&record, verdicts[i].believed ? verdicts[i].winner : std::nullopt});
  }
  std::vector<Row> rows;
  for (auto& [function, places] : collectives) {
    std::ranges::sort(places, {}, [](const Spot& place) { return place.record->cell.tuner_bytes; });
    keep_incumbents(places, rules);
    join_next(places, rules);
    bridge(places, result);
    std::vector<Weighed> weighed = rows_of_places(function, places);
    std::ranges::stable_sort(weighed, std::greater<>(), &Weighed::saved);
    if (weighed.size() > static_cast<std::size_t>(rules.most_rows))
      weighed.resize(static_cast<std::size_t>(rules.most_rows));
    std::ranges::sort(weighed, {}, [](const Weighed& each) { return each.row.from; });
    for (const Weighed& each : weighed) rows.push_back(each.row);
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
