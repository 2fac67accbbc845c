// The decision: ACCEPT, REJECT with the part, or CANNOT TELL; with its reason and the steps to take.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

inline constexpr std::string_view accept = "ACCEPT", reject = "REJECT", cannot_tell = "CANNOT TELL";
inline constexpr std::size_t longest_sentence = 120;

// True if speed was judged on GPUs (real or simulated), and between nodes if such transfers were measured; in a check,
// which asks about each node by itself, anywhere. Host memory proves nothing about a cluster of GPUs.
bool was_judged(const Report& report);

// True if transfers between nodes were measured, and none was judged.
bool lacks_verdict_between_nodes(const Report& report);

// True if the run was compared with a baseline of its machine and was no slower, or its arm b with arm a.
bool passed_comparison(const Report& report);

// True if the measurement was skipped because the budget was spent.
bool lacked_time(const Result& result);
// True for a measurement that was under way when the run ended: it has no reason of its own.
bool was_interrupted(const Report& report, const Result& result);

// Decision of a report, by its exit code: 0 is ACCEPT if something was judged, or compared with a baseline or another
// arm, 10 and 11 are REJECT. Runs that did not end well are REJECT if a part is known to be at fault.
Decision decide(const Report& report);

// Adds the answer of a comparison with a baseline to comparison, exit code and decision. A run that lacked nothing but
// a verdict has one by a baseline that it is no slower than.
void add_baseline_answer(const std::string& headline, ExitCode code, Report& report);
// Takes back such an answer, of which a report that was read has nothing but the exit code.
void withdraw_baseline_answer(Report& report);

// Sentence that names numbers which a report says twice and differently, or what it says of its end and its own content
// contradicts, because the file was edited or damaged; "" if nothing.
std::string contradiction_in(const Report& report);

// The worse of two grades, in the order of overall(); the first one if neither is bad.
Grade worse_grade(Grade a, Grade b);

// Names of the hosts with a part at fault: a suspect, an error about hardware or fabric, or an open question whose
// candidates are all on one host.
std::set<std::string> rejected_hosts(const Report& report);

// "nic n1r5 or link n0-n1": the first three candidates and the number of the others.
std::string alternatives(const std::vector<std::string>& candidates);

}  // namespace p5::reports
