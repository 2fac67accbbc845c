// Baselines: healthy runs of one machine merged into one report, and the times of a baseline beside those of a run.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/compare/comparison.hpp"

namespace p5::reports {

struct ExcludedRun {
  std::string name, because;
};

struct Baseline {
  Report report;  // all launches of all kept runs
  std::vector<Result> journal;
  std::vector<std::string> kept;
  std::string newest;  // the kept run that provides context and settings
  std::vector<ExcludedRun> excluded;
};

// Why a run cannot be a baseline, which is of healthy machines; "" if it can.
std::string why_no_baseline(const Report& report);

// Excludes copies of runs, and runs that are incomplete, without cases of the default arm, wrong, slow, of a faulty
// machine, or of other hardware than the newest. Then excludes outliers one by one: the run whose distance from the
// median of the remaining runs in some comparison row is largest, while that distance exceeds both the threshold that
// matters and 3.5 times the scatter of the others (median absolute deviation). Throws UsageError when no majority of
// the sound runs remains. `made` is UTC.
Baseline make_baseline(std::span<const Run> runs, const std::string& made);

class RowLabels;

// Logarithm of a run's time for each case and quantity, grouped by comparison row.
struct RunTimes {
  struct Row {
    std::map<std::string, double> times;
    double matters = 0, negligible = 0;  // threshold, and relative effect to ignore, as logarithms
    std::string shown;                   // displayed name
  };
  std::map<std::string, Row> rows;
};

RunTimes times_of(const Run& run, const RowLabels& labels, std::string_view arm = "default");
// "all_reduce, throughput, bandwidth"
std::string row_name(std::string_view collective, Quantity quantity, std::string_view band);

// The distance of a run from the median run, as a logarithm: the mean over the row's cases. Runs of different groups
// have no case in common, not even by way of other runs, so their distances do not compare.
struct RunDeviation {
  double log = 0;
  std::size_t group = 0;
};

// The deviation of each run in one row; runs without the row are skipped.
std::map<const RunTimes*, RunDeviation> deviations(const std::vector<const RunTimes*>& runs, const std::string& row);

// Copies the journal's samples into the series of the report's cases; launches are concatenated.
void add_samples(std::span<const Result> journal, Report& report);

// Fills Result::baseline of the default arm: the median of the medians of the baseline's launches.
void add_baseline(const Side& baseline, Report& report);

}  // namespace p5::reports
