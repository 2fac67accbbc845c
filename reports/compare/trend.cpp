// How a machine did from run to run.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "reports/deviation.hpp"

namespace p5::reports {

namespace {

std::string software_of(const Report& report) {
  const auto library = report.context.find("nccl");
  return fmt::format("p5bench {}{}", report.run.version,
                     library == report.context.end() ? "" : ", NCCL " + library->second);
}

}  // namespace

Trend trend_of(std::span<const Run> runs) {
  std::vector<Times> times;
  std::set<std::string> rows;
  for (const Run& run : runs) times.push_back(times_of(run));
  std::vector<const Times*> all;
  Trend trend;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    all.push_back(&times[i]);
    trend.points.push_back({runs[i].name, runs[i].report.run.started, software_of(runs[i].report), {}});
    for (const auto& [row, cases] : times[i].rows) rows.insert(row);
  }
  trend.rows.assign(rows.begin(), rows.end());
  for (const std::string& row : trend.rows) {
    const std::map<const Times*, double> off = deviations(all, row);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto found = off.find(all[i]);
      trend.points[i].ratios.push_back(found == off.end() ? std::nullopt : std::optional(std::exp(found->second)));
    }
  }
  return trend;
}

}  // namespace p5::reports
