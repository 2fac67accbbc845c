// A faulty part in words: evidence, what to do, and the measurement that answers an open question.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/observations.hpp"
#include "reports/report.hpp"

namespace p5::reports {

bool shows_only_in_groups(const FaultyPart& faulty);
// Median slowdown of the slow samples over the affected transfers.
double slowdown(const std::vector<const TransferRecord*>& observations);

// Figures of the evidence; follows a subject like "it reaches others".
std::string figures_of(const FaultyPart& faulty, const topo::Topology& topology);

// `slow_nodes`: those that are named as a whole.
Suspect suspect_of(const FaultyPart& faulty, const topo::Topology& topology, std::span<const TransferRecord> records,
                   const std::set<int>& slow_nodes, const NicNumbers& numbers);
OpenQuestion question_of(const FaultyPart& faulty, const topo::Topology& topology, const NicNumbers& numbers);

// The measurement that distinguishes the candidates of an open question. A rail can only be left out with its ranks.
std::string next_step(const std::vector<Part>& candidates, std::string_view fault = "slow");

// "nic n1r5 (host, instance, device): evidence. To do: action".
std::string sentence_about(const Suspect& suspect);

}  // namespace p5::reports
