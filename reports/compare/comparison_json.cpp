// The comparison as JSON (schema p5bench.compare/1). Times are microseconds, ratios NEW over BASE, absent is null.
#include <cmath>

#include <nlohmann/json.hpp>

#include "reports/compare/comparison.hpp"
#include "reports/json_values.hpp"

namespace p5::reports {

using nlohmann::json;

namespace {

json effect_json(const Effect& effect) {
  return {{"ratio", number(effect.ratio)},
          {"ci95", {number(effect.interval.low), number(effect.interval.high)}},
          {"p", number(effect.p)},
          {"p_adjusted", number(effect.p_adjusted)}};
}

json band_json(const BandRow& row) {
  return {{"collective", row.collective},
          {"quantity", name_of(row.quantity)},
          {"band", row.threshold.band},
          {"matters", number(row.threshold.matters)},
          {"negligible", number(row.threshold.negligible)},
          {"threshold_because", row.threshold.because},
          {"sizes", row.sizes},
          {"base_launches", row.base_launches},
          {"new_launches", row.new_launches},
          {"screening", row.screening},
          {"time", effect_json(row.time)},
          {"spread", row.spread ? effect_json(*row.spread) : json(nullptr)},
          {"base_spread", row.base_spread ? number(*row.base_spread) : json(nullptr)},
          {"new_spread", row.new_spread ? number(*row.new_spread) : json(nullptr)},
          {"answer", name_of(row.answer)},
          {"spread_rose", row.spread_rose},
          {"launches_needed", row.launches_needed ? json(*row.launches_needed) : json(nullptr)},
          {"because", row.because}};
}

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

json size_json(const SizeRow& row) {
  return {{"case", to_json(row.measured_case)},
          {"quantity", name_of(row.quantity)},
          {"band", row.band},
          {"base_us", number(row.base_s * 1e6)},
          {"new_us", number(row.new_s * 1e6)},
          {"time", effect_json(row.time)},
          {"marked", row.marked},
          {"base_selection", text_or_null(row.base_selection)},
          {"new_selection", text_or_null(row.new_selection)}};
}

json difference_json(const Difference& each) {
  return {
      {"kind", each.kind}, {"name", each.name}, {"base", text_or_null(each.base)}, {"new", text_or_null(each.fresh)}};
}

template <class Each>
json list(const std::vector<Each>& values, json (*convert)(const Each&)) {
  json all = json::array();
  for (const Each& value : values) all.push_back(convert(value));
  return all;
}

json trouble_json(const Trouble& trouble) {
  return {{"case", to_json(trouble.measured_case)}, {"wrong_data", trouble.wrong_data}, {"what", trouble.what}};
}

json trend_json(const Trend& trend) {
  json points = json::array();
  for (const Trend::Point& point : trend.points) {
    json ratios = json::array();
    for (const std::optional<double>& ratio : point.ratios) ratios.push_back(ratio ? number(*ratio) : json(nullptr));
    points.push_back({{"source", point.source},
                      {"started", text_or_null(point.started)},
                      {"software", point.software},
                      {"ratios", ratios}});
  }
  return {{"rows", trend.rows}, {"points", points}};
}

}  // namespace

json to_json(const Comparison& c) {
  return {{"schema", comparison_schema_name},
          {"version", c.version},
          {"made", text_or_null(c.made)},
          {"base", {{"name", c.base_name}, {"sources", c.base_sources}}},
          {"new", {{"name", c.new_name}, {"sources", c.new_sources}}},
          {"provenance", c.provenance},
          {"seed", c.seed},
          {"answer", name_of(c.answer)},
          {"exit_code", static_cast<int>(c.exit_code)},
          {"screening", c.screening},
          {"headline", c.headline},
          {"bands", list(c.bands, band_json)},
          {"sizes", list(c.sizes, size_json)},
          {"differences", list(c.differences, difference_json)},
          {"troubles", list(c.troubles, trouble_json)},
          {"only_in_base", c.only_in_base},
          {"only_in_new", c.only_in_new},
          {"remarks", c.remarks},
          {"trend", c.trend ? trend_json(*c.trend) : json(nullptr)}};
}

}  // namespace p5::reports
