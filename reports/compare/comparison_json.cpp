// The comparison as JSON (schema p5bench.compare/1). Times are microseconds, ratios NEW over BASE, absent is null.
#include <nlohmann/json.hpp>

#include "reports/compare/comparison.hpp"
#include "reports/json_values.hpp"

namespace p5::reports {

using json_fields::or_null;
using json_fields::written;
using nlohmann::json;

namespace {

json effect_json(const Effect& effect) {
  return {{"ratio", written(effect.ratio)},
          {"ci95", {written(effect.interval.low), written(effect.interval.high)}},
          {"p", written(effect.p)},
          {"p_adjusted", written(effect.p_adjusted)}};
}

json band_json(const BandRow& row) {
  return {{"collective", row.collective},
          {"quantity", name_of(row.quantity)},
          {"band", row.threshold.band},
          {"matters", written(row.threshold.matters)},
          {"negligible", written(row.threshold.negligible)},
          {"threshold_because", row.threshold.because},
          {"sizes", row.sizes},
          {"base_launches", row.base_launches},
          {"new_launches", row.new_launches},
          {"screening", row.screening},
          {"time", effect_json(row.time)},
          {"mean", row.mean ? effect_json(*row.mean) : json(nullptr)},
          {"spread", row.spread ? effect_json(*row.spread) : json(nullptr)},
          {"base_spread", written(row.base_spread)},
          {"new_spread", written(row.new_spread)},
          {"answer", name_of(row.answer)},
          {"mean_rose", row.mean_rose},
          {"spread_rose", row.spread_rose},
          {"launches_needed", written(row.launches_needed)},
          {"change", written(row.change)},
          {"because", row.because}};
}

json size_json(const SizeRow& row) {
  return {{"case", to_json(row.measured_case)},
          {"quantity", name_of(row.quantity)},
          {"band", row.band},
          {"base_us", written(row.base_s * 1e6)},
          {"new_us", written(row.new_s * 1e6)},
          {"time", effect_json(row.time)},
          {"marked", row.marked},
          {"base_selection", written(or_null(row.base_selection))},
          {"new_selection", written(or_null(row.new_selection))}};
}

json difference_json(const Difference& each) {
  return {{"kind", each.kind},
          {"name", each.name},
          {"base", written(or_null(each.base))},
          {"new", written(or_null(each.fresh))}};
}

template <class Each>
json list(const std::vector<Each>& values, json (*convert)(const Each&)) {
  json all = json::array();
  for (const Each& value : values) all.push_back(convert(value));
  return all;
}

json trouble_json(const FailedCase& trouble) {
  return {{"case", to_json(trouble.measured_case)},
          {"wrong_data", trouble.wrong_data},
          {"what", trouble.what},
          {"in_base", trouble.in_base}};
}

json bad_end_json(const FailedRun& end) {
  return {{"source", end.source}, {"exit_code", static_cast<int>(end.code)}, {"because", end.because}};
}

json suspect_json(const Suspect& suspect) {
  return {{"kind", suspect.kind},         {"name", suspect.name},
          {"host", suspect.host},         {"instance", suspect.instance},
          {"device", suspect.device},     {"confidence", written(suspect.confidence)},
          {"evidence", suspect.evidence}, {"partners_tested", suspect.partners_tested},
          {"action", suspect.action},     {"fault", suspect.fault}};
}

json level_json(const Trend::Level& level) {
  return {{"row", level.row}, {"first", level.first}, {"last", level.last}, {"ratio", written(level.ratio)}};
}

json change_json(const Trend::Change& change) {
  return {{"row", change.row},
          {"before", change.before},
          {"first", change.first},
          {"ratio", written(change.ratio)},
          {"runs_before", change.runs_before},
          {"runs_after", change.runs_after},
          {"p", written(change.p)},
          {"p_adjusted", written(change.p_adjusted)},
          {"still", written(change.still)},
          {"differences", list(change.differences, difference_json)}};
}

json trend_json(const Trend& trend) {
  json points = json::array();
  for (const Trend::Point& point : trend.points) {
    points.push_back({{"source", point.source},
                      {"started", written(or_null(point.started))},
                      {"software", point.software},
                      {"ratios", written(point.ratios)},
                      {"differences", list(point.differences, difference_json)}});
  }
  return {{"rows", trend.rows},
          {"points", points},
          {"levels", list(trend.levels, level_json)},
          {"changes", list(trend.changes, change_json)},
          {"short_rows", trend.short_rows}};
}

}  // namespace

json to_json(const Comparison& c) {
  return {{"schema", comparison_schema_name},
          {"version", c.version},
          {"made", written(or_null(c.made))},
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
          {"bad_ends", list(c.bad_ends, bad_end_json)},
          {"new_suspects", list(c.new_suspects, suspect_json)},
          {"only_in_base", c.only_in_base},
          {"only_in_new", c.only_in_new},
          {"remarks", c.remarks},
          {"trend", c.trend ? trend_json(*c.trend) : json(nullptr)}};
}

}  // namespace p5::reports
