// The cases that are measured again before a part is named.
#pragma once

#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

// A case to retest before a part is named: its slow or silent pairs, ranks ascending; empty: the whole case.
struct RetestCase {
  Case like;
  std::vector<Group> pairs;
  bool silent = false;
  double slowest = 0;  // of the pair that has most slow samples, their share
};
// Cases that are slow in a part that may be faulty, and those that were silent without a part that alone explains it.
std::vector<RetestCase> to_retest(const Report& report);

}  // namespace p5::reports
