// Verdict per node, for node health checks: is it fit for a job? And the run again on the nodes that are.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

// Exit code of `check`, given the code of its report: broken hardware takes precedence over an unusable environment, so
// that the code agrees with the node's line.
ExitCode check_exit_code(const Report& report, ExitCode code);

// Reasons against each host in the order of the topology, one short word each: "gpu n1g3", "gpu.links GPU 3", "wrong
// data". A reason without a host applies to all.
struct NodeVerdict {
  std::vector<std::string> unfit = {};       // not sound: exit codes 10 and 11
  std::vector<std::string> in_doubt = {};    // the same codes, but another node, or waiting for cores, may be why
  std::vector<std::string> unfinished = {};  // a measurement failed there, or the host did not answer
  std::vector<std::string> unchecked = {};   // nothing speaks against the node, but what was asked for was not done
};
std::vector<NodeVerdict> judge_nodes(const Report& report);

// True if the group alone would be judged slow; the verdict of a measurement is the slowest group's.
bool is_slow_group(const GroupResult& group, const Result& result, const Report& report);

// Hosts that are slow in what their own ranks do among themselves, in cases in which another host is not.
std::set<std::string> hosts_slow_alone(const Report& report);
// Takes back open questions whose candidates are all GPUs of such a host: no GPU stands out, which its verdict says.
void withdraw_questions_of_whole_hosts(Report& report);

// The subcommand that was run: run, tune, ab or check.
std::string subcommand_of(const Report& report);
bool is_check(const Report& report);
// True if it is of a command that takes --resume: `run` or `ab`, but no soak, which has no end to go on to.
bool takes_resume(const Report& report);
// True if a case or some of its pairs were skipped because the budget was spent. Pairs within nodes may lack where all
// GPUs of each node were measured together.
bool ran_out_of_time(const Report& report);

// One line per node, "n1 (i-0abc): fit; checked ...", "n1 (i-0abc): NOT FIT: gpu n1g3" or "n1 (i-0abc): IN DOUBT: node
// n1 or node n2"; unless `brief`, followed by the evidence and then the run's remarks.
std::string render_nodes(const Report& report, bool brief);

// ---- The same run on the other hosts

// The folder that the command wrote to; "" if it wrote no files.
std::string output_folder(const Report& report);
// rejected_hosts(), the hosts of suspected NVLink domains and those of which one may be silent or corrupt data, and one
// end of each link that is suspected or may do so, so that no job of the others uses it.
std::set<std::string> hosts_to_leave_out(const Report& report);

// Lines "HOST slots=RANKS" of the other hosts, those of one NVLink domain together, by the names that launchers know.
// "" if it would be the hosts of this job in their order, or none, or one whose name an unfit host has too.
std::string healthy_hosts(const Report& report);

std::size_t healthy_ranks(const Report& report);
// The option of the run that the ranks of the other hosts are too few for, and why; "" where they can repeat it.
std::string what_needs_all_ranks(const Report& report);
// "" where there are no such hosts, or they cannot repeat it.
std::string command_for_healthy(const Report& report);

}  // namespace p5::reports
