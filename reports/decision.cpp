#include "reports/decision.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <ranges>
#include <regex>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "bench/base/text.hpp"
#include "bench/model/backends.hpp"
#include "reports/findings.hpp"
#include "reports/judge.hpp"
#include "reports/local_checks.hpp"
#include "reports/markup.hpp"
#include "reports/nodes.hpp"
#include "reports/observations.hpp"
#include "reports/reachability.hpp"
#include "reports/report.hpp"
#include "reports/suspects.hpp"

namespace p5::reports {

namespace {

constexpr std::size_t most_named = 3;

bool was_measured(const Result& result) { return result.measurement.outcome == Outcome::measured; }

template <class Test>
std::size_t count_results(const Report& report, Test test) {
  return static_cast<std::size_t>(std::ranges::count_if(report.results, test));
}

std::size_t count_of(const Report& report, Grade grade) {
  return count_results(report, [&](const Result& each) { return each.verdict.grade == grade; });
}

// The first names and the number of the others.
std::string shortened(const std::vector<std::string>& names) {
  if (names.size() <= most_named) return join(names);
  return fmt::format("{} and {} more", join({names.begin(), names.begin() + most_named}), names.size() - most_named);
}

// True if a part is known to be at fault, even in unfinished runs.
bool is_at_fault(const Report& report) {
  return !report.suspects.empty() || !report.open_questions.empty() ||
         std::ranges::any_of(report.findings, topo::condemns);
}

// Where nothing else tells which host is at fault: those that are slow by themselves.
std::set<std::string> rejected_as_slow_alone(const Report& report) {
  return is_at_fault(report) ? std::set<std::string>() : hosts_slow_alone(report);
}

// ---- the rejected parts

std::vector<std::string> rejected_parts(const Report& report) {
  const std::set<std::string> hosts = rejected_hosts(report);
  std::vector<std::string> parts;
  for (const topo::Host& host : report.topology.hosts)
    if (hosts.contains(host.name)) parts.push_back(host.name);
  for (const Suspect& suspect : report.suspects)
    if (!hosts.contains(suspect.host) || suspect.host.empty() || suspect.kind == "link")
      parts.push_back(suspect.kind + " " + suspect.name);
  // A run on one node rejects that node.
  if (parts.empty() && report.topology.hosts.size() == 1 &&
      (report.exit_code == ExitCode::slow || report.exit_code == ExitCode::wrong_data) && report.arms.empty())
    parts.push_back(report.topology.hosts.front().name);
  return parts;
}

// ---- reasons, a clause each; "" if one does not apply

std::string_view verb_of(const std::string& fault, bool several) {
  if (fault == "silent") return several ? "are silent" : "is silent";
  if (fault == "wrong") return several ? "corrupt data" : "corrupts data";
  return several ? "are slow" : "is slow";
}

// In the order of the rejected parts, so that a shortened sentence names the same ones twice.
std::vector<const Suspect*> suspects_by_host(const Report& report) {
  std::vector<const Suspect*> suspects;
  for (const Suspect& suspect : report.suspects) suspects.push_back(&suspect);
  std::ranges::stable_sort(suspects, {}, [&](const Suspect* suspect) {
    return std::ranges::find(report.topology.hosts, suspect->host, &topo::Host::name) - report.topology.hosts.begin();
  });
  return suspects;
}

std::string about_suspects(const Report& report) {
  std::vector<std::string> clauses;
  for (const char* const fault : {"wrong", "silent", "slow"}) {  // the worst first
    std::vector<std::string> names;
    for (const Suspect* suspect : suspects_by_host(report))
      if (suspect->fault == fault) names.push_back(suspect->kind + " " + suspect->name);
    if (!names.empty()) clauses.push_back(fmt::format("{} {}", shortened(names), verb_of(fault, names.size() > 1)));
  }
  return join(clauses);
}

// Each rejected host has a reason: its suspects, else its findings, else its open questions. Findings and questions
// that concern no single host are given only if there is no other reason.
std::string about_parts(const Report& report) {
  std::vector<std::string> clauses;
  std::set<std::string> told;
  if (const std::string suspects = about_suspects(report); !suspects.empty()) clauses.push_back(suspects), told = {""};
  for (const Suspect& suspect : report.suspects) told.insert(suspect.host);
  std::vector<std::string> findings;
  std::set<std::string> hosts;
  for (const topo::Finding& finding : report.findings) {
    if (!topo::condemns(finding) || told.contains(finding.subject.host)) continue;
    findings.push_back(fmt::format("{} ({})", finding.id, finding.evidence));
    hosts.insert({"", finding.subject.host});
  }
  if (!findings.empty()) clauses.push_back(shortened(findings));
  told.merge(hosts);
  for (const OpenQuestion& question : report.open_questions)
    if (told.insert(question.host).second)
      clauses.push_back(fmt::format("{} {}", alternatives(question.candidates), verb_of(question.fault, false)));
  return join(clauses);
}

std::string about_wrong(const Report& report) {
  const std::size_t wrong = count_of(report, Grade::wrong);
  if (wrong == 0) return "";
  std::string text = fmt::format("wrong data in {} of {}", wrong, counted(report.results.size(), "measurement"));
  for (const Result& each : report.results)
    if (each.verdict.grade == Grade::wrong && each.measurement.first_wrong)
      return text + ", first at " + name_of_rank(report.topology, each.measurement.first_wrong->rank);
  return text;
}

// A measurement that was under way when the run ended has no reason of its own.
bool was_interrupted(const Report& report, const Result& result) {
  return !report.run.ended_by.empty() && result.measurement.because == report.run.ended_by;
}

// True for a failure of NCCL's own settings in a tuning, which says as much of the machine as a failed measurement. A
// failure of a setting that was tried is that setting's.
bool is_of_default(const TuningFailure& failure) { return failure.setting == "default" && !failure.wrong_data; }

// "first at rank 3 on n1 in verify: ..." from "rank 3 in verify: ..."; ": ..." from other reasons. The host precedes
// what a long sentence is cut behind.
std::string at_first_rank(const Report& report, const std::string& because) {
  static const std::regex rank_first("rank ([0-9]{1,9}) in .*");
  std::smatch found;
  if (!std::regex_match(because, found, rank_first)) return ": " + because;
  return fmt::format(", first at {}{}", name_of_rank(report.topology, std::stoi(found[1])),
                     because.substr(static_cast<std::size_t>(found.length(1)) + std::string_view("rank ").size()));
}

// Sizes at which NCCL's own settings failed in the tuning; "" without any.
std::string about_failed_tuning(const Report& report) {
  if (!report.tuning) return "";
  std::set<std::pair<std::string, std::uint64_t>> sizes;
  const TuningFailure* first = nullptr;
  for (const TuningFailure& failure : report.tuning->failures) {
    if (!is_of_default(failure)) continue;
    sizes.insert({failure.collective, failure.bytes});
    if (!first || (!first->because.starts_with("rank ") && failure.because.starts_with("rank "))) first = &failure;
  }
  if (!first) return "";
  return fmt::format("tuning: NCCL's own settings failed at {}{}", counted(sizes.size(), "size"),
                     at_first_rank(report, first->because));
}

std::string about_failed(const Report& report) {
  const auto failed = [&](const Result& each) {
    return each.verdict.grade == Grade::failed && !was_interrupted(report, each);
  };
  const std::size_t count = count_results(report, failed);
  if (count == 0) return about_failed_tuning(report);
  std::string text = fmt::format("{} of {} failed", count, counted(report.results.size(), "measurement"));
  std::set<std::string> arms;
  for (const Result& each : report.results)
    if (failed(each)) arms.insert(each.measurement.measured_case.arm);
  if (arms.size() == 1 && *arms.begin() != "default") text += ", all of arm " + *arms.begin();
  const auto at_a_rank = [&](const Result& each) { return failed(each) && each.measurement.failed_rank; };
  const auto known = std::ranges::find_if(report.results, at_a_rank);
  if (known == report.results.end())
    return fmt::format("{}: {}", text, std::ranges::find_if(report.results, failed)->measurement.because);
  // The host precedes what a long sentence is cut behind; the rank is named once.
  const int rank = *known->measurement.failed_rank;
  const std::string own = fmt::format("rank {} in ", rank), &because = known->measurement.because;
  return fmt::format("{}, first at {}{}", text, name_of_rank(report.topology, rank),
                     because.starts_with(own) ? because.substr(own.size() - 4) : ": " + because);
}

// True if a failure names a rank. An end by a signal or by a full disk names none.
bool names_a_rank(const Report& report) {
  return report.run.ended_by.find("rank ") != std::string::npos ||
         std::ranges::any_of(report.results,
                             [](const Result& each) { return each.measurement.failed_rank.has_value(); }) ||
         (report.tuning && std::ranges::any_of(report.tuning->failures, [](const TuningFailure& failure) {
            return is_of_default(failure) && failure.because.starts_with("rank ");
          }));
}

bool is_pairwise(const Result& result) { return result.measurement.measured_case.collective->pairwise; }

// The rank's place in the topology; null where the report has none.
std::optional<std::size_t> host_of(const topo::Topology& topology, int rank) {
  if (rank < 0 || std::cmp_greater_equal(rank, topology.host_of_rank.size())) return std::nullopt;
  return static_cast<std::size_t>(topology.host_of_rank[static_cast<std::size_t>(rank)]);
}

// Clause for NICs that no measurement of single NICs used, though it used others, and for hosts in no pair between
// nodes, though others were; "" if there are none. A fault there would not have been seen.
std::string about_untested(const Report& report) {
  const topo::Topology& topology = report.topology;
  std::vector<std::set<std::string>> nics(topology.hosts.size()), tested(topology.hosts.size());
  std::set<std::size_t> in_pairs;
  bool single_nics = false, of_domains = false;
  for (std::size_t rank = 0; rank < topology.nics_of_rank.size(); ++rank)
    if (const auto host = host_of(topology, static_cast<int>(rank)); host && *host < nics.size())
      std::ranges::copy_if(topology.nics_of_rank[rank], std::inserter(nics[*host], nics[*host].end()),
                           [](const std::string& name) { return !name.empty(); });  // "": the place of an absent NIC
  for (const Result& each : report.results) {
    const Measurement& m = each.measurement;
    if (!was_measured(each) || !is_pairwise(each) || domains_of(m.measured_case) < 2) continue;
    of_domains = of_domains || m.measured_case.pair == "other_domain";
    for (const GroupResult& pair : m.groups)
      for (const int rank : pair.group) {
        const std::optional<std::size_t> host = host_of(topology, rank);
        if (!host || *host >= tested.size()) continue;
        in_pairs.insert(*host);
        if (!m.measured_case.nic || std::cmp_greater_equal(rank, topology.nics_of_rank.size())) continue;
        const std::vector<std::string>& own = topology.nics_of_rank[static_cast<std::size_t>(rank)];
        const auto nic = static_cast<std::size_t>(*m.measured_case.nic);
        if (nic < own.size() && !own[nic].empty()) tested[*host].insert(own[nic]), single_nics = true;
      }
  }
  std::vector<std::string> clauses, alone;
  for (std::size_t host = 0; host < topology.hosts.size(); ++host) {
    const std::size_t missed = nics[host].size() - tested[host].size();
    if (!in_pairs.empty() && !in_pairs.contains(host))
      alone.push_back(topology.hosts[host].name);
    else if (single_nics && missed > 0)
      clauses.push_back(fmt::format("{} of {} of {} not tested", missed, counted(nics[host].size(), "NIC"),
                                    topology.hosts[host].name));
  }
  if (!alone.empty())
    clauses.insert(clauses.begin(),
                   shortened(alone) + (of_domains ? " in no pair between domains" : " in no pair between nodes"));
  return clauses.empty() ? "" : shortened(clauses);
}

// Clause for the measurements that the budget or the operator left out, or for the pairs that the plan did; "" if none.
// Parts at fault may be among them.
std::string about_left_out(const Report& report) {
  const std::size_t left_out = count_results(report, lacked_time);
  const std::size_t sampled = count_results(report, [](const Result& each) {
    const Case& c = each.measurement.measured_case;
    return c.pairs_sampled && !c.for_parts;
  });
  if (left_out > 0)
    return fmt::format("{} of {} skipped for lack of time", left_out, counted(report.results.size(), "measurement"));
  if (sampled > 0) return "not all pairs measured";
  const auto tests_links = [](const Result& each) {
    return is_pairwise(each) || !uses_gpus(each.measurement.measured_case);
  };
  return report.run.ranks > 1 && std::ranges::none_of(report.results, tests_links) ? "no pairs measured" : "";
}

bool is_slow_gpu(const topo::Finding& finding) {
  return finding.id == slow_alone_id || finding.id == slow_under_load_id;
}

// Hosts whose GPUs are slow alone or under load; "" if there are none.
std::string about_slow_gpus(const Report& report) {
  std::vector<std::string> hosts;
  bool any = false, alone = false;
  for (const topo::Finding& finding : report.findings) {
    if (!is_slow_gpu(finding)) continue;
    any = true;
    alone = alone || finding.id == slow_alone_id;
    const std::string& host = finding.subject.host;  // empty where either of several may be the slow one
    if (!host.empty() && std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  if (!any) return "";
  return fmt::format("a GPU is slow {}{}", alone ? "alone" : "under load",
                     hosts.empty() || report.topology.hosts.size() < 2 ? "" : " on " + shortened(hosts));
}

std::string about_end(const Report& report) {
  if (report.status == "complete" && report.run.ended_by.empty()) return "";
  return "the run did not finish" + (report.run.ended_by.empty() ? "" : ": " + report.run.ended_by);
}

double judged_fraction(const Result& result) {
  return result.verdict.mean_fraction.value_or(result.verdict.fraction.value_or(0));
}

// The slow measurement with the lowest fraction of its limit; of those on at most so many nodes.
const Result* slowest(const Report& report, int most_nodes = std::numeric_limits<int>::max()) {
  const Result* worst = nullptr;
  for (const Result& each : report.results)
    if (each.verdict.grade == Grade::slow && each.verdict.fraction &&
        each.measurement.measured_case.nodes <= most_nodes &&
        (!worst || judged_fraction(each) < judged_fraction(*worst)))
      worst = &each;
  return worst;
}

// True if pairs between nodes were measured, of whole ranks or of single NICs.
bool measured_between_nodes(const Report& report) {
  return std::ranges::any_of(report.results, [](const Result& each) {
    return was_measured(each) && is_pairwise(each) && each.measurement.measured_case.nodes > 1;
  });
}

// Cases of comparable pairs between nodes. Single NICs are left out: their short messages do not reach their limit.
std::vector<const Result*> pairs_between_nodes(const Report& report) {
  std::vector<const Result*> pairs;
  for (const std::size_t at : cases_of_pairs(report)) {
    const Result& each = report.results[at];
    if (each.measurement.measured_case.nodes > 1 && !each.measurement.measured_case.nic && each.verdict.fraction)
      pairs.push_back(&each);
  }
  return pairs;
}

// Lowest fraction of its limit that pairs between nodes reach, among those that are compared with each other.
std::optional<double> fraction_of_pairs(const Report& report) {
  std::optional<double> least;
  for (const Result* each : pairs_between_nodes(report))
    least = std::min(*each->verdict.fraction, least.value_or(*each->verdict.fraction));
  return least;
}

// True if the pairs of one node are slower than those of another.
bool nodes_differ_in(const Result& pairs, const topo::Topology& topology) {
  std::map<std::size_t, std::vector<double>> times;
  for (const GroupResult& pair : pairs.measurement.groups)
    for (const int rank : pair.group)
      if (const std::optional<std::size_t> host = host_of(topology, rank)) times[*host].push_back(pair.median.count);
  std::vector<double> medians;
  for (auto& [host, of_host] : times) medians.push_back(median(std::move(of_host)));
  if (medians.empty()) return false;
  const auto [least, most] = std::ranges::minmax(medians);
  return most > least * (1 + gap_of_fault);
}

// True if the run is slow, no part stands out, and the pairs between nodes show that all nodes are alike. What is
// measured of the whole job says nothing of its nodes: one slow part is enough to slow all of it.
bool all_are_slow(const Report& report) {
  if (count_of(report, Grade::slow) == 0 || !report.suspects.empty() || !report.open_questions.empty()) return false;
  const std::vector<const Result*> pairs = pairs_between_nodes(report);
  return report.topology.hosts.size() > 1 && !pairs.empty() && hosts_slow_alone(report).empty() &&
         std::ranges::none_of(pairs, [&](const Result* each) { return nodes_differ_in(*each, report.topology); });
}

// True if the slowest case is a collective and falls short of its limit by more than twice as much as the pairs do.
bool only_collectives_are_slow(const Report& report, const Result& worst) {
  const std::optional<double> pairs = fraction_of_pairs(report);
  return !is_pairwise(worst) && pairs && 1 - *worst.verdict.fraction > 2 * (1 - *pairs);
}

std::string figure_of(const Result& slow) {
  return fmt::format(
      "{} {:.0f} % of limit{}", slow.measurement.measured_case.collective->name, 100 * judged_fraction(slow),
      slow.verdict.mean_fraction ? fmt::format(" on average, median {:.0f} %", 100 * *slow.verdict.fraction) : "");
}

std::string about_slow(const Report& report) {
  const Result* const worst = slowest(report);
  if (!worst) return count_of(report, Grade::slow) > 0 ? "it is slow" : "";
  const std::string figure = figure_of(*worst);
  if (!all_are_slow(report)) {
    if (!uses_gpus(worst->measurement.measured_case)) return fmt::format("host memory is slow ({})", figure);
    if (report.topology.hosts.size() == 1) return fmt::format("it is slow ({}), and no single GPU stands out", figure);
    if (const Result* const alone = slowest(report, 1); alone && !rejected_as_slow_alone(report).empty())
      return fmt::format("slow without the other nodes ({}), and no single GPU stands out", figure_of(*alone));
    if (measured_between_nodes(report)) return fmt::format("it is slow ({}), and no part stands out", figure);
    return fmt::format("it is slow ({}); no pairs between nodes were measured, so no part can be named", figure);
  }
  if (only_collectives_are_slow(report, *worst))
    return fmt::format("slow only where many ranks take part ({}, pairs {:.0f} %): no part stands out", figure,
                       100 * *fraction_of_pairs(report));
  const bool within = count_results(report, [](const Result& each) {
                        return each.verdict.grade == Grade::slow && each.measurement.measured_case.nodes == 1;
                      }) > 0;
  return fmt::format("all {} nodes are equally slow{} ({}): driver, settings or placement",
                     report.topology.hosts.size(), within ? "" : " to each other", figure);
}

std::string about_joining(const Report& report) {
  if (!never_joined(report)) return "";
  for (const topo::Finding& finding : report.findings)
    if (finding.id.starts_with("join.")) return "ranks did not join: " + finding.evidence;
  return "ranks did not join";
}

// Clause for a comparison, which shows in the exit code only.
std::string about_comparison(const Report& report) {
  const bool arms = !report.arms.empty();
  if (report.exit_code == ExitCode::slow) return arms ? "arm b is slower than arm a" : "it is slower than the baseline";
  if (report.exit_code == ExitCode::wrong_data) return "data was wrong while settings were tried";
  if (report.exit_code == ExitCode::inconclusive && arms) return "it is not known whether arm b is slower than arm a";
  return "";
}

// The representative measurement with this grade of each operation: the largest message over the most nodes.
std::vector<const Result*> figures_of(const Report& report, Grade grade) {
  std::vector<const Result*> figures;
  const auto weight = [](const Result* each) {
    const Case& c = each->measurement.measured_case;
    return std::tuple{c.group == "world", c.nodes, c.bytes.count};
  };
  for (const bool pairs : {false, true}) {
    for (const Result& each : report.results) {
      if (!was_measured(each) || !each.measurement.throughput || !uses_gpus(each.measurement.measured_case) ||
          is_pairwise(each) != pairs || each.verdict.grade != grade || each.measurement.measured_case.nic)
        continue;
      const auto same = std::ranges::find_if(figures, [&](const Result* known) {
        return known->measurement.measured_case.collective == each.measurement.measured_case.collective;
      });
      if (same == figures.end())
        figures.push_back(&each);
      else if (weight(&each) > weight(*same))
        *same = &each;
    }
    if (!figures.empty()) break;
  }
  return figures;
}

// Trimmed mean of the operation's time divided by its median, if that is at least 1.05; else 1.
double slowdown_by_slow_samples(const Result& result) {
  constexpr double matters = 1.05;
  const Summary& times = result.measurement.throughput->summary;
  const double ratio = times.trimmed_mean.value_or(times.median) / times.median;
  return ratio >= matters ? ratio : 1;
}

// "354 GB/s (99 % of limit)", and what is reached on average where that is less.
std::string healthy_figure(const Result& result) {
  const Case& c = result.measurement.measured_case;
  const std::string rate = fmt::format("{} {:.0f} GB/s", c.collective->name,
                                       bus_bandwidth(c, {result.measurement.throughput->summary.median}).count);
  if (!result.verdict.fraction) return rate;
  const double ratio = slowdown_by_slow_samples(result), fraction = 100 * *result.verdict.fraction;
  return fmt::format("{} ({:.0f} % of limit{})", rate, fraction,
                     ratio > 1 ? fmt::format(", {:.0f} % on average", fraction / ratio) : "");
}

// Clause for the operation that loses most by slow samples, of those that are not judged; "" if none loses much. No
// bar is needed to see it.
std::string about_slow_samples(const Report& report) {
  const Result* worst = nullptr;
  for (const Result* each : figures_of(report, Grade::unknown))
    if (slowdown_by_slow_samples(*each) > (worst ? slowdown_by_slow_samples(*worst) : 1)) worst = each;
  if (!worst) return "";
  return fmt::format("some samples are slow ({} takes {:.0f} % longer on average than its median)",
                     worst->measurement.measured_case.collective->name, 100 * (slowdown_by_slow_samples(*worst) - 1));
}

std::string healthy_figures(const Report& report) {
  std::vector<std::string> words;
  bool unsteady = false;
  for (const Result* each : figures_of(report, Grade::ok)) {
    words.push_back(healthy_figure(*each));
    unsteady = unsteady || slowdown_by_slow_samples(*each) > 1;
  }
  if (words.size() > 2) words.resize(2);
  const auto nodes = static_cast<std::size_t>(std::max(report.run.nodes, 1));
  if (words.empty()) words.emplace_back("no slower than the baseline");
  const auto has_finding = [&](std::string_view id) {
    return std::ranges::find(report.findings, id, &topo::Finding::id) != report.findings.end();
  };
  std::vector<std::string> but;
  if (unsteady) but.emplace_back("some samples are slow");
  if (has_finding(below_published_id)) but.emplace_back("below published figures");
  for (const std::string& each : {about_slow_gpus(report), about_left_out(report), about_untested(report)})
    if (!each.empty()) but.push_back(each);
  words.push_back(counted(nodes, "node") + (but.empty() ? ", nothing slow" : ""));
  return (but.empty() ? "" : "but " + join(but, " and ") + ": ") + join(words);
}

// True if the budget left out as much as was measured, or more.
bool most_lacked_time(const Report& report) {
  if (is_check(report)) return ran_out_of_time(report);
  const std::size_t left_out = count_results(report, lacked_time);
  return left_out > 0 && left_out >= count_results(report, was_measured);
}

bool tuned_nothing(const Report& report) {
  return report.results.empty() && report.tuning && report.tuning->outcome == "refused";
}

std::string without_full_stop(std::string text) {
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string reason_not_judged(const Report& report) {
  if (report.provenance == "imported") return "imported figures are not judged";
  if (count_results(report, was_measured) == 0) {
    if (report.tuning)
      return (tuned_nothing(report) ? "nothing was tuned: " : "tuning judges no hardware; ") +
             without_full_stop(report.tuning->because);
    const std::string budget = about_left_out(report);
    return "nothing was measured" + (budget.empty() ? "" : ": " + budget);
  }
  if (most_lacked_time(report)) return about_left_out(report);
  if (count_results(report, [](const Result& each) { return uses_gpus(each.measurement.measured_case); }) == 0)
    return "host memory was measured, which is not judged";
  // The reason of the largest message, preferably between nodes.
  const Result* largest = nullptr;
  const auto weight = [](const Result& each) {
    const Case& c = each.measurement.measured_case;
    return std::tuple{c.nodes, !c.collective->pairwise, c.bytes.count};
  };
  for (const Result& each : report.results)
    if (was_measured(each) && !each.measurement.measured_case.for_parts && each.verdict.grade == Grade::unknown &&
        (!largest || weight(each) > weight(*largest)))
      largest = &each;
  if (!largest) return "nothing could be judged";
  constexpr std::string_view prefix = "not judged: ";
  const std::string& because = largest->verdict.because;
  return because.starts_with(prefix) ? because.substr(prefix.size()) : because;
}

std::string first_of(std::initializer_list<std::string> clauses, const std::string& otherwise) {
  for (const std::string& each : clauses)
    if (!each.empty()) return each;
  return otherwise;
}

void add_step(std::vector<std::string>& list, const std::string& text) {
  if (!text.empty() && std::ranges::find(list, text) == list.end()) list.push_back(text);
}

// Errors of software, settings and host setup, which do not change the decision but have to be fixed. Failures to join
// are left out, because about_joining() reports them.
std::vector<topo::Finding> errors_to_fix(const Report& report) {
  std::vector<topo::Finding> errors;
  for (const topo::Finding& finding : report.findings)
    if (finding.severity == topo::Severity::error && !topo::condemns(finding) && !finding.id.starts_with("join."))
      errors.push_back(finding);
  return errors;
}

// The errors among these of rejected hosts that not all hosts of the job have: such an error may be why the host is
// slow although none of its parts is faulty.
std::vector<topo::Finding> errors_of_rejected(const Report& report) {
  std::vector<topo::Finding> errors = errors_to_fix(report);
  std::map<std::string, std::set<std::string>> hosts_with;
  for (const topo::Finding& each : errors) hosts_with[each.id].insert(each.subject.host);
  const std::set<std::string> rejected = rejected_hosts(report);
  std::erase_if(errors, [&](const topo::Finding& each) {
    return !rejected.contains(each.subject.host) || hosts_with[each.id].size() == report.topology.hosts.size();
  });
  return errors;
}

// "errors to fix first: host.memlock on 4 hosts, version.mixed on h2"; "" without errors.
std::string about_errors(const std::vector<topo::Finding>& findings) {
  std::vector<std::pair<std::string, std::vector<std::string>>> errors;
  for (const topo::Finding& finding : findings) {
    auto at = std::ranges::find(errors, finding.id, &std::pair<std::string, std::vector<std::string>>::first);
    if (at == errors.end()) at = errors.insert(errors.end(), {finding.id, {}});
    if (!finding.subject.host.empty()) add_step(at->second, finding.subject.host);
  }
  constexpr std::size_t most = 3;
  std::vector<std::string> words;
  for (const auto& [id, hosts] : errors)
    if (words.size() < most)
      words.push_back(id + (hosts.empty()       ? ""
                            : hosts.size() == 1 ? " on " + hosts.front()
                                                : " on " + counted(hosts.size(), "host")));
  if (words.empty()) return "";
  return "errors to fix first: " + join(words) +
         (errors.size() > most ? fmt::format(" and {} more", errors.size() - most) : "");
}

// The failures that no silent or corrupting part explains; "" if there are none. A slow part explains none.
std::string about_unexplained_failures(const Report& report) {
  const auto stops = [](const auto& each) { return each.fault != "slow"; };
  const bool explained = std::ranges::any_of(report.suspects, stops) ||
                         std::ranges::any_of(report.open_questions, stops) ||
                         std::ranges::any_of(report.findings, topo::condemns);
  return explained ? "" : about_failed(report);
}

std::string reason_for(const Report& report, std::string_view word) {
  const std::string errors = about_errors(errors_to_fix(report));
  if (word == accept) return healthy_figures(report) + (errors.empty() ? "" : "; " + errors);
  if (word == reject && report.exit_code == ExitCode::wrong_data &&
      std::ranges::find(report.suspects, "wrong", &Suspect::fault) == report.suspects.end()) {
    std::vector<std::string> clauses;
    for (const std::string& each : {about_wrong(report), about_suspects(report)})
      if (!each.empty()) clauses.push_back(each);
    if (!clauses.empty()) return join(clauses);
  }
  if (word == reject) {
    std::vector<std::string> clauses{
        first_of({about_parts(report), about_slow(report), about_comparison(report)}, "it is not sound")};
    for (const std::string& each : {about_unexplained_failures(report), about_errors(errors_of_rejected(report))})
      if (!each.empty()) clauses.push_back(each);
    return join(clauses, "; ");
  }
  // The errors come first, because they may be the cause, and a long sentence is cut at its end.
  const std::string slow_gpus = about_slow_gpus(report);
  const std::string slow_samples = report.exit_code == ExitCode::inconclusive ? about_slow_samples(report) : "";
  return (errors.empty() ? "" : errors + "; ") + (slow_gpus.empty() ? "" : slow_gpus + "; ") +
         (slow_samples.empty() ? "" : slow_samples + "; ") +
         first_of({about_joining(report), about_failed(report), about_end(report), about_comparison(report)},
                  report.exit_code == ExitCode::environment  ? "the environment makes measuring impossible"
                  : report.exit_code == ExitCode::unfinished ? "the run is unfinished"
                                                             : reason_not_judged(report));
}

std::string_view word_of(const Report& report) {
  switch (report.exit_code) {
    case ExitCode::ok:
      return was_judged(report) || passed_baseline(report) ? accept : cannot_tell;
    case ExitCode::slow:
    case ExitCode::wrong_data:
      return reject;
    default:
      return is_at_fault(report) ? reject : cannot_tell;
  }
}

// ---- steps to take

std::string value_in(const std::map<std::string, std::string>& context, const char* key) {
  const auto found = context.find(key);
  return found == context.end() ? "not known" : found->second;
}

std::string step_for(const topo::Finding& finding) {
  return fmt::format("{}{}: {}", finding.id, finding.subject.host.empty() ? "" : " on " + finding.subject.host,
                     finding.action);
}

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
    if (finding.severity != topo::Severity::info) add_step(list, step_for(finding));
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

// Only `run` and `ab` take --resume; a soak has no end to go on to. Without results there is nothing to keep, and on a
// disk that was full from the start not even a report.
bool can_be_resumed(const Report& report) {
  const auto is_kept = [&](const Result& each) {
    return was_measured(each) || (each.measurement.outcome == Outcome::failed && !was_interrupted(report, each));
  };
  if (count_results(report, is_kept) == 0) return false;
  const std::vector<std::string>& command = report.run.command;
  const bool is_other = std::ranges::any_of(
      command, [](const std::string& word) { return word == "tune" || word == "check" || word.starts_with("--soak"); });
  return report.provenance != "imported" && !is_other;
}

// True if a run on several nodes is slow, and its measurements do not tell where.
bool no_part_stands_out(const Report& report) {
  const Result* const worst = slowest(report);
  return worst && uses_gpus(worst->measurement.measured_case) && report.topology.hosts.size() > 1 &&
         !is_at_fault(report) && hosts_slow_alone(report).empty() && !all_are_slow(report);
}

std::vector<std::string> steps(const Report& report, std::string_view word) {
  std::vector<std::string> list;
  if (word == accept) return list;
  if (word == reject)
    for (const topo::Finding& finding : errors_of_rejected(report))
      add_step(list, "first, as it may be why: " + step_for(finding));
  for (const Suspect& suspect : report.suspects)
    add_step(list, fmt::format("{} {}: {}", suspect.kind, suspect.name, suspect.action));
  for (const topo::Finding& finding : report.findings)
    if (topo::condemns(finding)) add_step(list, step_for(finding));
  for (const OpenQuestion& question : report.open_questions) add_step(list, question.next);
  if (word == reject && !about_unexplained_failures(report).empty())
    add_step(list, "then run again: what is named above is slow, and does not explain what failed");
  if (word == reject && !healthy_hosts(report).empty() && !output_folder(report.run.command).empty())
    if (const std::string what = what_needs_all_ranks(report); !what.empty())
      add_step(list, fmt::format("run on the other hosts (hosts.healthy, {}) without {}",
                                 counted(healthy_ranks(report), "rank"), what));
  for (const std::string& host : rejected_as_slow_alone(report))
    add_step(list, fmt::format("{}: check its fabric manager, NVSwitches, power and clocks; if it stays slow, replace "
                               "the instance",
                               host));
  if (word == reject && no_part_stands_out(report))
    add_step(list,
             "run p5bench with its default collectives, sizes and budget on these nodes: it compares all pairs of them "
             "and looks for the part at fault");
  if (word == reject && (all_are_slow(report) || node_is_slow(report))) add_checklist(report, list);
  if (word == cannot_tell && report.exit_code == ExitCode::unfinished)
    add_step(list,
             std::string(can_be_resumed(report) ? "run again, or continue with --resume" : "run again") +
                 (names_a_rank(report) ? "; if it fails twice at the same rank, that rank's host is at fault" : ""));
  if (word == cannot_tell)
    for (const topo::Finding& finding : report.findings)
      if (is_slow_gpu(finding)) add_step(list, step_for(finding));
  if (word == cannot_tell && never_joined(report))
    for (const topo::Finding& finding : report.findings)
      if (finding.id.starts_with("join.")) add_step(list, finding.action);
  if (tuned_nothing(report)) return list;
  if (word == cannot_tell && most_lacked_time(report))
    add_step(list, is_check(report) ? "run again with a longer --limit"
                                    : "run again with a longer --budget, or fewer --collectives and --sizes");
  else if (word == cannot_tell && report.exit_code == ExitCode::inconclusive && report.arms.empty())
    add_step(
        list,
        fmt::format("compare it with healthy runs of the same machines: --baseline FILE (made by p5bench baseline){}",
                    report.topology.platform.empty() ? ", or name the --platform (p5bench list platforms)" : ""));
  return list;
}

}  // namespace

std::string alternatives(const std::vector<std::string>& candidates) {
  std::string names;
  for (const std::string& each : candidates | std::views::take(most_named))
    names += (names.empty() ? "" : " or ") + each;
  return candidates.size() > most_named ? fmt::format("{} or {} more", names, candidates.size() - most_named) : names;
}

std::set<std::string> rejected_hosts(const Report& report) {
  std::set<std::string> hosts;
  for (const Suspect& suspect : report.suspects)
    if (suspect.kind != "link") hosts.insert(suspect.host);
  for (const topo::Finding& finding : report.findings)
    if (topo::condemns(finding)) hosts.insert(finding.subject.host);
  for (const OpenQuestion& question : report.open_questions) hosts.insert(question.host);
  hosts.merge(rejected_as_slow_alone(report));
  hosts.erase("");
  return hosts;
}

bool lacked_time(const Result& result) {
  return result.measurement.outcome == Outcome::skipped && result.measurement.because == "budget";
}

bool was_judged(const Report& report) {
  bool judged = false, between = false, judged_between = false;
  for (const Result& each : report.results) {
    const Case& c = each.measurement.measured_case;
    if (!uses_gpus(c) || c.for_parts) continue;
    const bool ok = was_measured(each) && (each.verdict.grade == Grade::ok || each.verdict.grade == Grade::slow);
    judged |= ok;
    between |= domains_of(c) > 1;
    judged_between |= ok && domains_of(c) > 1;
  }
  return judged && (judged_between || !between);
}

bool passed_baseline(const Report& report) {
  return report.exit_code == ExitCode::ok && std::ranges::any_of(report.results, [](const Result& each) {
           return each.baseline && uses_gpus(each.measurement.measured_case);
         });
}

// Numbers that the report says twice, and differently. Tables of an import may be of several jobs.
static std::string difference_in(const Report& report) {
  if (report.provenance == "imported") return "";
  const topo::Topology& topology = report.topology;
  const auto ranks = static_cast<std::size_t>(std::max(report.run.ranks, 0));
  if (const std::size_t placed = topology.host_of_rank.size(); placed > 0) {
    if (placed != ranks)
      return fmt::format("the run has {}, and its topology {}", counted(ranks, "rank"), counted(placed, "rank"));
    if (std::cmp_not_equal(topology.hosts.size(), report.run.nodes))
      return fmt::format("the run has {} nodes, and its topology {}", report.run.nodes,
                         counted(topology.hosts.size(), "host"));
  }
  if (report.local_checks.size() > ranks)
    return fmt::format("the run has {}, and GPUs of {} were checked alone", counted(ranks, "rank"),
                       counted(report.local_checks.size(), "rank"));
  for (const Result& each : report.results) {
    const Measurement& m = each.measurement;
    const Case& c = m.measured_case;
    if (std::cmp_greater(c.ranks, ranks) || c.nodes > std::max(report.run.nodes, 1))
      return fmt::format("{} is of {} on {}, and the run has {} on {}", describe(c),
                         counted(static_cast<std::size_t>(c.ranks), "rank"),
                         counted(static_cast<std::size_t>(c.nodes), "node"), counted(ranks, "rank"), report.run.nodes);
    Group named = m.slowest_group;
    for (const GroupResult& group : m.groups) named.insert(named.end(), group.group.begin(), group.group.end());
    if (m.slowest_rank) named.push_back(*m.slowest_rank);
    for (const int rank : named)
      if (rank < 0 || std::cmp_greater_equal(rank, ranks))
        return fmt::format("{} names rank {}, and the run has {}", describe(c), rank, counted(ranks, "rank"));
  }
  return "";
}

std::string contradiction_in(const Report& report) {
  if (std::string difference = difference_in(report); !difference.empty()) return difference;
  const ExitCode content = exit_code(report), code = report.exit_code;
  const auto wrong =
      std::ranges::find_if(report.results, [](const Result& each) { return each.measurement.wrong_elements > 0; });
  if (wrong != report.results.end() && code != ExitCode::wrong_data)
    return fmt::format("{} has wrong data, and the exit code is {}", describe(wrong->measurement.measured_case),
                       static_cast<int>(code));
  // `check` says that a node is unfit although it could not measure.
  const bool unfit = code == ExitCode::slow && content == ExitCode::environment;
  if (worse(code, content) != code && !unfit)
    return fmt::format("its measurements, findings and suspects are those of exit code {}, and it has {}",
                       static_cast<int>(content), static_cast<int>(code));
  if (report.status != "complete" && code == ExitCode::ok)
    return fmt::format("the run is {}, and the exit code is 0", report.status);
  for (const std::string_view word : {accept, reject, cannot_tell})
    if (word != report.decision.word && report.decision.sentence.starts_with(word))
      return fmt::format("its decision is {}, and its sentence says {}", report.decision.word, word);
  const bool accepts = report.decision.word == accept;
  if (accepts && code != ExitCode::ok)
    return fmt::format("its decision is {}, and the exit code is {}", accept, static_cast<int>(code));
  if (report.decision.word == reject && code == ExitCode::ok)
    return fmt::format("its decision is {}, and the exit code is 0", reject);
  return "";
}

Decision decide(const Report& report) {
  Decision decision;
  std::vector<std::string> parts = rejected_parts(report);
  const std::string_view word = word_of(report);
  decision.word = word;
  if (word == reject) decision.parts = std::move(parts);
  std::vector<std::string> named;
  for (const std::string& part : decision.parts) named.push_back(cut(printable(part), 40));
  std::string end;
  if (report.provenance == "simulated") end += ", SIMULATED";
  if (word == reject && report.status != "complete") end += ", PARTIAL";
  const std::string begin =
      fmt::format("{}{}: ", word, named.empty() ? "" : " " + cut(shortened(named), longest_sentence / 2));
  decision.sentence =
      begin + cut(printable(reason_for(report, word)), longest_sentence - begin.size() - end.size()) + end;
  decision.next = steps(report, word);
  if (word == reject) decision.command = command_for_healthy(report);
  return decision;
}

}  // namespace p5::reports
