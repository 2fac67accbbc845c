// The cases that are measured again before a part is named.
#pragma once

#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

// A case to retest before a part is named.
struct RetestCase {
  Case like;
  std::vector<Group> pairs;  // those that were slow or silent, ranks ascending; empty: the whole case
  bool silent = false;
  double slowest = 0;  // largest share of slow samples that a pair has
};
// Cases in which a part that may be faulty shows as slow, and cases with silence that no part explains for sure.
std::vector<RetestCase> to_retest(const Report& report);

}  // namespace p5::reports
