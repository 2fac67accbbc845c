// Ranks that did not join, as findings: which hosts it comes from, and what to do.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/rendezvous.hpp"
#include "reports/report.hpp"
#include "topo/finding.hpp"

namespace p5::reports {

// An error for each host or pair of hosts that does not join, one where it is all of them; a warning where they joined
// the second time.
std::vector<topo::Finding> join_findings(const JoinFailure& failure);

// The same in a line, with what to do.
std::string join_message(const JoinFailure& failure);

// Whether ranks did not join and nothing at all was measured.
bool never_joined(const Report& report);

// For `list findings`.
std::vector<topo::FindingKind> join_finding_kinds();

}  // namespace p5::reports
