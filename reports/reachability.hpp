// Hosts that do not reach each other, as findings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/measure/reachability.hpp"
#include "topo/finding.hpp"

namespace p5::reports {

// A host of those that met, and what its side ran on; empty where it did not come so far.
struct ReachabilityHost {
  std::string name, instance, nic, address, library;
};

// An error about the fabric for each host or pair of hosts that is silent, one where nobody hears anybody. Warnings: a
// pair that was heard only the second time, hosts that have the same address, hosts that could not try. `limit`: for a
// message.
std::vector<topo::Finding> reach_findings(const Reachability& reached, const std::vector<ReachabilityHost>& hosts,
                                          Seconds limit);

// For `list findings`.
std::vector<topo::FindingKind> reach_finding_kinds();

}  // namespace p5::reports
