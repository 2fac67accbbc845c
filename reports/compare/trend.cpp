// The history of a machine: levels of each row and their changes.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "bench/base/statistics.hpp"
#include "bench/measure/change_points.hpp"
#include "reports/baseline.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/markup.hpp"

namespace p5::reports {

namespace {

std::string software_of(const Report& report) {
  const auto library = report.context.find("nccl");
  return fmt::format("p5bench {}{}", report.run.version,
                     library == report.context.end() ? "" : ", NCCL " + library->second);
}

// The values of one row in the runs that have it.
struct RowSeries {
  std::vector<std::size_t> runs;
  std::vector<double> logs;
};

RowSeries series_of(const Trend& trend, std::size_t row) {
  RowSeries series;
  for (std::size_t i = 0; i < trend.points.size(); ++i)
    if (const std::optional<double>& ratio = trend.points[i].ratios[row]) {
      series.runs.push_back(i);
      series.logs.push_back(std::log(*ratio));
    }
  return series;
}

// Thresholds of a row, as logarithms.
struct Limits {
  double negligible = 0, matters = 0;
};

// Log ratio of the newest level to the level before a change; null unless it is significantly slower and the newest run
// is on it. [begin, end) is the level before the change; `newest` begins the last level.
std::optional<double> still_slower(std::span<const double> logs, std::size_t begin, std::size_t end, std::size_t newest,
                                   const Limits& limits) {
  const auto launches_of = [&](std::size_t from, std::size_t to) {
    std::vector<Launch> launches;
    for (std::size_t i = from; i < to; ++i) launches.emplace_back().median_s = std::exp(logs[i]);
    return launches;
  };
  const std::vector<Launch> before = launches_of(begin, end), now = launches_of(newest, logs.size());
  const std::vector<Sides> cells{{before, now}};
  const double log = log_ratio(cells.front());
  const Interval interval = resample(cells, {}).overall;
  const bool slower = interval.low > limits.negligible && interval.high >= limits.matters;
  const bool newest_is_on_it = logs.back() > std::log(median_of(before)) + log / 2;
  return slower && newest_is_on_it ? std::optional(log) : std::nullopt;
}

void add_changes(Trend& trend, std::size_t row, const Limits& limits, std::span<const Run> runs) {
  const auto rows = static_cast<double>(trend.rows.size());
  const RowSeries series = series_of(trend, row);
  const ChangeRules rules{.chance = chance_of_change / rows, .negligible = limits.negligible, .seed = row + 1};
  if (!can_show_changes(series.logs.size(), rules.chance)) {
    ++trend.short_rows;
    return;
  }
  std::size_t begin = 0;
  const auto add_level = [&](std::size_t end) {
    const std::span<const double> logs(series.logs);
    const std::span<const double> its = logs.subspan(begin, end - begin);
    trend.levels.push_back({.row = row,
                            .first = series.runs[begin],
                            .last = series.runs[end - 1],
                            .ratio = std::exp(median({its.begin(), its.end()}))});
  };
  const std::vector<ChangePoint> found = find_changes(series.logs, rules);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const ChangePoint& each = found[i];
    const std::size_t end = i + 1 == found.size() ? series.logs.size() : found[i + 1].first;
    const std::size_t before = series.runs[each.first - 1], first = series.runs[each.first];
    std::optional<double> still;
    if (each.after > each.before && series.runs.back() + 1 == runs.size())
      still = still_slower(series.logs, begin, each.first, found.back().first, limits);
    trend.changes.push_back({.row = row,
                             .before = before,
                             .first = first,
                             .ratio = std::exp(each.after - each.before),
                             .runs_before = static_cast<int>(each.first - begin),
                             .runs_after = static_cast<int>(end - each.first),
                             .p = each.p,
                             .p_adjusted = std::min(1.0, each.p * rows),
                             .still = still ? std::optional(std::exp(*still)) : std::nullopt,
                             .differences = differences_of({&runs[before].report, 1}, {&runs[first].report, 1})});
    add_level(each.first);
    begin = each.first;
  }
  add_level(series.logs.size());
}

// How much slower the newest run is than the runs before it, at most, as a logarithm: than the median of all and than
// that of the last three, so that neither the level of most runs nor the newest level is undercut. The scatter is that
// of the differences from run to run, which a change of level does not widen. Null: too few runs.
std::optional<double> slower_at_most(const RowSeries& series, std::size_t newest) {
  constexpr std::size_t fewest = 6, last_ones = 3;
  constexpr double two_sided = 1.96;
  if (series.logs.size() < fewest + 1 || series.runs.back() != newest) return std::nullopt;
  const std::vector<double> earlier(series.logs.begin(), series.logs.end() - 1);
  std::vector<double> steps;
  for (std::size_t i = 1; i < earlier.size(); ++i) steps.push_back(std::abs(earlier[i] - earlier[i - 1]));
  const double deviation = standard_deviation_per_mad * median(steps) / std::sqrt(2.0);
  const double of_all = median(earlier), of_last = median({earlier.end() - last_ones, earlier.end()});
  return series.logs.back() - std::min(of_all, of_last) +
         two_sided * deviation * std::sqrt(1 + M_PI / 2 / static_cast<double>(last_ones));
}

}  // namespace

Trend trend_of(std::span<const Run> runs, std::string_view arm) {
  std::vector<RunTimes> times;
  struct About {
    std::string shown;  // the row's name for users
    Limits limits;
  };
  std::map<std::string, About> rows;
  const RowLabels labels(runs, arm);
  for (const Run& run : runs) times.push_back(times_of(run, labels, arm));
  std::vector<const RunTimes*> all;
  Trend trend;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    all.push_back(&times[i]);
    Trend::Point& point = trend.points.emplace_back();
    point.source = runs[i].name;
    point.started = runs[i].report.run.started;
    point.software = software_of(runs[i].report);
    if (i > 0) point.differences = differences_of({&runs[i - 1].report, 1}, {&runs[i].report, 1});
    for (const auto& [row, its] : times[i].rows) {
      About& about = rows[row];
      about.shown = its.shown;
      about.limits.negligible = std::max(about.limits.negligible, its.negligible);
      about.limits.matters = std::max(about.limits.matters, its.matters);
    }
  }
  for (const auto& [row, about] : rows) {
    trend.rows.push_back(row);
    trend.shown_rows.push_back(about.shown);
    const std::map<const RunTimes*, RunDeviation> off = deviations(all, row);
    // Distances of runs that have no case in common do not compare: those of the newest run's group are shown.
    std::optional<std::size_t> group;
    for (const RunTimes* run : all)
      if (const auto found = off.find(run); found != off.end()) group = found->second.group;
    std::size_t other_cases = 0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto found = off.find(all[i]);
      const bool compares = found != off.end() && found->second.group == *group;
      other_cases += found != off.end() && !compares;
      trend.points[i].ratios.push_back(compares ? std::optional(std::exp(found->second.log)) : std::nullopt);
    }
    if (other_cases > 0)
      trend.remarks.push_back(fmt::format("{}: {} measured other cases than the newest, which do not compare",
                                          about.shown, counted(other_cases, "run")));
  }
  for (std::size_t row = 0; row < trend.rows.size(); ++row)
    add_changes(trend, row, rows.at(trend.rows[row]).limits, runs);
  std::ranges::stable_sort(trend.changes, [](const Trend::Change& a, const Trend::Change& b) {
    return a.first != b.first ? a.first > b.first : std::abs(std::log(a.ratio)) > std::abs(std::log(b.ratio));
  });
  return trend;
}

void add_trend(Comparison& comparison, Trend trend) {
  comparison.remarks.insert(comparison.remarks.end(), trend.remarks.begin(), trend.remarks.end());
  comparison.trend = std::move(trend);
  const Trend& t = *comparison.trend;
  for (BandRow& row : comparison.bands) {
    if (!row.only.empty()) continue;  // a history's rows are whole bands
    const std::string name = row_name(row.collective, row.quantity, row.threshold.band);
    for (std::size_t i = 0; i < t.changes.size(); ++i) {
      const Trend::Change& each = t.changes[i];
      if (!each.still || t.rows[each.row] != name) continue;
      if (!row.change || *each.still > *t.changes[*row.change].still) row.change = i;
    }
    if (!row.change) {
      const auto at = static_cast<std::size_t>(std::ranges::find(t.rows, name) - t.rows.begin());
      if (row.answer != Answer::inconclusive || at == t.rows.size()) continue;
      const std::optional<double> most = slower_at_most(series_of(t, at), t.points.size() - 1);
      if (!most || *most >= std::log1p(row.threshold.matters)) continue;
      row.answer = Answer::no_regression;
      row.launches_needed.reset();
      row.runs_needed.reset();
      row.because = fmt::format(
          "the newest run is {:.1f} % slower at most than the median of all runs before and than that of the last "
          "three, by how much runs differ from one to the next; among all as one: {}",
          100 * std::max(0.0, std::expm1(*most)), row.because);
      continue;
    }
    const Trend::Change& change = t.changes[*row.change];
    row.answer = Answer::regression;
    row.launches_needed.reset();
    row.runs_needed.reset();
    row.because = fmt::format(
        "the newest run is on a level {:.1f} % slower than before {} (p {:.2g} among {} rows); the newest run alone: "
        "{}",
        100 * (*change.still - 1),
        t.points[change.first].started.empty() ? t.points[change.first].source : t.points[change.first].started,
        change.p_adjusted, t.rows.size(), row.because);
  }
  std::ranges::stable_sort(comparison.bands, precedes);
  conclude(comparison);
}

}  // namespace p5::reports
