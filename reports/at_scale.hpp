// What shows only where many take part: rails and halves of the nodes, each against its like.
#pragma once

#include <vector>

#include "reports/suspects.hpp"

namespace p5::reports {

// A rail whose all-reduce is slow while the others' are not, and a node whose halves all are while those without it are
// not: 5 % or more, then and again, which is chance with a probability of less than 1 %. For when pairs name nobody: a
// part that is slow by itself slows its groups too.
std::vector<Suspect> suspects_at_scale(const Report& report, const std::vector<Measurement>& again);

// The cases whose groups are to be measured again before anybody is named: InDoubt of no pairs.
std::vector<InDoubt> groups_in_doubt(const Report& report);

}  // namespace p5::reports
