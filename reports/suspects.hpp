// Which part of a cluster is at fault, in words: suspects where one part explains what was seen, open questions where
// several do.
#pragma once

#include <string>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

// A part that is less probable than this against the others that explain the same becomes an open question.
inline constexpr double least_confidence = 0.9;

struct Diagnosis {
  std::vector<Suspect> suspects;
  std::vector<OpenQuestion> questions;
};

// Suspects of kind "node" (all its transfers, with other nodes or within it), "gpu", "nic" ("n3r4-7" where it is not
// known which NIC beside a GPU it is), "link" (all transfers between two nodes that are fast with others), "rail" (the
// i-th GPUs of all nodes). `again`: what seemed slow, measured again; nobody is named who was not slow then too. Empty
// where nothing was compared, and where all is slow alike. Verdicts of the report have to be there.
Diagnosis diagnose(const Report& report, const std::vector<Measurement>& again);

// What is to be measured again before anybody is named: the slow pairs of a case, ranks ascending; none: all of it.
struct RetestCase {
  Case like;
  std::vector<Group> pairs;
};
std::vector<RetestCase> to_retest(const Report& report);

// "nic n1r5 (host, instance, device): evidence. To do: action".
std::string sentence_about(const Suspect& suspect);

// Lines "HOST slots=RANKS" of the hosts that nothing is wrong with: those of rejected_hosts() are left out. Of
// links that are suspected both hosts stay. "" when that is all hosts, or none.
std::string healthy_hosts(const Report& report);

// What somebody who is to replace a part asks for: parts, instances, evidence, versions. "" without suspects, open
// questions and errors about hardware or fabric.
std::string support_text(const Report& report);

}  // namespace p5::reports
