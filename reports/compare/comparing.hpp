// What compare() is made of: what differs between the sides beside the times, and the answer in a sentence.
#pragma once

#include <string>
#include <vector>

#include "reports/compare/comparison.hpp"

namespace p5::reports {

// What of a case tells it from others on its own side; arm and settings are the caller's choice.
std::string side_key(const Case& c);

// What is not the same on both sides, hardware first. What one side does not know is no difference.
std::vector<Difference> differences_of(const Side& base, const Side& fresh);
// The same of two runs.
std::vector<Difference> differences_between(const Report& base, const Report& fresh);

// Regressions first, the largest of them at the top; then what is open.
bool comes_first(const BandRow& one, const BandRow& other);
// "NIC n1r5".
std::string text_of(const Suspect& suspect);
// The answer, the exit code and the headline, from all else.
void conclude(Comparison& comparison);

}  // namespace p5::reports
