// A baseline: the launches of several healthy runs of one machine together, as a report that later ones are compared
// with.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/compare/comparison.hpp"

namespace p5::reports {

struct LeftOut {
  std::string name, because;
};

struct Baseline {
  Report report;  // with all launches of all kept runs
  std::vector<Result> journal;
  std::vector<std::string> kept;
  std::string newest;  // of those kept, whose context and settings the report has
  std::vector<LeftOut> left_out;
};

// Leaves out what is not whole, not right, slow or of a faulty machine, and then, one after the other, the run that is
// furthest from the median of those left in some row of a comparison, as long as that is more than matters there and
// more than 3.5 times the scatter of the others (median absolute deviation). Throws UsageError when the hardware is not
// the same or no majority is left. `made`: UTC.
Baseline make_baseline(std::span<const Run> runs, const std::string& made);

}  // namespace p5::reports
