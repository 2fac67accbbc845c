// Each node by itself: is it fit for a job? For whoever decides on nodes, not on runs.
#pragma once

#include <string>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

// How a check ends whose report would end with `code`: why there was nothing to measure with matters less than hardware
// that is known to be broken, so that the code never says less than the line of the node.
ExitCode check_ends_with(const Report& report, ExitCode code);

// What speaks against each host of the topology, in its order, a short word each: "gpu n1g3", "gpu.links GPU 3",
// "wrong data". What concerns no host is said of all.
struct NodeVerdict {
  std::vector<std::string> unfit = {};       // not sound: exit codes 10 and 11
  std::vector<std::string> unfinished = {};  // something failed there, or did not answer
};
std::vector<NodeVerdict> judge_nodes(const Report& report);

// Whether a case, or some of its pairs, was left out because the budget was spent.
bool ran_out_of_time(const Report& report);

// A line for each node, "n1 (i-0abc): fit; looked at ..." or "n1 (i-0abc): NOT FIT: gpu n1g3", and below it, unless
// `brief`, the sentences of what was found there; then the run's remarks.
std::string render_nodes(const Report& report, bool brief);

}  // namespace p5::reports
