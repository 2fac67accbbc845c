#include "reports/baseline.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/measure/effect.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/decision.hpp"
#include "reports/markup.hpp"

namespace p5::reports {

namespace {

// A case beside the plan may be one of the plan measured again.
std::string key_with_arm(const Case& c) {
  return fmt::format("{}|{}|{}", c.arm, c.for_parts ? "beside the plan" : "", side_key(c));
}

std::optional<double> median_time(const std::vector<Launch>& launches) {
  return launches.empty() ? std::nullopt : std::optional(median_of(launches));
}

constexpr double outlying = 3.5;  // Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993

struct Outlier {
  const RunTimes* run = nullptr;
  double times_matters = 0;  // distance in units of the threshold that matters
  std::string because;
};

// The run with the largest distance beyond the tolerance; `run` is null if there is none.
Outlier find_outlier(const std::vector<const RunTimes*>& runs) {
  Outlier worst;
  std::set<std::string> rows;
  for (const RunTimes* run : runs)
    for (const auto& [row, its] : run->rows) rows.insert(row);
  for (const std::string& row : rows) {
    const std::map<const RunTimes*, RunDeviation> off = deviations(runs, row);
    std::vector<double> sizes;
    for (const auto& [run, own] : off) sizes.push_back(std::abs(own.log));
    const double scatter = standard_deviation_per_mad * median(sizes);
    for (const auto& [run, own] : off) {
      const double deviation = own.log;
      const double matters = run->rows.at(row).matters;
      if (std::abs(deviation) <= matters || std::abs(deviation) <= outlying * scatter) continue;
      if (std::abs(deviation) / matters <= worst.times_matters) continue;
      worst = {run, std::abs(deviation) / matters,
               fmt::format("{} is {:.1f} % {} than the median of the others", row,
                           100 * std::abs(std::expm1(deviation)), deviation > 0 ? "slower" : "faster")};
    }
  }
  return worst;
}

// Removes the runs of other hardware than the newest one's; adds them to `excluded`.
void keep_hardware_of_newest(std::span<const Run> runs, std::vector<std::size_t>& kept,
                             std::vector<ExcludedRun>& excluded) {
  if (kept.empty()) return;
  const Run& newest = runs[*std::ranges::max_element(
      kept, {}, [&](std::size_t i) { return std::string_view(runs[i].report.run.started); })];
  std::erase_if(kept, [&](std::size_t i) {
    if (const std::string hardware = other_hardware({&runs[i].report, 1}, {&newest.report, 1}); !hardware.empty())
      excluded.push_back(
          {runs[i].name, fmt::format("it is of other hardware than the newest, {} ({})", newest.name, hardware)});
    else if (const std::string waiting = other_waiting(runs[i].report, newest.report); !waiting.empty())
      excluded.push_back({runs[i].name, waiting});
    else
      return false;
    return true;
  });
}

// Indices of the kept runs; adds the others to `excluded`.
std::vector<std::size_t> choose_runs(std::span<const Run> runs, std::vector<ExcludedRun>& excluded) {
  std::vector<RunTimes> times(runs.size());
  std::vector<std::size_t> kept;
  const auto is_healthy = [](const Report& report) { return why_no_baseline(report).empty(); };
  const std::vector<std::string> repeated = why_repeated(runs, is_healthy);
  const RowLabels labels(runs, "default");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string because = repeated[i].empty() ? why_no_baseline(runs[i].report) : repeated[i];
    if (!because.empty()) {
      excluded.push_back({runs[i].name, because});
      continue;
    }
    times[i] = times_of(runs[i], labels);
    kept.push_back(i);
  }
  const std::size_t sound = kept.size();
  keep_hardware_of_newest(runs, kept, excluded);
  for (;;) {
    std::vector<const RunTimes*> present;
    for (const std::size_t i : kept) present.push_back(&times[i]);
    const Outlier worst = find_outlier(present);
    if (!worst.run) break;
    const auto index = static_cast<std::size_t>(worst.run - times.data());
    excluded.push_back({runs[index].name, worst.because});
    std::erase(kept, index);
  }
  if (kept.empty() || 2 * kept.size() <= sound)
    throw UsageError(
        fmt::format("of {} reports {} are left after those that are not whole, empty, not right, slow, of other "
                    "hardware or outlying: no majority tells what is healthy ({}: {})",
                    runs.size(), kept.size(), excluded.back().name, excluded.back().because));
  return kept;
}

std::vector<double> medians_of(const std::vector<Launch>& launches) {
  std::vector<double> medians;
  for (const Launch& launch : launches) medians.push_back(launch.median_s);
  return medians;
}

// Empty if the launches are of one run.
std::vector<int> runs_of_launches(const std::vector<Launch>& launches) {
  std::vector<int> runs;
  for (const Launch& launch : launches) runs.push_back(launch.run);
  if (std::ranges::all_of(runs, [](int run) { return run == 0; })) runs.clear();
  return runs;
}

std::optional<double> rounding_of(std::span<const Launch> launches) {
  double most = 0;
  for (const Launch& launch : launches) most = std::max(most, launch.rounding_s);
  return most > 0 ? std::optional(most * 1e6) : std::nullopt;
}

Series series_of(const std::vector<Launch>& launches, int operations) {
  Series series;
  series.operations_per_sample = operations;
  std::vector<double> samples;
  for (const Launch& launch : launches) {
    samples.insert(samples.end(), launch.samples_s.begin(), launch.samples_s.end());
    if (launch.samples_s.empty()) samples.push_back(launch.median_s);
  }
  const std::vector<double> medians = medians_of(launches);
  series.summary = summarize(samples);
  // The interval is over launches: samples within one are not independent.
  series.summary.median = median(medians);
  series.summary.interval = median_interval(medians);
  series.stopped_because = fmt::format("a baseline of {} launches", launches.size());
  series.rounding_us = rounding_of(launches);
  return series;
}

int operations_of(const std::optional<Series>& series) { return series ? series->operations_per_sample : 1; }

// True for a case of the plan that was measured: not one of another arm, and not one that only localizes faults.
bool is_of_plan(const Result& each) {
  const Measurement& m = each.measurement;
  return m.outcome == Outcome::measured && m.measured_case.arm == "default" && !m.measured_case.for_parts;
}

// Merges the case over all kept runs; other members come from the newest run that measured it.
Result merge_runs(const Observation& observation, const Result& newest) {
  Result result = newest;
  Measurement& m = result.measurement;
  m.latency_launches_s = medians_of(observation.latency);
  m.launches_s = medians_of(observation.throughput);
  m.latency_launch_runs = runs_of_launches(observation.latency);
  m.launch_runs = runs_of_launches(observation.throughput);
  if (!observation.latency.empty()) m.latency = series_of(observation.latency, operations_of(m.latency));
  if (!observation.throughput.empty()) m.throughput = series_of(observation.throughput, operations_of(m.throughput));
  if (observation.selections.size() > 1) m.selection.reset();
  return result;
}

// Launches without samples have lines too, which say which launches are of one run.
void add_journal_lines(const Observation& observation, std::vector<Result>& journal) {
  std::map<int, Measurement> lines;
  const auto add = [&](const std::vector<Launch>& launches, std::optional<Series> Measurement::*which) {
    for (const Launch& launch : launches) {
      Measurement& line = lines[launch.number];
      line.measured_case = observation.measured_case;
      line.launch = launch.number;
      line.run = launch.run;
      Series& series = (line.*which).emplace();
      series.samples = launch.samples_s;
      series.summary = summarize(launch.samples_s.empty() ? std::vector{launch.median_s} : launch.samples_s);
      series.summary.median = launch.median_s;  // which of an import is not that of its samples
      if (launch.samples_s.empty()) series.summary.interval = launch.interval;
      series.rounding_us = rounding_of({&launch, 1});
    }
  };
  add(observation.latency, &Measurement::latency);
  add(observation.throughput, &Measurement::throughput);
  for (auto& [number, line] : lines) journal.push_back({std::move(line), {}});
}

// Numbers the launches of all cases together from 0, without the numbers of launches that do not count: a number is the
// same launch, and so of the same run, in all cases.
void renumber(std::vector<Observation>& observations) {
  std::map<int, int> numbers;
  const auto for_each_launch = [&](const auto& action) {
    for (Observation& each : observations)
      for (std::vector<Launch>* launches : {&each.latency, &each.throughput})
        for (Launch& launch : *launches) action(launch);
  };
  for_each_launch([&](const Launch& launch) { numbers[launch.number] = 0; });
  int next = 0;
  for (auto& [number, its] : numbers) its = next++;
  for_each_launch([&](Launch& launch) { launch.number = numbers.at(launch.number); });
}

}  // namespace

std::string why_no_baseline(const Report& report) {
  if (report.status != "complete") return "the run did not finish";
  if (std::ranges::none_of(report.results, is_of_plan))
    return report.arms.empty() ? "nothing was measured in it" : "nothing of the arm 'default' was measured in it";
  for (const Result& result : report.results) {
    if (result.measurement.wrong_elements > 0)
      return fmt::format("{} gave wrong data", describe(result.measurement.measured_case));
    if (result.measurement.outcome == Outcome::failed)
      return fmt::format("{} failed", describe(result.measurement.measured_case));
    if (result.verdict.grade == Grade::slow)
      return fmt::format("{} was slow: {}", describe(result.measurement.measured_case), result.verdict.because);
  }
  if (const auto& found = report.findings; std::ranges::any_of(found, topo::condemns))
    return fmt::format("the machine was faulty: {}", std::ranges::find_if(found, topo::condemns)->evidence);
  if (!report.suspects.empty())
    return fmt::format("it suspects {} {}", report.suspects.front().kind, report.suspects.front().name);
  if (!report.open_questions.empty())
    return fmt::format("it found {} at fault", alternatives(report.open_questions.front().candidates));
  // The exit code of a run with arms says which arm is slower.
  if (report.arms.empty() && report.exit_code != ExitCode::ok && report.exit_code != ExitCode::inconclusive)
    return fmt::format("it ended with {}: {}", static_cast<int>(report.exit_code), report.decision.sentence);
  return "";
}

std::string row_name(std::string_view collective, Quantity quantity, std::string_view band) {
  return fmt::format("{}, {}, {}", collective, name_of(quantity), band);
}

RunTimes times_of(const Run& run, const RowLabels& labels, std::string_view arm) {
  RunTimes times;
  for (const Observation& observation : make_side(run.name, {&run, 1}, arm).observations)
    for (const auto& [quantity, launches] : {std::pair(Quantity::latency, &observation.latency),
                                             std::pair(Quantity::throughput, &observation.throughput)}) {
      if (launches->empty() || !decides(observation, quantity)) continue;
      const Case& c = observation.measured_case;
      const BandRule& band = band_of(c);
      const std::string label = labels.of(c);
      RunTimes::Row& row = times.rows[row_name(label, quantity, band.name)];
      const double time = median_of(*launches), share = matters_at(band, time);
      row.times[identity_of(c)] = std::log(time);
      row.matters = std::max(row.matters, std::log1p(share));
      row.negligible = std::max(row.negligible, std::log1p(band.negligible * share));
      row.shown = row_name(label, quantity, meaning_of(band.name));
    }
  return times;
}

namespace {

// The times of one row in the runs that have it, as logarithms: cases by index.
struct RowOfRun {
  const RunTimes* run = nullptr;
  std::vector<std::pair<std::size_t, double>> times;
  std::size_t group = 0;
  double effect = 0;
};

// Numbers the groups of runs that cases in common connect, also by way of other runs.
void group_by_cases(std::vector<RowOfRun>& runs, std::size_t cases) {
  std::vector<std::size_t> group(runs.size());
  std::iota(group.begin(), group.end(), std::size_t{0});
  std::vector<std::size_t> of_case(cases, runs.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < runs.size(); ++i)
      for (const auto& [which, time] : runs[i].times) {
        const std::size_t least = std::min(group[i], of_case[which]);
        changed |= least != group[i] || least != of_case[which];
        group[i] = of_case[which] = least;
      }
  }
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].group = group[i];
}

// Fits time = case + run: the median over runs for each case, the mean over cases for each run, in turns until neither
// changes. A run with other cases than most is so compared over the runs that have both.
void fit_effects(std::vector<RowOfRun>& runs, std::size_t cases) {
  constexpr int most_turns = 500;
  constexpr double settled = 1e-7;
  double moved = 1;
  for (int turn = 0; turn < most_turns && moved > settled; ++turn) {
    std::vector<std::vector<double>> left(cases);
    for (const RowOfRun& run : runs)
      for (const auto& [which, time] : run.times) left[which].push_back(time - run.effect);
    std::vector<double> of_case;
    for (std::vector<double>& each : left) of_case.push_back(median(std::move(each)));
    moved = 0;
    for (RowOfRun& run : runs) {
      double sum = 0;
      for (const auto& [which, time] : run.times) sum += time - of_case[which];
      const double effect = sum / static_cast<double>(run.times.size());
      moved = std::max(moved, std::abs(effect - run.effect));
      run.effect = effect;
    }
  }
}

}  // namespace

std::map<const RunTimes*, RunDeviation> deviations(const std::vector<const RunTimes*>& runs, const std::string& row) {
  std::vector<RowOfRun> with_row;
  std::map<std::string_view, std::size_t> numbers;
  for (const RunTimes* run : runs) {
    const auto found = run->rows.find(row);
    if (found == run->rows.end()) continue;
    RowOfRun& own = with_row.emplace_back();
    own.run = run;
    for (const auto& [which, time] : found->second.times)
      own.times.emplace_back(numbers.try_emplace(which, numbers.size()).first->second, time);
  }
  group_by_cases(with_row, numbers.size());
  fit_effects(with_row, numbers.size());
  std::map<std::size_t, std::vector<double>> of_group;
  for (const RowOfRun& run : with_row) of_group[run.group].push_back(run.effect);
  std::map<std::size_t, double> middle;
  for (auto& [group, effects] : of_group) middle[group] = median(std::move(effects));
  std::map<const RunTimes*, RunDeviation> all;
  for (const RowOfRun& run : with_row) all[run.run] = {run.effect - middle.at(run.group), run.group};
  return all;
}

Baseline make_baseline(std::span<const Run> runs, const std::string& made) {
  Baseline baseline;
  std::vector<Run> kept;
  for (const std::size_t i : choose_runs(runs, baseline.excluded)) {
    kept.push_back(runs[i]);
    baseline.kept.push_back(runs[i].name);
  }
  order_by_launch(kept, made);
  baseline.newest = kept.back().name;
  Side side = make_side("baseline", kept);
  std::map<std::string, const Result*> newest;
  for (const Run& run : kept)
    for (const Result& result : run.report.results)
      if (is_of_plan(result)) newest[side_key(result.measurement.measured_case)] = &result;
  Report& report = baseline.report = kept.back().report;
  report.results.clear();
  report.tuning.reset();
  report.run.started = kept.front().report.run.started;
  report.run.ended = made;
  report.run.folder.clear();
  report.run.launches = 0;
  renumber(side.observations);
  for (const Observation& observation : side.observations) {
    if (!observation.measured()) continue;
    report.results.push_back(merge_runs(observation, *newest.at(side_key(observation.measured_case))));
    const std::size_t most = std::max(observation.latency.size(), observation.throughput.size());
    report.run.launches = std::max(report.run.launches, static_cast<int>(most));
    add_journal_lines(observation, baseline.journal);
  }
  report.run.remarks = {fmt::format("a baseline of {}: {}", counted(kept.size(), "run"), join(baseline.kept))};
  report.run.remarks.insert(report.run.remarks.end(), side.remarks.begin(), side.remarks.end());
  report.run.held.clear();
  for (const Run& run : kept) std::ranges::move(held_by(run), std::back_inserter(report.run.held));
  for (const ExcludedRun& each : baseline.excluded)
    report.run.remarks.push_back(fmt::format("left out of the baseline: {} ({})", each.name, each.because));
  return baseline;
}

void add_samples(std::span<const Result> journal, Report& report) {
  // A repeated measurement replaces the earlier one.
  std::unordered_map<std::string, std::map<int, const Measurement*>> lines;
  for (const Result& line : journal)
    lines[key_with_arm(line.measurement.measured_case)].insert_or_assign(line.measurement.launch.value_or(0),
                                                                         &line.measurement);
  for (Result& result : report.results) {
    Measurement& m = result.measurement;
    const auto found = lines.find(key_with_arm(m.measured_case));
    if (found == lines.end()) continue;
    for (const auto series : {&Measurement::latency, &Measurement::throughput}) {
      if (!(m.*series)) continue;
      std::vector<double>& samples = (m.*series)->samples;
      samples.clear();
      for (const auto& [launch, line] : found->second)
        if (const std::optional<Series>& part = line->*series)
          samples.insert(samples.end(), part->samples.begin(), part->samples.end());
    }
  }
}

void add_baseline(const Side& baseline, Report& report) {
  std::unordered_map<std::string, BaselineTimes> times;
  for (const Observation& observation : baseline.observations)
    times[side_key(observation.measured_case)] = {median_time(observation.latency),
                                                  median_time(observation.throughput)};
  for (Result& result : report.results) {
    const Case& c = result.measurement.measured_case;
    if (const auto found = times.find(side_key(c)); c.arm == "default" && found != times.end())
      result.baseline = found->second;
  }
}

}  // namespace p5::reports
