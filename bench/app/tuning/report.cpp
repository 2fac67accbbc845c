#include "bench/app/tuning/report.hpp"

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

reports::TuningWay way_of(const WayTried& each) {
  reports::TuningWay way{.name = std::string(each.way.name), .how = std::string(each.way.how), .sizes = {}};
  for (const WaySize& size : each.sizes)
    way.sizes.push_back({.collective = size.cell.collective,
                         .bytes = size.cell.bytes,
                         .gain = gain_of(size.gain),
                         .because = size.because});
  return way;
}

reports::TuningSetting measured(const tuner::Record& record, const tuner::Candidate& candidate) {
  const std::vector<double> samples = tuner::samples_of(record, candidate);
  reports::TuningSetting setting;
  setting.setting = to_text(candidate);
  setting.samples = static_cast<int>(samples.size());
  if (!samples.empty()) setting.median_us = 1e6 * median(samples);
  const std::vector<double> launched = tuner::samples_of(record, candidate, tuner::Visit::launched);
  if (!launched.empty()) setting.launched_us = 1e6 * median(launched);
  return setting;
}

// The default, what NCCL offered, and what else was tried.
std::vector<reports::TuningSetting> settings_of(const tuner::Record& record) {
  std::vector<reports::TuningSetting> settings{measured(record, {})};
  for (const tuner::Offer& offer : record.offers) {
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

reports::TuningCell cell_of(const tuner::Record& record, const tuner::CellVerdict* verdict) {
  reports::TuningCell cell;
  cell.collective = record.cell.collective;
  cell.bytes = record.cell.bytes;
  cell.tuner_bytes = record.cell.tuner_bytes;
  cell.settings = settings_of(record);
  cell.samples = record.samples_before;
  for (const reports::TuningSetting& setting : cell.settings) {
    cell.samples += setting.samples;
    cell.candidates += setting.samples > 0 && setting.setting != "default" ? 1 : 0;
  }
  for (const tuner::Block& block : record.blocks)
    if (block.visit == tuner::Visit::launched)
      cell.samples +=
          static_cast<int>(std::ranges::count(block.trials, tuner::Trial::Outcome::measured, &tuner::Trial::outcome));
  cell.winner = text_of(record.winner);
  cell.because = record.remark;
  if (!verdict) return cell;
  cell.believed = verdict->believed;
  cell.noise = verdict->noise;
  cell.gain = gain_of(verdict->gain);
  cell.because = verdict->because;
  return cell;
}

void add_outcome(reports::Tuning& tuning, const TuningCourse& course, const tuner::TuningResult& result) {
  const bool sets = !result.table.rows.empty() || !result.environment.empty();
  tuning.outcome = sets ? "settings" : course.drift.refused || course.left_out ? "refused" : "nothing";
  tuning.because = course.drift.sentence;
  if (sets)
    tuning.because =
        fmt::format("{} of sizes with a setting of its own. {}",
                    result.table.rows.size() == 1 ? "One range" : fmt::format("{} ranges", result.table.rows.size()),
                    course.drift.sentence);
  if (!sets && !result.nothing_because.empty()) tuning.because = result.nothing_because;
}

void add_arms(reports::Tuning& tuning, const TuningCourse& course, const tuner::TuningResult& result) {
  for (const WayTried& each : course.ways) tuning.ways.push_back(way_of(each));
  for (const tuner::JudgedArm& judged : course.arms) {
    reports::TuningArm arm;
    arm.name = judged.arm.name;
    arm.environment = judged.arm.environment;
    if (judged.objective) {
      arm.speedup = judged.objective->speedup;
      arm.interval = judged.objective->interval;
    }
    arm.adopted = !arm.environment.empty() && arm.environment == result.environment;
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
  if (!course.drift.sentence.empty()) tuning.drift = course.drift.share;
  add_outcome(tuning, course, result);
  for (std::size_t i = 0; i < course.search.records.size(); ++i)
    tuning.cells.push_back(
        cell_of(course.search.records[i], i < course.verdicts.size() ? &course.verdicts[i] : nullptr));
  for (const tuner::Failure& failure : course.search.failures)
    tuning.failures.push_back({failure.cell.collective, failure.cell.bytes, to_text(failure.candidate),
                               failure.outcome == tuner::Trial::Outcome::wrong_data, failure.because});
  add_arms(tuning, course, result);
  tuning.environment = result.environment;
  for (const tuner::Row& row : result.table.rows)
    tuning.rows.push_back(
        {std::string(name_of(row.function)), row.from, row.to, to_text(row.setting), row.microseconds});
  for (const tuner::ConfirmedCell& cell : course.confirmed.cells)
    tuning.confirmations.push_back({std::string(name_of(cell.function)), cell.tuner_bytes, text_of(cell.setting),
                                    gain_of(cell.gain), gain_of(cell.launched), cell.verdict});
  tuning.processes = course.confirmed.processes;
  tuning.refusals = course.confirmed.dropped;
  tuning.refusals.insert(tuning.refusals.end(), course.remarks.begin(), course.remarks.end());
  for (const tuner::NamedFile& file : files) tuning.files.push_back(file.name);
  return tuning;
}

std::vector<tuner::GainLine> gain_lines(const tuner::Confirmed& confirmed) {
  std::vector<tuner::GainLine> lines;
  for (const tuner::ConfirmedCell& cell : confirmed.cells)
    if (cell.setting && cell.gain && cell.gain->interval && cell.gain->interval->low > 0)
      lines.push_back({std::string(name_of(cell.function)), cell.tuner_bytes, to_text(*cell.setting), *cell.gain});
  std::ranges::stable_sort(lines, {},
                           [](const tuner::GainLine& line) { return std::tie(line.collective, line.bytes); });
  return lines;
}

}  // namespace p5
