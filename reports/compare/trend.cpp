// How a machine did from run to run, and when that changed.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "bench/measure/change_points.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/deviation.hpp"

namespace p5::reports {

namespace {

std::string software_of(const Report& report) {
  const auto library = report.context.find("nccl");
  return fmt::format("p5bench {}{}", report.run.version,
                     library == report.context.end() ? "" : ", NCCL " + library->second);
}

// One row over those runs that have it.
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

void add_changes(Trend& trend, std::size_t row, double negligible, std::span<const Run> runs) {
  const auto rows = static_cast<double>(trend.rows.size());
  const RowSeries series = series_of(trend, row);
  const ChangeRules rules{.chance = chance_of_change / rows, .negligible = negligible, .seed = row + 1};
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
    trend.changes.push_back({.row = row,
                             .before = before,
                             .first = first,
                             .ratio = std::exp(each.after - each.before),
                             .runs_before = static_cast<int>(each.first - begin),
                             .runs_after = static_cast<int>(end - each.first),
                             .p = each.p,
                             .p_adjusted = std::min(1.0, each.p * rows),
                             .differences = differences_between(runs[before].report, runs[first].report)});
    add_level(each.first);
    begin = each.first;
  }
  add_level(series.logs.size());
}

}  // namespace

Trend trend_of(std::span<const Run> runs) {
  std::vector<Times> times;
  std::map<std::string, std::pair<std::string, double>> rows;  // for people, and what is negligible
  for (const Run& run : runs) times.push_back(times_of(run));
  std::vector<const Times*> all;
  Trend trend;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    all.push_back(&times[i]);
    Trend::Point& point = trend.points.emplace_back();
    point.source = runs[i].name;
    point.started = runs[i].report.run.started;
    point.software = software_of(runs[i].report);
    if (i > 0) point.differences = differences_between(runs[i - 1].report, runs[i].report);
    for (const auto& [row, cases] : times[i].rows) {
      auto& [shown, negligible] = rows[row];
      shown = times[i].shown.at(row);
      negligible = std::max(negligible, times[i].negligible.at(row));
    }
  }
  for (const auto& [row, about] : rows) {
    trend.rows.push_back(row);
    trend.shown_rows.push_back(about.first);
    const std::map<const Times*, double> off = deviations(all, row);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto found = off.find(all[i]);
      trend.points[i].ratios.push_back(found == off.end() ? std::nullopt : std::optional(std::exp(found->second)));
    }
  }
  for (std::size_t row = 0; row < trend.rows.size(); ++row)
    add_changes(trend, row, rows.at(trend.rows[row]).second, runs);
  std::ranges::stable_sort(trend.changes, [](const Trend::Change& a, const Trend::Change& b) {
    return a.first != b.first ? a.first > b.first : std::abs(std::log(a.ratio)) > std::abs(std::log(b.ratio));
  });
  return trend;
}

}  // namespace p5::reports
