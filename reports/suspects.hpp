// The faulty parts of a cluster in words: suspects if one part explains the observations, open questions if several do.
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
  // Nodes, and their parts that look slow but are not steadily slow in their fastest samples: the time in which the
  // ranks of the nodes waited for processor cores explains them.
  std::map<int, std::vector<std::string>> slow_while_waiting = {};
};

// Suspects are of kind "node" (all its transfers, between nodes or within), "gpu", "nic" ("n3r4-7" if the NIC beside a
// GPU is ambiguous), "link" (all transfers between two nodes that are fast with others), "rail" (the i-th GPUs of all
// nodes) and "domain" (an NVLink domain of several nodes). `again` holds retests; a part that was sound in the retest
// is not named. The result is empty if nothing was compared or everything is equally slow. Needs the report's verdicts.
Diagnosis diagnose(const Report& report, const std::vector<Measurement>& again, const WaitingOfNode& waiting = {});

// The measurement that distinguishes the candidates of an open question. A rail can only be left out with its ranks.
std::string next_step(const std::vector<Part>& candidates, std::string_view fault = "slow");

// "nic n1r5", "link n0-n2": kind and name of a part in suspects and open questions.
std::string full_name(const Part& part);
// The part of that name; std::nullopt for other texts.
std::optional<Part> part_named(std::string_view full_name);
std::optional<Part> part_of(const Suspect& suspect);

// Indices of the hosts that the part is on or joins: both ends of a link, all hosts of an NVLink domain or of a rail.
std::set<std::size_t> hosts_of(const Part& part, const topo::Topology& topology);
std::set<std::size_t> hosts_of(const Suspect& suspect, const topo::Topology& topology);

// A case to retest before a part is named: its slow or silent pairs, ranks ascending; empty: the whole case.
struct RetestCase {
  Case like;
  std::vector<Group> pairs;
  bool silent = false;
  double slowest = 0;  // of the pair that has most slow samples, their share
};
// Cases that are slow in a part that may be faulty, and those that were silent without a part that alone explains it.
std::vector<RetestCase> to_retest(const Report& report);

// "nic n1r5 (host, instance, device): evidence. To do: action".
std::string sentence_about(const Suspect& suspect);

// Text for a support case: parts, instances, evidence, versions. "" without suspects, open questions and errors about
// hardware or fabric.
std::string support_text(const Report& report);

}  // namespace p5::reports
