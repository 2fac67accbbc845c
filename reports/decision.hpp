// The verdict in one word, the sentence that says why, and what to do: ACCEPT, REJECT with the part, or CANNOT TELL.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

inline constexpr std::string_view accept = "ACCEPT", reject = "REJECT", cannot_tell = "CANNOT TELL";
inline constexpr std::size_t longest_sentence = 120;

// Whether speed was judged on GPUs (real or simulated), and between nodes where transfers between nodes were measured.
// Host memory says nothing of a cluster of GPUs.
bool was_judged(const Report& report);

// Whether it was compared with a baseline of its machine, which found it no slower.
bool passed_baseline(const Report& report);

// What a report comes to. The word follows from the exit code that the report has: 0 is ACCEPT where something was
// judged or compared with a baseline, 10 and 11 are REJECT; of runs that did not end well parts that are known to be at
// fault are rejected.
Decision decide(const Report& report);

// Names of the hosts on which a part is at fault: a suspect, an error about hardware or fabric, or a question whose
// candidates all lie on one host.
std::set<std::string> rejected_hosts(const Report& report);

// "nic n1r5 or link n0-n1"; the first three, and how many more there are.
std::string alternatives(const std::vector<std::string>& candidates);

}  // namespace p5::reports
