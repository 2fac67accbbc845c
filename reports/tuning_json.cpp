// "tuning" of report.json, both ways. Times microseconds, absent is null.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/base/error.hpp"
#include "reports/json_values.hpp"
#include "reports/tuning.hpp"

namespace p5::reports {

using nlohmann::json;

namespace {

constexpr std::array modes{"quick", "full", "exhaustive"};
constexpr std::array tuning_outcomes{"settings", "nothing", "refused"};

template <std::size_t count>
std::string one_of(const std::array<const char*, count>& all, const json& j, std::string_view what) {
  const std::string name = j.get<std::string>();
  if (std::ranges::find(all, name) == all.end()) throw UsageError(fmt::format("unknown {} of tuning '{}'", what, name));
  return name;
}

json interval_json(const std::optional<Interval>& interval) {
  if (!interval || !std::isfinite(interval->low) || !std::isfinite(interval->high)) return nullptr;
  return {interval->low, interval->high};
}
std::optional<Interval> interval_from(const json& j) {
  if (j.is_null()) return std::nullopt;
  return Interval{j.at(0), j.at(1)};
}

json gain_json(const std::optional<TuningGain>& gain) {
  if (!gain) return nullptr;
  return {{"default_us", number(1e6 * gain->default_s)},
          {"tuned_us", number(1e6 * gain->tuned_s)},
          {"share", number(gain->share)},
          {"ci95_share", interval_json(gain->interval)}};
}
std::optional<TuningGain> gain_from(const json& j) {
  if (j.is_null()) return std::nullopt;
  return TuningGain{.default_s = j.at("default_us").get<double>() * 1e-6,
                    .tuned_s = j.at("tuned_us").get<double>() * 1e-6,
                    .share = j.at("share"),
                    .interval = interval_from(j.at("ci95_share"))};
}

template <class Item, class Write>
json list(const std::vector<Item>& items, Write write) {
  json all = json::array();
  for (const Item& item : items) all.push_back(write(item));
  return all;
}
template <class Read>
auto list_from(const json& j, Read read) {
  std::vector<decltype(read(j))> all;
  for (const json& item : j) all.push_back(read(item));
  return all;
}

json setting_json(const TuningSetting& s) {
  return {{"setting", s.setting}, {"median_us", optional(s.median_us)},       {"launched_us", optional(s.launched_us)},
          {"samples", s.samples}, {"predicted_us", optional(s.predicted_us)}, {"chosen", s.chosen}};
}
TuningSetting setting_from(const json& j) {
  return {.setting = j.at("setting"),
          .median_us = optional_from<double>(j.at("median_us")),
          .launched_us = optional_from<double>(j.at("launched_us")),
          .samples = j.at("samples"),
          .predicted_us = optional_from<double>(j.at("predicted_us")),
          .chosen = j.at("chosen")};
}

json cell_json(const TuningCell& c) {
  return {{"collective", c.collective},
          {"bytes", c.bytes},
          {"tuner_bytes", c.tuner_bytes},
          {"candidates", c.candidates},
          {"samples", c.samples},
          {"winner", optional(c.winner)},
          {"believed", c.believed},
          {"noise", optional(c.noise)},
          {"gain", gain_json(c.gain)},
          {"because", c.because},
          {"settings", list(c.settings, setting_json)}};
}
TuningCell cell_from(const json& j) {
  return {.collective = j.at("collective"),
          .bytes = j.at("bytes"),
          .tuner_bytes = j.at("tuner_bytes"),
          .candidates = j.at("candidates"),
          .samples = j.at("samples"),
          .winner = optional_from<std::string>(j.at("winner")),
          .believed = j.at("believed"),
          .noise = optional_from<double>(j.at("noise")),
          .gain = gain_from(j.at("gain")),
          .because = j.at("because"),
          .settings = list_from(j.at("settings"), setting_from)};
}

json failure_json(const TuningFailure& f) {
  return {{"collective", f.collective},
          {"bytes", f.bytes},
          {"setting", f.setting},
          {"wrong_data", f.wrong_data},
          {"because", f.because}};
}
TuningFailure failure_from(const json& j) {
  return {.collective = j.at("collective"),
          .bytes = j.at("bytes"),
          .setting = j.at("setting"),
          .wrong_data = j.at("wrong_data"),
          .because = j.at("because")};
}

json arm_json(const TuningArm& a) {
  return {{"name", a.name},
          {"environment", a.environment},
          {"speedup", optional(a.speedup)},
          {"ci95_speedup", interval_json(a.interval)},
          {"adopted", a.adopted}};
}
TuningArm tuning_arm_from(const json& j) {
  return {.name = j.at("name"),
          .environment = j.at("environment").get<std::map<std::string, std::string>>(),
          .speedup = optional_from<double>(j.at("speedup")),
          .interval = interval_from(j.at("ci95_speedup")),
          .adopted = j.at("adopted")};
}

json way_json(const TuningWay& way) {
  json sizes = json::array();
  for (const TuningWaySize& size : way.sizes)
    sizes.push_back({{"collective", size.collective},
                     {"bytes", size.bytes},
                     {"gain", gain_json(size.gain)},
                     {"because", size.because}});
  return {{"name", way.name}, {"how", way.how}, {"sizes", sizes}};
}
TuningWay way_from(const json& j) {
  TuningWay way{.name = j.at("name"), .how = j.at("how"), .sizes = {}};
  for (const json& size : j.at("sizes"))
    way.sizes.push_back({.collective = size.at("collective"),
                         .bytes = size.at("bytes"),
                         .gain = gain_from(size.at("gain")),
                         .because = size.at("because")});
  return way;
}

json row_json(const TuningRow& r) {
  return {{"collective", r.collective},
          {"from", r.from},
          {"to", r.to},
          {"setting", r.setting},
          {"us", number(r.microseconds)}};
}
TuningRow row_from(const json& j) {
  return {.collective = j.at("collective"),
          .from = j.at("from"),
          .to = j.at("to"),
          .setting = j.at("setting"),
          .microseconds = j.at("us")};
}

json confirmation_json(const TuningConfirmation& c) {
  return {{"collective", c.collective},
          {"tuner_bytes", c.tuner_bytes},
          {"setting", optional(c.setting)},
          {"gain", gain_json(c.gain)},
          {"launched_gain", gain_json(c.launched_gain)},
          {"verdict", c.verdict}};
}
TuningConfirmation confirmation_from(const json& j) {
  return {.collective = j.at("collective"),
          .tuner_bytes = j.at("tuner_bytes"),
          .setting = optional_from<std::string>(j.at("setting")),
          .gain = gain_from(j.at("gain")),
          .launched_gain = gain_from(j.at("launched_gain")),
          .verdict = j.at("verdict")};
}

json stage_json(const TuningStage& s) { return {{"name", s.name}, {"seconds", number(s.seconds)}}; }
TuningStage stage_from(const json& j) { return {.name = j.at("name"), .seconds = j.at("seconds")}; }

}  // namespace

json to_json(const Tuning& t) {
  return {{"mode", t.mode},
          {"outcome", t.outcome},
          {"because", t.because},
          {"seed", t.seed},
          {"wall_s", number(t.wall_s)},
          {"stages", list(t.stages, stage_json)},
          {"nccl_version", t.nccl_version},
          {"ranks", t.ranks},
          {"nodes", t.nodes},
          {"drift", optional(t.drift)},
          {"cells", list(t.cells, cell_json)},
          {"failures", list(t.failures, failure_json)},
          {"arms", list(t.arms, arm_json)},
          {"ways", list(t.ways, way_json)},
          {"environment", t.environment},
          {"rows", list(t.rows, row_json)},
          {"confirmations", list(t.confirmations, confirmation_json)},
          {"processes", t.processes},
          {"refusals", t.refusals},
          {"files", t.files},
          {"loading", t.loading}};
}

Tuning tuning_from_json(const json& j) {
  return {.mode = one_of(modes, j.at("mode"), "mode"),
          .outcome = one_of(tuning_outcomes, j.at("outcome"), "outcome"),
          .because = j.at("because"),
          .seed = j.at("seed"),
          .wall_s = j.at("wall_s"),
          .stages = list_from(j.at("stages"), stage_from),
          .nccl_version = j.at("nccl_version"),
          .ranks = j.at("ranks"),
          .nodes = j.at("nodes"),
          .drift = optional_from<double>(j.at("drift")),
          .cells = list_from(j.at("cells"), cell_from),
          .failures = list_from(j.at("failures"), failure_from),
          .arms = list_from(j.at("arms"), tuning_arm_from),
          .ways = list_from(j.at("ways"), way_from),
          .environment = j.at("environment").get<std::map<std::string, std::string>>(),
          .rows = list_from(j.at("rows"), row_from),
          .confirmations = list_from(j.at("confirmations"), confirmation_from),
          .processes = j.at("processes"),
          .refusals = j.at("refusals").get<std::vector<std::string>>(),
          .files = j.at("files").get<std::vector<std::string>>(),
          .loading = j.at("loading").get<std::vector<std::pair<std::string, std::string>>>()};
}

}  // namespace p5::reports
