// Which part of a cluster is slow, out of the times of its pairs: a part is named when all that passes it is slow and
// what does not pass it is not.
#pragma once

#include <string>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

// Of pairs of GPUs from 64 MiB on. Kinds: "node" (all its pairs with other nodes), "gpu" (all its pairs, or all within
// its node), "nic" (all pairs of a GPU with other nodes, while those within its node are fast: its NICs, which pairs of
// GPUs do not tell apart), "link" (all pairs of two nodes). Each with at least two partners that agree, but for links,
// and slower than the others by more than 10 %, which is chance with a probability of less than 1 % for all parts
// together. What few or no fast pairs stand beside is not told. Empty where pairs were not measured.
std::vector<Suspect> find_suspects(const Report& report);

// "nic n1r4-7 (host, instance): evidence. To do: action".
std::string sentence_about(const Suspect& suspect);

// Lines "HOST slots=RANKS" of the hosts that nothing is wrong with: no suspect, no error about hardware or fabric. Of
// links that are suspected both hosts stay. "" when that is all hosts, or none.
std::string healthy_hosts(const Report& report);

// What somebody who is to replace a part asks for: parts, instances, evidence, versions. "" without suspects and errors
// about hardware or fabric.
std::string support_text(const Report& report);

}  // namespace p5::reports
