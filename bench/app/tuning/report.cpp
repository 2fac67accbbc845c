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
  const std::vector<double> throughput = tuner::samples_of(record, candidate, true);
  if (!throughput.empty()) setting.launched_us = 1e6 * median(throughput);
  return setting;
}

// The default, what NCCL offered, and what else was tried.
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

reports::TuningCell cell_of(const tuner::Record& record, const tuner::Table& table) {
  reports::TuningCell cell;
  cell.collective = record.cell.collective;
  cell.bytes = cell.tuner_bytes = record.cell.bytes;
  cell.settings = settings_of(record);
  for (const reports::TuningSetting& setting : cell.settings)
    cell.candidates += setting.samples > 0 && setting.setting != "default" ? 1 : 0;
  for (const tuner::Block& block : record.blocks)
    cell.samples += static_cast<int>(std::ranges::count(block.trials, Trial::Outcome::measured, &Trial::outcome));
  const std::vector<double> standard = tuner::samples_of(record, {});
  if (!standard.empty()) cell.noise = robust_deviation(standard) / median(standard);
  cell.winner = text_of(record.winner);
  cell.because = record.because;
  if (!record.winner) return cell;
  const std::optional<tuner::Function> function = tuner::parse_function(record.cell.collective);
  const tuner::Row* const row = function ? tuner::find_row(table, *function, record.cell.bytes) : nullptr;
  cell.believed = row && row->setting == *record.winner;
  const double share = tuner::gain_in(record, *record.winner).value_or(0);
  cell.gain = reports::TuningGain{median(standard), median(tuner::samples_of(record, {record.winner})), share, {}};
  cell.because = fmt::format("{} saves {:.1f} % in the search{}", *cell.winner, 100 * share,
                             cell.believed ? " and was confirmed" : "; it is not set");
  return cell;
}

void add_outcome(reports::Tuning& tuning, const TuningCourse& course, const tuner::TuningResult& result) {
  const bool sets = !result.table.rows.empty() || !result.environment.empty();
  tuning.outcome = sets ? "settings" : course.left_out ? "refused" : "nothing";
  if (sets)
    tuning.because =
        fmt::format("{} of sizes with a setting of its own.",
                    result.table.rows.size() == 1 ? "One range" : fmt::format("{} ranges", result.table.rows.size()));
  if (!sets)
    tuning.because =
        result.nothing_because.empty() ? "Nothing that was tried beats the default." : result.nothing_because;
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
  add_outcome(tuning, course, result);
  for (const tuner::Record& record : course.search.records) tuning.cells.push_back(cell_of(record, result.table));
  for (const tuner::Failure& failure : course.search.failures)
    tuning.failures.push_back({failure.cell.collective, failure.cell.bytes, to_text(failure.candidate),
                               failure.outcome == Trial::Outcome::wrong_data, failure.because});
  add_arms(tuning, course, result);
  tuning.environment = result.environment;
  for (const tuner::Row& row : result.table.rows)
    tuning.rows.push_back(
        {std::string(name_of(row.function)), row.from, row.to, to_text(row.setting), row.microseconds});
  for (const tuner::ConfirmedCell& cell : course.confirmations)
    tuning.confirmations.push_back({std::string(name_of(cell.function)), cell.bytes, text_of(cell.setting),
                                    gain_of(cell.gain), gain_of(cell.throughput), cell.verdict});
  tuning.processes = course.processes;
  tuning.refusals = course.dropped;
  tuning.refusals.insert(tuning.refusals.end(), course.remarks.begin(), course.remarks.end());
  for (const tuner::NamedFile& file : files) tuning.files.push_back(file.name);
  return tuning;
}

std::vector<tuner::GainLine> gain_lines(const std::vector<tuner::ConfirmedCell>& confirmed) {
  std::vector<tuner::GainLine> lines;
  for (const tuner::ConfirmedCell& cell : confirmed)
    if (cell.setting && cell.gain && cell.gain->interval.low > 0)
      lines.push_back({std::string(name_of(cell.function)), cell.bytes, to_text(*cell.setting), *cell.gain});
  std::ranges::stable_sort(lines, {},
                           [](const tuner::GainLine& line) { return std::tie(line.collective, line.bytes); });
  return lines;
}

}  // namespace p5
