// Which part of a cluster is slow, out of the times of its pairs: a part is named when all that passes it is slow and
// what does not pass it is not.
#pragma once

#include <string>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

// An innocent part, of all parts together.
inline constexpr double chance_of_accusing = 0.01;

// Out of pair_times(). Kinds: "node" (all its pairs with other nodes, or all within it), "gpu" (all its pairs within
// its node), "nic" (all pairs of a NIC alone; or all pairs of a GPU with other nodes, while those within its node are
// fast: its NICs, which pairs of GPUs do not tell apart), "link" (all pairs of two nodes that are fast with others).
// Each with at least two partners that agree, and slower than the others by more than 5 %, which is chance with a
// probability of less than 1 % for all parts together: by the usual times first, then by the slowest third of samples,
// where what comes and goes shows. `again`: what was in doubt, measured again; where there is any, nobody is named who
// was not slow then too. What few or no fast pairs stand beside is not told. Empty where pairs were not measured.
std::vector<Suspect> find_suspects(const Report& report, const std::vector<Measurement>& again);

// What is to be measured again before anybody is named: the slow pairs of a case, ranks ascending; none: all of it.
struct InDoubt {
  Case like;
  std::vector<Group> pairs;
};
std::vector<InDoubt> in_doubt(const Report& report);

// "nic n1r5 (host, instance, device): evidence. To do: action".
std::string sentence_about(const Suspect& suspect);

// Lines "HOST slots=RANKS" of the hosts that nothing is wrong with: no suspect, no error about hardware or fabric. Of
// links that are suspected both hosts stay. "" when that is all hosts, or none.
std::string healthy_hosts(const Report& report);

// What somebody who is to replace a part asks for: parts, instances, evidence, versions. "" without suspects and errors
// about hardware or fabric.
std::string support_text(const Report& report);

}  // namespace p5::reports
