// "tuning" of report.json, both ways. Times microseconds, absent is null.
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/base/error.hpp"
#include "reports/json_values.hpp"
#include "reports/tuning.hpp"

namespace p5::reports {

using nlohmann::json;

namespace {

using json_fields::above_zero;
using json_fields::any;

constexpr std::array<std::string_view, 3> modes{"quick", "full", "exhaustive"};
constexpr std::array<std::string_view, 3> tuning_outcomes{"settings", "nothing", "refused"};

constexpr std::array<std::string_view, 6> stage_names{"preparation", "search",          "search again",
                                                      "variables",   "ways of calling", "confirmation"};

}  // namespace

void fields(auto& visit, Is<TuningGain> auto& gain) {
  visit.must("default_us", in_microseconds(gain.default_s));
  visit.must("tuned_us", in_microseconds(gain.tuned_s));
  visit.must("share", json_fields::between(-std::numeric_limits<double>::infinity(), 1, gain.share));
  visit.must("ci95_share", as_list(gain.interval));
}

void fields(auto& visit, Is<TuningSetting> auto& setting) {
  visit.must("setting", setting.setting);
  visit.must("median_us", setting.median_us);
  visit.must("launched_us", setting.launched_us);
  visit.must("samples", setting.samples);
  visit.must("predicted_us", any(setting.predicted_us));
  visit.must("chosen", setting.chosen);
}

void fields(auto& visit, Is<TuningCell> auto& cell) {
  visit.must("collective", cell.collective);
  visit.must("bytes", cell.bytes);
  visit.must("tuner_bytes", cell.tuner_bytes);
  visit.must("candidates", cell.candidates);
  visit.must("samples", cell.samples);
  visit.must("winner", cell.winner);
  visit.must("believed", cell.believed);
  visit.must("noise", cell.noise);
  visit.must("gain", cell.gain);
  visit.must("because", cell.because);
  visit.must("settings", cell.settings);
}

void fields(auto& visit, Is<TuningFailure> auto& failure) {
  visit.must("collective", failure.collective);
  visit.must("bytes", failure.bytes);
  visit.must("setting", failure.setting);
  visit.must("wrong_data", failure.wrong_data);
  visit.must("because", failure.because);
}

void fields(auto& visit, Is<TuningArm> auto& arm) {
  visit.must("name", arm.name);
  visit.must("environment", arm.environment);
  visit.must("speedup", above_zero(arm.speedup));
  visit.must("ci95_speedup", as_list(arm.interval));
  visit.must("adopted", arm.adopted);
}

void fields(auto& visit, Is<TuningWaySize> auto& size) {
  visit.must("collective", size.collective);
  visit.must("bytes", json_fields::at_least(1, size.bytes));
  visit.must("gain", size.gain);
  visit.must("because", size.because);
}

void fields(auto& visit, Is<TuningWay> auto& way) {
  visit.must("name", way.name);
  visit.must("how", way.how);
  visit.must("sizes", way.sizes);
}

void fields(auto& visit, Is<TuningRow> auto& row) {
  visit.must("collective", row.collective);
  visit.must("from", row.from);
  visit.must("to", row.to);
  visit.must("setting", row.setting);
  visit.must("us", above_zero(row.microseconds));
}

void fields(auto& visit, Is<TuningConfirmation> auto& confirmation) {
  visit.must("collective", confirmation.collective);
  visit.must("tuner_bytes", confirmation.tuner_bytes);
  visit.must("setting", confirmation.setting);
  visit.must("gain", confirmation.gain);
  visit.must("launched_gain", confirmation.launched_gain);
  visit.must("verdict", confirmation.verdict);
}

void fields(auto& visit, Is<TuningStage> auto& stage) {
  visit.must("name", json_fields::one_of(stage.name, stage_names));
  visit.must("seconds", stage.seconds);
}

void fields(auto& visit, Is<Tuning> auto& tuning) {
  visit.must("mode", json_fields::one_of(tuning.mode, modes));
  visit.must("outcome", json_fields::one_of(tuning.outcome, tuning_outcomes));
  visit.must("because", tuning.because);
  visit.must("seed", tuning.seed);
  visit.must("wall_s", tuning.wall_s);
  visit.must("stages", tuning.stages);
  visit.must("nccl_version", tuning.nccl_version);
  visit.must("ranks", tuning.ranks);
  visit.must("nodes", tuning.nodes);
  visit.must("drift", any(tuning.drift));
  visit.must("cells", tuning.cells);
  visit.must("failures", tuning.failures);
  visit.must("arms", tuning.arms);
  visit.must("ways", tuning.ways);
  visit.must("environment", tuning.environment);
  visit.must("rows", tuning.rows);
  visit.must("confirmations", tuning.confirmations);
  visit.must("processes", tuning.processes);
  visit.must("refusals", tuning.refusals);
  visit.must("files", tuning.files);
  visit.must("loading", tuning.loading);
}

json to_json(const Tuning& tuning) { return json_fields::written(tuning); }

Tuning tuning_from_json(const json& j) { return json_fields::read_as<Tuning>(j); }

}  // namespace p5::reports
