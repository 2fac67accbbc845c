#include "reports/decision_parts.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "reports/decision.hpp"
#include "reports/findings.hpp"
#include "reports/judge.hpp"
#include "reports/markup.hpp"
#include "reports/nodes.hpp"
#include "reports/reachability.hpp"
#include "reports/report.hpp"

namespace p5::reports::decision {

namespace {

std::string value_in(const std::map<std::string, std::string>& context, const char* key) {
  const auto found = context.find(key);
  return found == context.end() ? "not known" : found->second;
}

std::string step_for(const topo::Finding& finding) {
  return fmt::format("{}{}{}: {}", finding.id, finding.subject.host.empty() ? "" : " on " + finding.subject.host,
                     finding.subject.gpu ? fmt::format(", GPU {}", *finding.subject.gpu) : "", finding.action);
}

std::string first_step_for(const topo::Finding& finding) { return "first, as it may be why: " + step_for(finding); }

// True if the run on the GPUs of one node is slow, and no part stands out.
bool node_is_slow(const Report& report) {
  const Result* const worst = slowest(report);
  return worst && uses_gpus(worst->measurement.measured_case) && report.topology.hosts.size() == 1 &&
         report.suspects.empty() && report.open_questions.empty();
}

// Adds the likely common causes if no part stands out.
void add_checklist(const Report& report, std::vector<std::string>& list) {
  const bool one_node = report.topology.hosts.size() == 1;
  const Result* const worst = slowest(report);
  if (one_node)
    add_step(list,
             "measure another node of the same kind: if it is fast, check this one's fabric manager, NVSwitches, power "
             "and clocks, and replace the instance if it stays slow");
  else if (worst && only_collectives_are_slow(report, *worst))
    add_step(list,
             "measure again with one more node, then leave out one node at a time: the node without which collectives "
             "are fast is at fault");
  for (const topo::Finding& finding : report.findings)
    if (finding.severity != topo::Severity::info && std::ranges::find(list, first_step_for(finding)) == list.end())
      add_step(list, step_for(finding));
  add_step(list, fmt::format(
                     "versions: compare the driver ({}), NCCL ({}) and the network plugin and its installer with those "
                     "of a cluster that is fast",
                     value_in(report.context, "cuda.driver"), value_in(report.context, "nccl")));
  std::vector<std::string> set;
  for (const auto& [key, value] : report.context)
    for (const char* const prefix : {"env.NCCL_", "env.FI_", "env.OFI_NCCL_"})
      if (key.starts_with(prefix)) set.push_back(fmt::format("{}={}", key.substr(std::string("env.").size()), value));
  add_step(list, set.empty()
                     ? "settings: no NCCL_*, FI_* or OFI_NCCL_* variable is set; check that NCCL's configuration "
                       "files (/etc/nccl.conf) set none either"
                     : "settings: run again without " + join(set));
  if (one_node) return;
  add_step(list, "placement: check that all instances are in one placement group, zone and capacity block");
  add_step(list,
           "plugin: check that NCCL uses the network plugin on all hosts, not sockets (NCCL_DEBUG=INFO shows which)");
}

// The remedy in the reason of an end by a disk that cannot be written, which says itself whether there is a run to go
// on with; "" in other reasons.
std::string remedy_for_disk(const Report& report) {
  const std::string& ended_by = report.run.ended_by;
  const std::size_t begin = ended_by.find("Make room");
  return begin == std::string::npos ? "" : "m" + ended_by.substr(begin + 1);
}

// Without results there is nothing to keep, and on a disk that was full from the start not even a report. A complete
// run whose planned measurements all have a result has nothing left.
bool can_be_resumed(const Report& report) {
  if (const std::string disk = remedy_for_disk(report); !disk.empty())
    return disk.find("--resume") != std::string::npos;
  const auto is_kept = [&](const Result& each) {
    return was_measured(each) || (each.measurement.outcome == Outcome::failed && !was_interrupted(report, each));
  };
  const auto is_left = [&](const Result& each) {
    const Case& c = each.measurement.measured_case;
    return !is_kept(each) && !c.for_parts && !c.nic;
  };
  return count_results(report, is_kept) > 0 && (report.status != "complete" || count_results(report, is_left) > 0) &&
         takes_resume(report);
}

// The step that settles an inconclusive comparison with a baseline, by its headline.
const char* step_to_settle(const std::string& comparison) {
  const auto says = [&](const char* words) { return comparison.find(words) != std::string::npos; };
  if (says("launches per side would"))
    return "measure again with more launches (--launches), as many as comparison.* names, and make the baseline of as "
           "many";
  if (says("runs per side would"))
    return "run again, as often as comparison.* names, and compare all these runs with as many of the baseline's "
           "(p5bench compare --base RUN... --new RUN...): single runs differ too much, however many launches they have";
  if (says("more launches alone would not"))
    return "find out what disturbs it: comparison.* says of each band why more launches would not settle it";
  return "measure what the baseline has, on its hardware: p5bench compare says what is lacking";
}

// True if a run on several nodes is slow, and its measurements do not tell where.
bool no_part_stands_out(const Report& report) {
  const Result* const worst = slowest(report);
  return worst && uses_gpus(worst->measurement.measured_case) && report.topology.hosts.size() > 1 &&
         !is_at_fault(report) && hosts_slow_alone(report).empty() && !all_are_slow(report);
}

}  // namespace

std::vector<std::string> steps(const Report& report, std::string_view word) {
  std::vector<std::string> list;
  if (word == accept) return list;
  if (word == reject)
    for (const topo::Finding& finding : errors_of_rejected(report)) add_step(list, first_step_for(finding));
  for (const Suspect& suspect : report.suspects)
    add_step(list, fmt::format("{} {}: {}", suspect.kind, suspect.name, suspect.action));
  for (const topo::Finding& finding : report.findings)
    if (topo::condemns(finding)) add_step(list, step_for(finding));
  for (const OpenQuestion& question : report.open_questions) add_step(list, question.next);
  if (word == reject && !failures_of_default(report, true).empty())
    add_step(list,
             "run p5bench again without tuning (--tuning off); if data is wrong again, measure halves of the hosts");
  if (word == reject && fraction_of_other_pairs(report))
    add_step(list,
             fmt::format("then measure again: pairs that use no part named above are slow too, so {} at fault as well",
                         report.topology.hosts.size() == 2 ? "a node or the link between the two is"
                                                           : "something that all nodes share, such as driver, "
                                                             "settings or placement, is"));
  if (word == reject && is_slower_than_baseline(report))
    add_step(list,
             "comparison.* lists what else differs from the baseline, such as versions and settings: measure again "
             "with what it had, and look for a fault of the machine if it stays slow");
  if (word == reject && !about_unexplained_failures(report).empty())
    add_step(list, "then run again: what is named above is slow, and does not explain what failed");
  if (word == reject && !healthy_hosts(report).empty() && !output_folder(report).empty())
    if (const std::string what = what_needs_all_ranks(report); !what.empty())
      add_step(list, fmt::format("run on the other hosts (hosts.healthy, {}) without {}",
                                 counted(healthy_ranks(report), "rank"), what));
  if (word == reject && !pairs_within_nodes_measured(report) &&
      (node_is_slow(report) || !rejected_as_slow_alone(report).empty()))
    add_step(list, "measure again with p2p among the --collectives, as by default: it may show a single GPU");
  for (const std::string& host : rejected_as_slow_alone(report))
    add_step(list, fmt::format("{}: check its fabric manager, NVSwitches, power and clocks; if it stays slow, replace "
                               "the instance",
                               host));
  if (word == reject && no_part_stands_out(report))
    add_step(list,
             "run p5bench with its default collectives, sizes and budget on these nodes: it compares all pairs of them "
             "and looks for the part at fault");
  if (word == reject && (all_are_slow(report) || node_is_slow(report))) add_checklist(report, list);
  // The host at fault is known, and --resume keeps the case that failed.
  const bool joins = std::ranges::none_of(report.findings, is_join_error);
  const std::string disk = remedy_for_disk(report);
  if (word == cannot_tell && !disk.empty()) add_step(list, disk);
  if (word == cannot_tell && report.exit_code == ExitCode::unfinished && joins &&
      (disk.empty() || names_a_rank(report)))
    add_step(list,
             std::string(can_be_resumed(report) ? "run again, or continue with --resume" : "run again") +
                 (names_a_rank(report) ? "; if it fails twice at the same rank, that rank's host is at fault" : ""));
  const std::set<std::string> rejected = rejected_hosts(report);
  for (const topo::Finding& finding : report.findings)
    if (is_slow_gpu(finding) && !rejected.contains(finding.subject.host)) add_step(list, step_for(finding));
  for (const topo::Finding& finding : report.findings)
    if (is_join_error(finding) && std::ranges::find(list, first_step_for(finding)) == list.end())
      add_step(list, step_for(finding));
  if (tuned_nothing(report)) return list;
  if (word == cannot_tell && most_lacked_time(report))
    add_step(list, is_check(report) ? "run again with a longer --limit"
                                    : "run again with a longer --budget, or fewer --collectives and --sizes");
  else if (word == cannot_tell && may_be_slower_than_baseline(report))
    add_step(list, step_to_settle(report.comparison));
  else if (word == cannot_tell && report.exit_code == ExitCode::inconclusive && report.arms.empty())
    add_step(
        list,
        fmt::format("compare it with healthy runs of the same machines: --baseline FILE (made by p5bench baseline){}",
                    report.topology.platform.empty() ? ", or name the --platform (p5bench list platforms)" : ""));
  return list;
}

}  // namespace p5::reports::decision
