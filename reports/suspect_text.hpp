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

// Figures of the evidence: the rest of a sentence that begins like "GPU 2 reaches the other GPUs of its node".
std::string figures_of(const FaultyPart& faulty, const topo::Topology& topology);

// `slow_nodes`: nodes that are named themselves, rather than a part of them.
Suspect suspect_of(const FaultyPart& faulty, const topo::Topology& topology, std::span<const TransferRecord> records,
                   const std::set<int>& slow_nodes, const NicNumbers& numbers);
OpenQuestion question_of(const FaultyPart& faulty, const topo::Topology& topology, const NicNumbers& numbers);

// The measurement that distinguishes the candidates of an open question. Rails are measured one by one, because none
// can be left out without its ranks.
std::string next_step(const std::vector<Part>& candidates, std::string_view fault = "slow");

// "nic n1r5 (host, instance, device): evidence. To do: action".
std::string sentence_about(const Suspect& suspect);

}  // namespace p5::reports
