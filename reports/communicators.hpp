// What communicators cost, summed up from the measurements of their steps.
#pragma once

#include <string>
#include <vector>

#include "bench/model/communicator_steps.hpp"
#include "reports/report.hpp"

namespace p5::reports {

// How a step's time grows with the number of ranks.
struct StepGrowth {
  const CommunicatorStep* step = nullptr;
  std::string arm;
  int least_ranks = 0, most_ranks = 0;
  GrowthByRanks fit;
};
// Of steps that were measured with at least three numbers of ranks, without other operations than the smallest.
std::vector<StepGrowth> growth_of_steps(const Report& report);

// One sentence for each arm with the median times of the steps of all ranks and what they took, and one for each
// growth; empty if no communicator was measured.
std::vector<std::string> communicator_sentences(const Report& report);

}  // namespace p5::reports
