#include "bench/app/tuning/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace p5 {

namespace {

std::optional<reports::TuningGain> gain_of(const std::optional<tuner::Gain>& gain) {
  if (!gain) return std::nullopt;
  return reports::TuningGain{gain->standard_s, gain->tuned_s, gain->share, gain->interval};
}

std::optional<std::string> text_of(const std::optional<tuner::Setting>& setting) {
  return setting ? std::optional(to_text(*setting)) : std::nullopt;
}

reports::TuningCallMode call_mode_report(const CallModeResult& each) {
  reports::TuningCallMode mode{.name = std::string(each.way.name), .how = std::string(each.way.how), .sizes = {}};
  for (const CallModeSize& size : each.sizes)
    mode.sizes.push_back({.collective = size.point.collective,
                          .bytes = size.point.bytes,
                          .gain = gain_of(size.gain),
                          .because = size.because,
                          .alone_gain = gain_of(size.alone)});
  return mode;
}

reports::TuningSetting measured(const tuner::Record& record, const tuner::Candidate& candidate) {
  const std::vector<double> samples = tuner::samples_of(record, candidate);
  reports::TuningSetting setting;
  setting.setting = to_text(candidate);
  setting.samples = static_cast<int>(samples.size());
  if (!samples.empty()) setting.median_us = 1e6 * median(samples);
  const std::vector<double> second = tuner::samples_of(record, candidate, true);
  if (!second.empty()) (record.operations.empty() ? setting.launched_us : setting.alone_us) = 1e6 * median(second);
  return setting;
}

// The default, the settings that NCCL offered, and others that were tried.
std::vector<reports::TuningSetting> settings_of(const tuner::Record& record) {
  std::vector<reports::TuningSetting> settings{measured(record, {})};
  for (const tuner::CostEntry& offer : record.offered) {
    settings.push_back(measured(record, {offer.setting}));
    settings.back().predicted_us = offer.microseconds;
    settings.back().chosen = offer.chosen;
  }
  for (const tuner::Block& block : record.blocks)
    for (const tuner::Candidate& candidate : block.candidates)
      if (std::ranges::find(settings, to_text(candidate), &reports::TuningSetting::setting) == settings.end())
        settings.push_back(measured(record, candidate));
  return settings;
}

reports::TuningSizePoint point_of(const tuner::Record& record, const tuner::Table& table) {
  reports::TuningSizePoint point;
  point.collective = record.point.collective;
  point.bytes = point.tuner_bytes = record.point.bytes;
  point.settings = settings_of(record);
  point.operations = record.operations;
  for (const reports::TuningSetting& setting : point.settings)
    point.candidates += setting.samples > 0 && setting.setting != "default" ? 1 : 0;
  for (const tuner::Block& block : record.blocks)
    point.samples += static_cast<int>(std::ranges::count(block.trials, Trial::Outcome::measured, &Trial::outcome));
  const std::vector<double> standard = tuner::samples_of(record, {});
  if (!standard.empty()) point.noise = robust_deviation(standard) / median(standard);
  point.winner = text_of(record.winner);
  point.because = record.because;
  if (!record.winner) return point;
  const std::optional<tuner::Function> function = tuner::parse_function(record.point.collective);
  const tuner::Row* const row = function ? tuner::find_row(table, *function, record.point.bytes) : nullptr;
  point.believed = row && row->setting == *record.winner;
  const double share = tuner::median_gain(record, *record.winner).value_or(0);
  point.gain = reports::TuningGain{median(standard), median(tuner::samples_of(record, {record.winner})), share, {}};
  point.because = fmt::format("{} saves {:.1f} % in the search{}", *point.winner, 100 * share,
                              point.believed ? " and was confirmed" : "; it is not set");
  return point;
}

}  // namespace

bool is_decided(const TuningCourse& course) {
  const auto measured = [](const tuner::Record& record) { return !tuner::samples_of(record, {}).empty(); };
  const auto compared = [](const CallModeResult& way) {
    return std::ranges::any_of(way.sizes, [](const CallModeSize& size) { return size.gain.has_value(); });
  };
  return !course.skipped && (std::ranges::any_of(course.search.records, measured) || !course.arms.empty() ||
                             std::ranges::any_of(course.call_modes, compared));
}

namespace {

void add_outcome(reports::Tuning& tuning, const TuningCourse& course, const tuner::TuningResult& result) {
  const bool sets = !result.table.rows.empty() || !result.environment.empty();
  tuning.outcome = sets ? "settings" : is_decided(course) ? "nothing" : "refused";
  if (!result.table.rows.empty())
    tuning.because =
        fmt::format("{} of sizes with a setting of its own.",
                    result.table.rows.size() == 1 ? "One range" : fmt::format("{} ranges", result.table.rows.size()));
  else if (sets)
    tuning.because = fmt::format("{} for all sizes.", tuner::make_arm(result.environment).name);
  else
    tuning.because = !result.no_settings_reason.empty() ? result.no_settings_reason
                     : is_decided(course)               ? "Nothing that was tried beats the default."
                                                        : "Nothing was tried: no setting applies to what is measured.";
}

void add_arms(reports::Tuning& tuning, const TuningCourse& course, const tuner::TuningResult& result) {
  for (const CallModeResult& each : course.call_modes) tuning.call_modes.push_back(call_mode_report(each));
  for (const tuner::JudgedArm& judged : course.arms) {
    reports::TuningArm arm;
    arm.name = judged.arm.name;
    arm.environment = judged.arm.environment;
    if (judged.objective) {
      arm.speedup = judged.objective->speedup;
      arm.interval = judged.objective->interval;
    }
    if (judged.alone) arm.alone_speedup = judged.alone->speedup;
    arm.adopted = !arm.environment.empty() && with_default(course, arm.environment) == result.environment;
    if (arm.adopted && result.environment_speedup) {  // as in the files
      arm.speedup = result.environment_speedup->speedup;
      arm.interval = result.environment_speedup->interval;
      if (result.environment_speedup_alone) arm.alone_speedup = result.environment_speedup_alone->speedup;
    }
    tuning.arms.push_back(arm);
  }
}

}  // namespace

reports::Tuning tuning_report(const TuningCourse& course, const tuner::TuningResult& result,
                              const std::vector<tuner::NamedFile>& files) {
  reports::Tuning tuning;
  tuning.mode = course.mode;
  tuning.seed = course.seed;
  tuning.wall_s = course.wall_s;
  tuning.stages = course.stages;
  tuning.nccl_version = result.table.nccl_version;
  tuning.ranks = result.table.ranks;
  tuning.nodes = result.table.nodes;
  if (!result.beside.empty()) tuning.beside = reports::TuningBeside{result.beside, result.alone_loss};
  add_outcome(tuning, course, result);
  for (const tuner::Record& record : course.search.records)
    tuning.size_points.push_back(point_of(record, result.table));
  for (const tuner::Failure& failure : course.search.failures)
    tuning.failures.push_back({failure.point.collective, failure.point.bytes, to_text(failure.candidate),
                               failure.outcome == Trial::Outcome::wrong_data, failure.because});
  add_arms(tuning, course, result);
  tuning.environment = result.environment;
  for (const tuner::Row& row : result.table.rows)
    tuning.rows.push_back(
        {std::string(name_of(row.function)), row.from, row.to, to_text(row.setting), row.microseconds});
  for (const tuner::ConfirmedSizePoint& point : course.confirmations)
    tuning.confirmations.push_back({std::string(name_of(point.function)), point.bytes, text_of(point.setting),
                                    gain_of(point.gain), gain_of(point.throughput), point.verdict,
                                    gain_of(point.alone)});
  tuning.step = gain_of(course.step);
  tuning.processes = course.processes;
  tuning.refusals = course.dropped;
  tuning.refusals.insert(tuning.refusals.end(), course.remarks.begin(), course.remarks.end());
  for (const tuner::Failure& failure : course.search.failures)
    if (failure.candidate.is_default())
      tuning.refusals.push_back(fmt::format("{} {} was left out, because it failed with NCCL's own settings: {}",
                                            failure.point.collective, to_text(Bytes{failure.point.bytes}),
                                            failure.because));
  for (const tuner::NamedFile& file : files) tuning.files.push_back(file.name);
  return tuning;
}

std::vector<tuner::GainLine> gain_lines(const std::vector<tuner::ConfirmedSizePoint>& confirmed) {
  std::vector<tuner::GainLine> lines;
  const auto is_faster = [](const tuner::ConfirmedSizePoint& point) {
    return point.setting && point.gain && point.gain->interval.low > 0;
  };
  // A row may be faster over its sizes, and none of them by itself beyond doubt.
  const bool any = std::ranges::any_of(confirmed, is_faster);
  for (const tuner::ConfirmedSizePoint& point : confirmed)
    if (is_faster(point) || (!any && point.setting && point.gain))
      lines.push_back(
          {std::string(name_of(point.function)), point.bytes, to_text(*point.setting), *point.gain, point.alone});
  std::ranges::stable_sort(lines, {},
                           [](const tuner::GainLine& line) { return std::tie(line.collective, line.bytes); });
  return lines;
}

}  // namespace p5
