// The faulty parts of a cluster in words: a suspect if one part explains the observations, an open question if several
// parts may.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reports/observations.hpp"
#include "reports/report.hpp"

namespace p5::reports {

// Least posterior probability of a suspect; below it the part becomes an open question.
inline constexpr double least_confidence = 0.9;

struct Diagnosis {
  std::vector<Suspect> suspects;
  std::vector<OpenQuestion> questions;
  // By node, the names of parts that look slow, but not in their fastest samples: the time for which ranks of the node
  // waited for processor cores explains that.
  std::map<int, std::vector<std::string>> slow_while_waiting = {};
};

// Suspects are of kind "node" (all its transfers, between nodes or within), "gpu", "nic" ("n3r4-7" if the NIC beside a
// GPU is ambiguous), "link" (all transfers between two nodes, or between sets of nodes, that are fast with others),
// "rail" (the i-th GPUs of all nodes) and "domain" (an NVLink domain of several nodes). `again` holds retests; a part
// that was sound in the retest is not named. `waiting`: the time for which ranks waited for processor cores. The result
// is empty if nothing was compared or everything is equally slow. The report needs its verdicts.
Diagnosis diagnose(const Report& report, const std::vector<Measurement>& again, const WaitingOfNode& waiting = {});

// The NICs and domains that transfers of a run use.
Paths paths_of(const Report& report, const NicNumbers& numbers);

// Text for a support case: parts, instances, evidence, versions. "" without suspects, open questions and errors about
// hardware or fabric.
std::string support_text(const Report& report);

}  // namespace p5::reports
