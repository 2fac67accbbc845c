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

void fields(auto& archive, Is<TuningGain> auto& gain) {
  archive.must("default_us", in_microseconds(gain.default_s));
  archive.must("tuned_us", in_microseconds(gain.tuned_s));
  archive.must("share", json_fields::between(-std::numeric_limits<double>::infinity(), 1, gain.share));
  archive.must("ci95_share", as_list(gain.interval));
}

void fields(auto& archive, Is<TuningSetting> auto& setting) {
  archive.must("setting", setting.setting);
  archive.must("median_us", setting.median_us);
  archive.must("launched_us", setting.launched_us);
  archive.must("samples", setting.samples);
  archive.must("predicted_us", any(setting.predicted_us));
  archive.must("chosen", setting.chosen);
}

void fields(auto& archive, Is<TuningSizePoint> auto& point) {
  archive.must("collective", point.collective);
  archive.must("bytes", point.bytes);
  archive.must("tuner_bytes", point.tuner_bytes);
  archive.must("candidates", point.candidates);
  archive.must("samples", point.samples);
  archive.must("winner", point.winner);
  archive.must("believed", point.believed);
  archive.must("noise", point.noise);
  archive.must("gain", point.gain);
  archive.must("because", point.because);
  archive.must("settings", point.settings);
}

void fields(auto& archive, Is<TuningFailure> auto& failure) {
  archive.must("collective", failure.collective);
  archive.must("bytes", failure.bytes);
  archive.must("setting", failure.setting);
  archive.must("wrong_data", failure.wrong_data);
  archive.must("because", failure.because);
}

void fields(auto& archive, Is<TuningArm> auto& arm) {
  archive.must("name", arm.name);
  archive.must("environment", arm.environment);
  archive.must("speedup", above_zero(arm.speedup));
  archive.must("ci95_speedup", as_list(arm.interval));
  archive.must("adopted", arm.adopted);
}

void fields(auto& archive, Is<TuningCallModeSize> auto& size) {
  archive.must("collective", size.collective);
  archive.must("bytes", json_fields::at_least(1, size.bytes));
  archive.must("gain", size.gain);
  archive.must("because", size.because);
}

void fields(auto& archive, Is<TuningCallMode> auto& way) {
  archive.must("name", way.name);
  archive.must("how", way.how);
  archive.must("sizes", way.sizes);
}

void fields(auto& archive, Is<TuningRow> auto& row) {
  archive.must("collective", row.collective);
  archive.must("from", row.from);
  archive.must("to", row.to);
  archive.must("setting", row.setting);
  archive.must("us", above_zero(row.microseconds));
}

void fields(auto& archive, Is<TuningConfirmation> auto& confirmation) {
  archive.must("collective", confirmation.collective);
  archive.must("tuner_bytes", confirmation.tuner_bytes);
  archive.must("setting", confirmation.setting);
  archive.must("gain", confirmation.gain);
  archive.must("launched_gain", confirmation.launched_gain);
  archive.must("verdict", confirmation.verdict);
}

void fields(auto& archive, Is<TuningStage> auto& stage) {
  archive.must("name", json_fields::one_of(stage.name, stage_names));
  archive.must("seconds", stage.seconds);
}

void fields(auto& archive, Is<Tuning> auto& tuning) {
  archive.must("mode", json_fields::one_of(tuning.mode, modes));
  archive.must("outcome", json_fields::one_of(tuning.outcome, tuning_outcomes));
  archive.must("because", tuning.because);
  archive.must("seed", tuning.seed);
  archive.must("wall_s", tuning.wall_s);
  archive.must("stages", tuning.stages);
  archive.must("nccl_version", tuning.nccl_version);
  archive.must("ranks", tuning.ranks);
  archive.must("nodes", tuning.nodes);
  archive.must("drift", any(tuning.drift));
  archive.must("cells", tuning.size_points);
  archive.must("failures", tuning.failures);
  archive.must("arms", tuning.arms);
  archive.must("ways", tuning.call_modes);
  archive.must("environment", tuning.environment);
  archive.must("rows", tuning.rows);
  archive.must("confirmations", tuning.confirmations);
  archive.must("processes", tuning.processes);
  archive.must("refusals", tuning.refusals);
  archive.must("files", tuning.files);
  archive.must("loading", tuning.loading);
}

json to_json(const Tuning& tuning) { return json_fields::written(tuning); }

Tuning tuning_from_json(const json& j) { return json_fields::read_as<Tuning>(j); }

}  // namespace p5::reports
