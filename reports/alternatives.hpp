// The probability of a part that was found, against other explanations of the same transfers.
#pragma once

#include <vector>

#include "reports/part_scores.hpp"

namespace p5::reports {

// Fills `confidence` and `alternatives` of `faulty`. Replaces its part, if that is a NIC, by all NICs beside the same
// GPU where the transfers do not tell which of them is faulty. `open`: transfers that the other parts of `all` leave
// unexplained.
void weigh_alternatives(const PartScores& scores, const ScoredPart& found, const std::vector<ScoredPart>& all,
                        OpenTransfers open, FaultyPart& faulty);

}  // namespace p5::reports
