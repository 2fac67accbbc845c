// Of a run in several launches: those that were slower than the others, which medians hide.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/measure/launches.hpp"
#include "topo/finding.hpp"

namespace p5::reports {

// `cases`: each in one arm. One finding (run.slow_launch, a warning) for each launch in which some case took longer
// than the median of its launches by twice what matters in its band (thresholds.json) and by 6 standard deviations of
// the launches (robust, from their median absolute deviation): with what it was in, worst first. `started`: when each
// launch of each arm began, in UTC, where known. Cases of fewer than 5 launches say nothing.
std::vector<topo::Finding> slow_launches(const std::vector<const CombinedLaunches*>& cases,
                                         const std::map<std::pair<std::string, int>, std::string>& started);

// For `list findings`.
std::vector<topo::FindingKind> launch_finding_kinds();

}  // namespace p5::reports
