#include "reports/nodes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/model/groups.hpp"
#include "bench/model/traffic.hpp"
#include "bench/model/work.hpp"
#include "reports/decision.hpp"
#include "reports/findings.hpp"
#include "reports/judge.hpp"
#include "reports/local_checks.hpp"
#include "reports/markup.hpp"
#include "reports/observations.hpp"
#include "reports/part_names.hpp"
#include "reports/suspect_text.hpp"

namespace p5::reports {

bool is_slow_group(const GroupResult& group, const Result& result, const Report& report) {
  if (is_not_judged(group.group, result, report)) return false;
  Measurement own = result.measurement;
  const std::vector<double> samples(group.samples.begin(), group.samples.end());
  own.throughput->summary = samples.empty() ? Summary{} : summarize(samples);
  own.throughput->summary.median = group.median.count;
  return judge(own, report.limits, report.topology, Comparability{}).grade == Grade::slow;
}

namespace {

// Collects reasons against hosts; a reason whose host is unknown applies to all.
class HostVerdicts {
 public:
  std::vector<NodeVerdict> verdicts;

  explicit HostVerdicts(const Report& report) : verdicts(report.topology.hosts.size()), report_(report) {}

  void blame(const std::string& host, std::vector<std::string> NodeVerdict::*list, const std::string& word) {
    const bool known =
        std::ranges::find(report_.topology.hosts, host, &topo::Host::name) != report_.topology.hosts.end();
    for (std::size_t i = 0; i < verdicts.size(); ++i)
      if (!known || report_.topology.hosts[i].name == host) add(i, list, word);
  }
  // The reason is on one of several nodes, or between them.
  void doubt(const std::set<std::size_t>& nodes, const std::string& word) {
    for (const std::size_t node : nodes)
      if (node < verdicts.size()) add(node, nodes.size() == 1 ? &NodeVerdict::unfit : &NodeVerdict::in_doubt, word);
  }
  void doubt_all(const std::string& word) {
    std::set<std::size_t> all;
    for (std::size_t node = 0; node < verdicts.size(); ++node) all.insert(node);
    doubt(all, word);
  }
  // Adds rank and GPU to the word if they are known.
  void blame_rank(std::optional<int> rank, std::vector<std::string> NodeVerdict::*list, std::string word) {
    const topo::Topology& topology = report_.topology;
    if (!rank || *rank < 0 || std::cmp_greater_equal(*rank, topology.host_of_rank.size())) return blame("", list, word);
    const auto at = static_cast<std::size_t>(*rank);
    const topo::Host& host = topology.hosts.at(static_cast<std::size_t>(topology.host_of_rank[at]));
    word += fmt::format(" at rank {}", *rank);
    if (at < topology.gpu_of_rank.size()) {
      const auto gpu = std::ranges::find(host.gpu_devices, topology.gpu_of_rank[at], &topo::Gpu::uuid);
      if (gpu != host.gpu_devices.end()) word += fmt::format(" (GPU {})", gpu - host.gpu_devices.begin());
    }
    blame(host.name, list, word);
  }

 private:
  void add(std::size_t host, std::vector<std::string> NodeVerdict::*list, const std::string& word) {
    std::vector<std::string>& words = verdicts[host].*list;
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }

  const Report& report_;
};

// True for a suspect that is not a part of hosts but joins them.
bool is_between_hosts(const Suspect& suspect) { return suspect.kind == "link" || suspect.kind == "rail"; }

std::string word_of(const topo::Finding& finding) {
  std::string word = finding.id;
  if (finding.subject.gpu) word += fmt::format(" GPU {}", *finding.subject.gpu);
  if (finding.subject.nic) word += " " + *finding.subject.nic;
  return word;
}

// The numbers of the hosts with these names.
std::set<std::size_t> hosts_named(const std::vector<std::string>& names, const topo::Topology& topology) {
  std::set<std::size_t> hosts;
  for (std::size_t host = 0; host < topology.hosts.size(); ++host)
    if (std::ranges::find(names, topology.hosts[host].name) != names.end()) hosts.insert(host);
  return hosts;
}

std::string word_of_slow(const Measurement& m) { return fmt::format("slow {}", m.measured_case.collective->name); }

// The number of the rank's host; null where the topology does not have it.
std::optional<std::size_t> host_of_rank(int rank, const Report& report) {
  const std::vector<int>& all = report.topology.host_of_rank;
  if (rank < 0 || std::cmp_greater_equal(rank, all.size())) return std::nullopt;
  return static_cast<std::size_t>(all[static_cast<std::size_t>(rank)]);
}

// The slowest group that was judged of each host, under the number of its first rank's host; those of hosts that the
// topology does not have under null.
std::map<std::optional<std::size_t>, const GroupResult*> slowest_groups(const Result& result, const Report& report) {
  std::map<std::optional<std::size_t>, const GroupResult*> slowest;
  for (const GroupResult& group : result.measurement.groups) {
    if (is_not_judged(group.group, result, report)) continue;
    const auto [at, first] =
        slowest.try_emplace(host_of_rank(group.group.empty() ? -1 : group.group.front(), report), &group);
    if (!first && at->second->median.count < group.median.count) at->second = &group;
  }
  return slowest;
}

// Blames the hosts whose slowest group is slow, which is what they would be told if they were measured alone: of all
// groups, each with few samples, one has a slow mean by chance now and then. A measurement of the whole job keeps no
// groups and blames no host.
void blame_slow(const Result& result, const Report& report, HostVerdicts& hosts) {
  for (const auto& [host, group] : slowest_groups(result, report))
    if (is_slow_group(*group, result, report))
      hosts.blame(host ? report.topology.hosts.at(*host).name : "", &NodeVerdict::unfit,
                  word_of_slow(result.measurement));
}

// Hosts with a group within the host that is slow, and slower than the groups of another host, in this case.
std::set<std::string> hosts_slow_in(const Result& result, const Report& report) {
  std::map<std::optional<std::size_t>, const GroupResult*> slowest = slowest_groups(result, report);
  slowest.erase(std::nullopt);
  if (slowest.size() < 2) return {};
  const auto time_of = [](const auto& each) { return each.second->median.count; };
  const GroupResult& best = *std::ranges::min_element(slowest, {}, time_of)->second;
  if (is_slow_group(best, result, report)) return {};
  std::set<std::string> hosts;
  for (const auto& [host, group] : slowest)
    if (group->median.count > best.median.count * (1 + gap_of_fault) && is_slow_group(*group, result, report))
      hosts.insert(report.topology.hosts.at(*host).name);
  return hosts;
}

// True if the measurement failed by itself; the end of the run is no failure of what it interrupted.
bool has_failed(const Result& result, const Report& report) {
  return result.verdict.grade == Grade::failed && !was_interrupted(report, result);
}

// True if single NICs of the host were measured (`of_nics`), or anything else on it.
bool was_measured(const Report& report, std::size_t host, bool of_nics) {
  const auto is_there = [&](int rank) { return host_of_rank(rank, report) == host; };
  return std::ranges::any_of(report.results, [&](const Result& result) {
    if (result.measurement.outcome != Outcome::measured || result.measurement.measured_case.nic.has_value() != of_nics)
      return false;
    return result.measurement.groups.empty() ||
           std::ranges::any_of(result.measurement.groups,
                               [&](const GroupResult& group) { return std::ranges::any_of(group.group, is_there); });
  });
}

// Failures across nodes are skipped if the same fails within a node; if a failed rank or a host that does not join is
// known, ranks that wait for it are not blamed.
void blame_failed(const Report& report, HostVerdicts& hosts) {
  const bool within = std::ranges::any_of(report.results, [&](const Result& result) {
    return has_failed(result, report) && result.measurement.measured_case.nodes == 1;
  });
  bool named = false;
  const auto blame_ranks = [&](bool known) {
    for (const Result& result : report.results) {
      const Measurement& m = result.measurement;
      if (!has_failed(result, report) || (within && m.measured_case.nodes > 1)) continue;
      if (m.failed_rank.has_value() != known) continue;
      hosts.blame_rank(m.failed_rank, &NodeVerdict::unfinished, "failed");
      named = named || known;
    }
  };
  blame_ranks(true);
  for (const topo::Finding& finding : report.findings) {
    if (finding.id != "join.host" || finding.subject.host.empty()) continue;
    named = true;
    for (const std::size_t host : hosts_named({finding.subject.host}, report.topology))
      if (hosts.verdicts[host].unfinished.empty())
        hosts.blame(finding.subject.host, &NodeVerdict::unfinished, word_of(finding));
  }
  if (!named) blame_ranks(false);
}

// True if a suspect or a question explains the fault. A question of several hosts explains no failure of a rank.
bool is_explained(const Report& report, std::string_view fault) {
  return std::ranges::find(report.suspects, fault, &Suspect::fault) != report.suspects.end() ||
         std::ranges::any_of(report.open_questions, [&](const OpenQuestion& question) {
           return question.fault == fault && (fault == "wrong" || !question.host.empty());
         });
}

// Wrong data of one node is that node's. Of several nodes the one that receives it need not be the one that corrupts
// it, so all nodes of the wrong groups are in doubt.
void blame_wrong(const Measurement& m, const Report& report, HostVerdicts& hosts) {
  const std::string word = "wrong data";
  std::set<std::size_t> nodes;
  for (const Group& group : m.wrong_groups)
    for (const int rank : group)
      if (const std::optional<std::size_t> host = host_of_rank(rank, report)) nodes.insert(*host);
  if (m.measured_case.nodes > 1) return nodes.empty() ? hosts.doubt_all(word) : hosts.doubt(nodes, word);
  const std::optional<int> first = m.first_wrong ? std::optional(m.first_wrong->rank) : std::nullopt;
  hosts.blame_rank(first, &NodeVerdict::unfit, word);
  if (!first) return;
  if (const std::optional<std::size_t> host = host_of_rank(*first, report)) nodes.erase(*host);
  for (const std::size_t node : nodes) hosts.blame(report.topology.hosts.at(node).name, &NodeVerdict::unfit, word);
}

// One of the candidates is at fault, so all nodes that one is on or joins are in doubt.
void blame_candidates(const OpenQuestion& question, const topo::Topology& topology, HostVerdicts& hosts) {
  const std::string word = alternatives(question.candidates);
  if (!question.host.empty()) return hosts.blame(question.host, &NodeVerdict::unfit, word);
  std::set<std::size_t> nodes;
  for (const std::string& candidate : question.candidates) {
    const std::optional<Part> part = part_named(candidate);
    if (!part) return hosts.doubt_all(word);
    nodes.merge(hosts_of(*part, topology));
  }
  hosts.doubt(nodes, word);
}

bool none_has(const std::vector<NodeVerdict>& verdicts, std::vector<std::string> NodeVerdict::*list) {
  return std::ranges::all_of(verdicts, [&](const NodeVerdict& each) { return (each.*list).empty(); });
}

bool all_are_sound(const std::vector<NodeVerdict>& verdicts) {
  return none_has(verdicts, &NodeVerdict::unfit) && none_has(verdicts, &NodeVerdict::in_doubt);
}

std::string title_of(const topo::Host& host) {
  return host.instance.empty() ? printable(host.name)
                               : fmt::format("{} ({})", printable(host.name), printable(host.instance));
}

// True where something was not judged because other programs use GPUs of the host.
bool has_shared_gpus(const Report& report, const std::string& host) {
  return std::ranges::any_of(report.results,
                             [&](const Result& result) { return is_not_judged_on(result.verdict, host); });
}

// Summary of the checks of a node, and how many measurements were judged.
std::string checks_of(const Report& report, std::size_t host) {
  std::vector<std::string> parts{"software and settings"};
  std::set<int> ranks;
  for (std::size_t rank = 0; rank < report.topology.host_of_rank.size(); ++rank)
    if (std::cmp_equal(report.topology.host_of_rank[rank], host)) ranks.insert(static_cast<int>(rank));
  std::set<std::pair<int, int>> pairs, nics;
  std::size_t judged = 0, measured = 0, skipped = 0, late = 0, between = 0, judged_between = 0;
  for (const Result& result : report.results) {
    const Measurement& m = result.measurement;
    if (m.outcome == Outcome::skipped) ++(lacked_time(result) ? late : skipped);
    if (m.outcome != Outcome::measured) continue;
    const bool is_judged =
        result.verdict.grade != Grade::unknown && !is_not_judged_on(result.verdict, report.topology.hosts[host].name);
    ++measured;
    if (is_judged) ++judged;
    if (m.measured_case.nodes > 1) {
      ++between;
      if (is_judged) ++judged_between;
    }
    if (!m.measured_case.collective->pairwise) continue;
    for (const GroupResult& group : m.groups)
      for (const int rank : group.group) {
        if (!ranks.contains(rank)) continue;
        if (m.measured_case.nic)
          nics.emplace(rank, *m.measured_case.nic);
        else if (group.group.size() == 2)
          pairs.insert(std::minmax(group.group.front(), group.group.back()));
      }
  }
  if (!pairs.empty()) parts.push_back(counted(pairs.size(), "pair") + " of ranks");
  if (!nics.empty()) parts.push_back(counted(nics.size(), "NIC"));
  std::size_t alone = 0, loaded = 0;
  for (std::size_t rank = 0; rank < report.local_checks.size(); ++rank)
    if (ranks.contains(static_cast<int>(rank)) && !report.local_checks[rank].empty()) {
      ++alone;
      if (report.local_checks[rank].contains("load_products_share")) ++loaded;
    }
  const topo::Host& there = report.topology.hosts[host];
  const std::size_t gpus = std::max(there.gpu_devices.size(), static_cast<std::size_t>(std::max(there.gpus, 0)));
  if (alone > 0)
    parts.push_back(fmt::format("{}{} alone{}", alone,
                                alone < gpus ? fmt::format(" of {} GPUs", gpus)
                                : alone == 1 ? " GPU"
                                             : " GPUs",
                                loaded == alone ? " and under load" : ""));
  std::string text = "checked " + join(parts);
  if (measured > 0) text += fmt::format("; speed judged in {} of {} measurements", judged, measured);
  if (between > 0 && judged_between == 0) text += ", in none between nodes";
  if (has_shared_gpus(report, there.name)) text += " (other programs use its GPUs)";
  if (skipped > 0) text += fmt::format(", {} skipped", skipped);
  if (late > 0) text += fmt::format(", {} skipped for lack of time (a longer --limit measures more)", late);
  for (const std::string& sentence : products_left_out(report, host)) text += "; " + printable(sentence);
  return text;
}

std::string headline(const Report& report, const NodeVerdict& verdict, std::size_t host) {
  const std::string name = title_of(report.topology.hosts[host]);
  std::vector<std::string> all = verdict.unfit;
  for (const auto list : {&NodeVerdict::in_doubt, &NodeVerdict::unfinished, &NodeVerdict::unchecked})
    all.insert(all.end(), (verdict.*list).begin(), (verdict.*list).end());
  if (!verdict.unfit.empty()) return fmt::format("{}: NOT FIT: {}\n", name, join(all));
  if (!verdict.in_doubt.empty()) return fmt::format("{}: IN DOUBT: {}\n", name, join(all));
  if (!verdict.unfinished.empty()) return fmt::format("{}: NOT FINISHED: {}\n", name, join(all));
  if (!verdict.unchecked.empty()) return fmt::format("{}: NOT CHECKED: {}\n", name, join(all));
  if (report.exit_code == ExitCode::environment) return fmt::format("{}: NOT CHECKED\n", name);
  return fmt::format("{}: fit; {}\n", name, checks_of(report, host));
}

std::string line_of(const topo::Finding& finding) {
  return format_printable("  {} {}: {}. {}\n", topo::name_of(finding.severity), finding.id, finding.evidence,
                          finding.action);
}

// True for a suspect that is on no single host.
bool is_shared(const Suspect& suspect) { return is_between_hosts(suspect) || suspect.kind == "domain"; }

std::string line_of(const Suspect& suspect) { return format_printable("  suspect {}\n", sentence_about(suspect)); }

std::string details(const Report& report, const std::string& host) {
  std::string text;
  for (const Suspect& suspect : report.suspects)
    if (suspect.host == host && !is_shared(suspect)) text += line_of(suspect);
  for (const topo::Finding& finding : report.findings)
    if (finding.subject.host == host &&
        (topo::is_notable(finding) || (finding.id == "gpu.busy" && has_shared_gpus(report, host))))
      text += line_of(finding);
  return text;
}

// Details that concern no single host.
std::string details_of_all(const Report& report) {
  std::string text;
  for (const Suspect& suspect : report.suspects)
    if (is_shared(suspect)) text += line_of(suspect);
  for (const OpenQuestion& question : report.open_questions)
    text += format_printable("  one of {}: {}. {}\n", join(question.candidates), question.evidence, question.next);
  for (const topo::Finding& finding : report.findings)
    if (finding.subject.host.empty() && topo::is_notable(finding)) text += line_of(finding);
  constexpr std::size_t most = 3;
  std::size_t bad = 0;
  for (const Result& result : report.results)
    if (result.verdict.grade != Grade::ok && result.verdict.grade != Grade::unknown && ++bad <= most)
      text += format_printable("  {} {}: {}\n", name_of(result.verdict.grade),
                               describe(result.measurement.measured_case), result.verdict.because);
  if (bad > most) text += format_printable("  and {} more\n", bad - most);
  for (const std::string& remark : report.run.remarks) text += format_printable("  {}\n", remark);
  return text;
}

}  // namespace

std::vector<NodeVerdict> judge_nodes(const Report& report) {
  HostVerdicts hosts(report);
  for (const Suspect& suspect : report.suspects) {
    const std::string word = suspect.kind + " " + suspect.name;
    const std::set<std::size_t> its = hosts_of(suspect, report.topology);
    if (is_between_hosts(suspect)) {
      hosts.doubt(its, word);
      continue;
    }
    if (its.empty()) hosts.blame(suspect.host, &NodeVerdict::unfit, word);
    for (const std::size_t host : its) hosts.blame(report.topology.hosts[host].name, &NodeVerdict::unfit, word);
  }
  for (const topo::Finding& finding : report.findings) {
    if (!topo::condemns(finding)) continue;
    if (!finding.subject.host.empty())
      hosts.blame(finding.subject.host, &NodeVerdict::unfit, word_of(finding));
    else if (!finding.hosts.empty())
      hosts.doubt(hosts_named(finding.hosts, report.topology), word_of(finding));
    else
      hosts.doubt_all(word_of(finding));
  }
  for (const topo::Finding& finding : report.findings) {
    if (finding.id == cores_busy_id && finding.severity == topo::Severity::error)
      hosts.blame(finding.subject.host, &NodeVerdict::in_doubt, finding.id);
    if (finding.id == check_failed && !topo::condemns(finding))
      hosts.blame(finding.subject.host, &NodeVerdict::unfinished, word_of(finding));
    if (finding.id == not_burnt)
      hosts.blame(finding.subject.host, &NodeVerdict::unchecked, printable(finding.evidence));
    if (topo::is_of_silent_driver(finding))
      hosts.blame(finding.subject.host, &NodeVerdict::unfinished, printable(finding.evidence));
  }
  for (const Result& result : report.results) {
    if (result.verdict.grade == Grade::slow) blame_slow(result, report, hosts);
    if (result.verdict.grade == Grade::wrong && !is_explained(report, "wrong"))
      blame_wrong(result.measurement, report, hosts);
  }
  for (const OpenQuestion& question : report.open_questions) blame_candidates(question, report.topology, hosts);
  // Slow measurements of the whole job put all hosts in doubt, unless another reason names some.
  if (all_are_sound(hosts.verdicts))
    for (const Result& result : report.results)
      if (result.verdict.grade == Grade::slow && result.measurement.groups.empty())
        hosts.doubt_all(word_of_slow(result.measurement));
  if (!is_explained(report, "silent")) blame_failed(report, hosts);
  // An end of the check for all is the reason of the hosts that caused it; they kept the others from being checked.
  const auto list =
      none_has(hosts.verdicts, &NodeVerdict::unfinished) ? &NodeVerdict::unfinished : &NodeVerdict::unchecked;
  if (ran_out_of_time(report)) hosts.blame("", list, "not all was measured in time");
  if (!report.run.ended_by.empty()) hosts.blame("", list, report.run.ended_by);
  // A host is fit by what was measured there, whatever made the check end otherwise.
  if (report.exit_code != ExitCode::ok && report.exit_code != ExitCode::environment)
    for (std::size_t host = 0; host < hosts.verdicts.size(); ++host)
      if (NodeVerdict& each = hosts.verdicts[host];
          each.unfit.empty() && each.in_doubt.empty() && each.unfinished.empty() && !was_measured(report, host, false))
        each.unchecked.emplace_back(was_measured(report, host, true) ? "only single NICs were measured there"
                                                                     : "no operation was measured there");
  // The lines agree with the exit code in every case, because a prolog drains nodes by it.
  if (all_are_sound(hosts.verdicts)) {
    if (report.exit_code == ExitCode::slow || report.exit_code == ExitCode::wrong_data)
      hosts.doubt_all("not sound, and no node stands out");
    if (report.exit_code == ExitCode::unfinished && none_has(hosts.verdicts, &NodeVerdict::unfinished))
      hosts.blame("", &NodeVerdict::unfinished, "the check is incomplete");
  }
  return std::move(hosts.verdicts);
}

ExitCode check_exit_code(const Report& report, ExitCode code) {
  if (code != ExitCode::environment) return code;
  const std::vector<NodeVerdict> nodes = judge_nodes(report);
  return all_are_sound(nodes) ? code : ExitCode::slow;
}

std::set<std::string> hosts_slow_alone(const Report& report) {
  std::set<std::string> hosts;
  if (report.topology.hosts.size() > 1)
    for (const Result& result : report.results)
      if (result.verdict.grade == Grade::slow && result.measurement.measured_case.nodes == 1)
        hosts.merge(hosts_slow_in(result, report));
  return hosts;
}

void withdraw_questions_of_whole_hosts(Report& report) {
  const std::set<std::string> hosts = hosts_slow_alone(report);
  const topo::Topology& topology = report.topology;
  std::erase_if(report.open_questions, [&](const OpenQuestion& question) {
    if (question.fault != "slow" || !hosts.contains(question.host)) return false;
    const auto gpus = std::ranges::count_if(question.candidates, [](const std::string& each) {
      const std::optional<Part> part = part_named(each);
      return part && part->kind == Part::Kind::gpu;
    });
    const auto ranks = std::ranges::count_if(topology.host_of_rank, [&](int host) {
      return topology.hosts[static_cast<std::size_t>(host)].name == question.host;
    });
    return ranks > 1 && gpus == ranks;
  });
}

std::string subcommand_of(const Report& report) {
  const RunInfo& run = report.run;
  if (!run.subcommand.empty()) return run.subcommand;
  // Later words may be values of options, such as a folder of this name.
  return run.command.empty() || run.command.front().starts_with("-") ? "run" : run.command.front();
}

bool takes_resume(const Report& report) {
  const std::string subcommand = subcommand_of(report);
  const bool soaks =
      std::ranges::any_of(report.run.command, [](const std::string& word) { return word.starts_with("--soak"); });
  return report.provenance != "imported" && subcommand != "tune" && subcommand != "check" && !soaks;
}

bool is_check(const Report& report) { return subcommand_of(report) == "check"; }

bool ran_out_of_time(const Report& report) {
  const bool together = std::ranges::any_of(report.results, [](const Result& result) {
    return result.measurement.outcome == Outcome::measured && !result.measurement.measured_case.collective->pairwise;
  });
  return std::ranges::any_of(report.results, [&](const Result& result) {
    const Case& c = result.measurement.measured_case;
    const bool optional = c.for_parts || (together && c.collective->pairwise && c.nodes == 1);  // as time permits
    return !optional && (lacked_time(result) || c.pairs_sampled);
  });
}

std::string render_nodes(const Report& report, bool brief) {
  const std::vector<NodeVerdict> verdicts = judge_nodes(report);
  std::string text;
  for (std::size_t host = 0; host < verdicts.size(); ++host) {
    text += headline(report, verdicts[host], host);
    if (!brief) text += details(report, report.topology.hosts[host].name) + burn_table(report, host);
  }
  return brief ? text : text + details_of_all(report);
}

// ---- The same run on the other hosts

namespace {

// Arguments of the run for a repetition on real hosts.
std::vector<std::string> arguments_to_repeat(const Report& report) {
  constexpr std::array<std::string_view, 6> of_simulation{"--backend", "--platform", "--nodes",
                                                          "--fault",   "--seed",     "--resume"};
  constexpr std::string_view without_value = "--resume";
  std::vector<std::string> words;
  for (std::size_t i = 0; i < report.run.command.size(); ++i) {
    const std::string& word = report.run.command[i];
    const std::string name = word.substr(0, word.find('='));
    const bool dropped = name == without_value || (report.provenance == "simulated" &&
                                                   std::ranges::find(of_simulation, name) != of_simulation.end());
    if (!dropped)
      words.push_back(word);
    else if (name == word && name != without_value)
      ++i;  // skips the option's value
  }
  return words;
}

std::vector<std::string> values_given(const std::vector<std::string>& command, const std::string& option) {
  std::vector<std::string> values;
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (command[i].starts_with(option + "=")) values.push_back(command[i].substr(option.size() + 1));
    if (command[i] == option && i + 1 < command.size()) values.push_back(command[i + 1]);
  }
  return values;
}

// The value that an option was given, "" without it; of several the last.
std::string value_given(const std::vector<std::string>& command, const std::string& option) {
  const std::vector<std::string> values = values_given(command, option);
  return values.empty() ? "" : values.back();
}

}  // namespace

std::string output_folder(const Report& report) {
  if (const std::string given = value_given(report.run.command, "--out"); !given.empty()) return given;
  return is_check(report) ? "" : "p5bench-out";  // `check` writes no files by default
}

namespace {

// The ends of each suspected link, and of each that may be silent or corrupt data.
std::set<std::set<std::size_t>> ends_of_broken_links(const Report& report) {
  std::set<std::set<std::size_t>> all;
  const auto add = [&](const std::optional<Part>& part) {
    if (!part) return;
    for (const auto& [one, other] : pairs_joined_by(*part))
      all.insert({static_cast<std::size_t>(one), static_cast<std::size_t>(other)});
  };
  for (const Suspect& suspect : report.suspects) add(part_of(suspect));
  for (const OpenQuestion& question : report.open_questions)
    if (question.fault != "slow")
      for (const std::string& candidate : question.candidates) add(part_named(candidate));
  return all;
}

// Adds an end of each of these links that has both ends among the others: the end of most of them first.
void leave_out_ends_of_links(const Report& report, std::set<std::string>& unfit) {
  const auto name = [&](std::size_t host) -> const std::string& { return report.topology.hosts[host].name; };
  const std::set<std::set<std::size_t>> all = ends_of_broken_links(report);
  for (;;) {
    std::map<std::size_t, int> links;  // by host
    for (const std::set<std::size_t>& ends : all) {
      if (std::ranges::any_of(ends, [&](std::size_t end) { return unfit.contains(name(end)); })) continue;
      for (const std::size_t end : ends) ++links[end];
    }
    if (links.empty()) return;
    const auto most =
        std::ranges::max_element(links, {}, [](const auto& each) { return std::pair(each.second, each.first); });
    unfit.insert(name(most->first));
  }
}

}  // namespace

std::set<std::string> hosts_to_leave_out(const Report& report) {
  std::set<std::string> unfit = rejected_hosts(report);
  for (const Suspect& suspect : report.suspects)
    if (suspect.kind == "domain")
      for (const std::size_t host : hosts_of(suspect, report.topology)) unfit.insert(report.topology.hosts[host].name);
  // A host that may be the one that corrupts data or stays silent is not healthy, even if it is not known to be.
  for (const OpenQuestion& question : report.open_questions) {
    if (question.fault == "slow") continue;
    for (const std::string& candidate : question.candidates) {
      const std::optional<Part> part = part_named(candidate);
      if (!part || !(is_in_node(*part) || part->kind == Part::Kind::domain)) continue;
      for (const std::size_t host : hosts_of(*part, report.topology)) unfit.insert(report.topology.hosts[host].name);
    }
  }
  for (const topo::Finding& finding : report.findings)
    if (topo::condemns(finding) && finding.id != slow_under_load_id)
      unfit.insert(finding.hosts.begin(), finding.hosts.end());
  leave_out_ends_of_links(report, unfit);
  return unfit;
}

// The name by which a launcher reaches a host; NCCL_HOSTID may be no such name.
static const std::string& name_to_reach(const topo::Host& host) {
  return host.pretended && !host.host_name.empty() ? host.host_name : host.name;
}

std::string healthy_hosts(const Report& report) {
  const std::set<std::string> unfit = hosts_to_leave_out(report);
  const std::vector<int> domains = domains_of_hosts(report.topology);
  std::map<int, int> ranks;
  for (const int host : report.topology.host_of_rank) ++ranks[host];
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < report.topology.hosts.size(); ++i)
    if (!unfit.contains(report.topology.hosts[i].name)) kept.push_back(i);
  const auto domain = [&](std::size_t host) { return domains[host]; };
  if (kept.size() == domains.size() && std::ranges::is_sorted(kept, {}, domain)) return "";
  std::ranges::stable_sort(kept, {}, domain);
  // A launcher cannot tell hosts of one name apart: nodes of one machine, or machines of equal names.
  std::vector<std::pair<const topo::Host*, int>> lines;
  const auto line_of = [&](const topo::Host& host) {
    return std::ranges::find_if(lines,
                                [&](const auto& line) { return name_to_reach(*line.first) == name_to_reach(host); });
  };
  for (const std::size_t i : kept) {
    const topo::Host& host = report.topology.hosts[i];
    const auto same = line_of(host);
    if (same == lines.end())
      lines.emplace_back(&host, ranks[static_cast<int>(i)]);
    else if (same->first->boot_id == host.boot_id)
      same->second += ranks[static_cast<int>(i)];
    else
      return "";
  }
  for (const topo::Host& host : report.topology.hosts)
    if (unfit.contains(host.name) && line_of(host) != lines.end()) return "";
  std::string text;
  for (const auto& [host, slots] : lines) text += fmt::format("{} slots={}\n", printable(name_to_reach(*host)), slots);
  return text;
}

namespace {

NodeOfRank nodes_of_healthy_ranks(const Report& report) {
  const std::set<std::string> unfit = hosts_to_leave_out(report);
  NodeOfRank nodes = report.topology.host_of_rank;
  std::erase_if(nodes,
                [&](int host) { return unfit.contains(report.topology.hosts[static_cast<std::size_t>(host)].name); });
  return nodes;
}

// Null where these ranks have no such groups.
std::optional<Round> groups_of(const std::string& group, const NodeOfRank& nodes) try {
  return make_groups(group, nodes);
} catch (const UsageError&) {
  return std::nullopt;
}

bool are_alike(const Round& groups) {
  return std::ranges::all_of(groups, [&](const Group& each) { return each.size() == groups.front().size(); });
}

// The option, or the collective of these, that would be refused with these groups; "" if none.
std::string what_needs_other_groups(const Round& groups, const std::vector<std::string>& collectives,
                                    const std::string& root) {
  const auto named = [&](const char* name) { return std::ranges::find(collectives, name) != collectives.end(); };
  const auto is_power_of_two = [](const Group& each) { return std::has_single_bit(each.size()); };
  if (named("hypercube") && !std::ranges::all_of(groups, is_power_of_two))
    return "hypercube, which takes 1, 2, 4, 8, ... ranks";
  for (const char* const of_tokens : {"dispatch", "combine"})
    if (named(of_tokens) && !are_alike(groups)) return fmt::format("{}, which takes groups of one size", of_tokens);
  const std::size_t smallest = std::ranges::min_element(groups, {}, &Group::size)->size();
  if (!root.empty() && root != "all" && std::strtoul(root.c_str(), nullptr, 10) >= smallest)
    return fmt::format("--root {}", root);
  return "";
}

// True if no group has two ranks.
bool has_lone_ranks(const Round& groups) {
  return std::ranges::all_of(groups, [](const Group& group) { return group.size() < 2; });
}

constexpr const char* would_be_alone = "its groups would have one rank";

// As what_needs_all_ranks(), of what runs in the groups of --group.
std::string what_needs_own_groups(const std::vector<std::string>& command, const NodeOfRank& left) {
  const auto given = [&](const char* option) { return value_given(command, option); };
  const std::string group = given("--group");
  if (group == "node" || group == "domain") return "";  // these stay as they are
  const std::optional<Round> groups = groups_of(group.empty() ? "world" : group, left);
  if (!groups) return fmt::format("--group {}", group);
  if (left.size() > 1 && has_lone_ranks(*groups)) return fmt::format("--group {}: {}", group, would_be_alone);
  const std::string root = given("--root"), traffic = given("--traffic");
  // No default collective has a root.
  const std::vector<std::string> names = split(given("--collectives"), ',');
  if (std::string what = what_needs_other_groups(*groups, names, root); !what.empty()) return what;
  const bool has_rooted = std::ranges::any_of(collectives(), [&](const Collective* each) {
    return each->rooted && std::ranges::find(names, each->name) != names.end();
  });
  if (has_rooted && root == "all" && !are_alike(*groups)) return "--root all: it is for groups of one size";
  if (traffic.empty()) return "";
  if (!is_generated(traffic)) return "--traffic: its matrix is of all ranks";
  if (!are_alike(*groups)) return "--traffic: its matrix is for groups of one size";
  if (has_lone_ranks(*groups)) return "--traffic: a group of one rank sends nothing";
  if (const std::vector<std::string> numbers = split(traffic, ',');
      traffic.starts_with("expert:") && numbers.size() == 3 &&
      std::strtoul(numbers[1].c_str(), nullptr, 10) % groups->front().size() != 0)
    return "--traffic: its experts do not divide among them";
  return "";
}

// As what_needs_all_ranks(), of the works of --beside, which have groups of their own.
std::string what_needs_groups_beside(const std::vector<std::string>& command, const NodeOfRank& left) {
  for (const std::string& each : values_given(command, "--beside")) try {
      const Work work = parse_work(each);
      if (!work.collective || work.group == "node" || work.group == "domain") continue;
      const std::optional<Round> groups = groups_of(work.group, left);
      const std::string root = work.collective->rooted ? value_given(command, "--root") : "";
      std::string what =
          groups ? what_needs_other_groups(*groups, {std::string(work.collective->name)}, root) : "its groups";
      if (what.empty() && has_lone_ranks(*groups)) what = would_be_alone;
      if (!what.empty()) return fmt::format("--beside {}: {}", each, what);
    } catch (const UsageError&) {  // of a report that another program wrote
    }
  return "";
}

}  // namespace

std::size_t healthy_ranks(const Report& report) { return nodes_of_healthy_ranks(report).size(); }

std::string what_needs_all_ranks(const Report& report) {
  const std::vector<std::string>& command = report.run.command;
  if (!value_given(command, "--job").empty()) return "--job: its step is of all ranks";
  if (!value_given(command, "--baseline").empty()) return "--baseline: it is of all nodes";
  const NodeOfRank left = nodes_of_healthy_ranks(report);
  if (left.empty()) return "";
  if (std::string what = what_needs_own_groups(command, left); !what.empty()) return what;
  if (const std::string root = value_given(command, "--root");
      !root.empty() && root != "all" && std::strtoul(root.c_str(), nullptr, 10) >= left.size())
    return fmt::format("--root {}", root);  // whatever its groups are
  return what_needs_groups_beside(command, left);
}

namespace {

// The run's own folder within --out. `OUT/latest` leads to the newest run of any cluster, so that it may be another
// job's by the time that somebody follows it. Reports before 2026-11-28 tell their cluster alone.
std::string folder_in_output(const RunInfo& run) {
  if (!run.folder.empty()) return run.folder;
  return run.cluster.empty() ? "latest" : run.cluster + "/latest";
}

}  // namespace

std::string command_for_healthy(const Report& report) {
  const std::string out = output_folder(report);
  if (out.empty() || healthy_hosts(report).empty() || !what_needs_all_ranks(report).empty()) return "";
  std::string command = fmt::format("mpirun -np {} --hostfile {} p5bench", healthy_ranks(report),
                                    for_shell(fmt::format("{}/{}/hosts.healthy", out, folder_in_output(report.run))));
  for (const std::string& word : arguments_to_repeat(report)) command += " " + for_shell(word);
  return command;
}

}  // namespace p5::reports
