#include "reports/decision_parts.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "reports/decision.hpp"
#include "reports/findings.hpp"
#include "reports/judge.hpp"
#include "reports/local_checks.hpp"
#include "reports/markup.hpp"
#include "reports/nodes.hpp"
#include "reports/reachability.hpp"
#include "reports/report.hpp"

namespace p5::reports::decision {

namespace {

// ---- clauses; "" if one does not apply

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

// "n1 is slow without the other nodes (all_reduce 50 % of limit)", with the lowest of its groups within the host.
std::string about_slow_alone(const Report& report, const std::string& host) {
  std::optional<double> least;
  std::string figure;
  for (const Result& each : report.results) {
    const Measurement& m = each.measurement;
    if (each.verdict.grade != Grade::slow || m.measured_case.nodes != 1 || !each.verdict.limit) continue;
    for (const GroupResult& group : m.groups) {
      const std::optional<std::size_t> at = host_of(report.topology, group.group.empty() ? -1 : group.group.front());
      if (!at || report.topology.hosts[*at].name != host || !is_slow_group(group, each, report)) continue;
      const double fraction = bus_bandwidth(m.measured_case, group.median).count / each.verdict.limit->count;
      if (fraction >= least.value_or(fraction + 1)) continue;
      least = fraction;
      figure = fmt::format(" ({} {:.0f} % of limit)", m.measured_case.collective->name, 100 * fraction);
    }
  }
  return fmt::format("{} is slow without the other nodes{}", host, figure);
}

// Each rejected host has a reason: its suspects, else its findings, else its open questions, else that it is slow by
// itself; where only the last applies, about_slow() says it. Findings and questions that concern no single host are
// given only if there is no other reason. `told`: the hosts whose reason is known, and "" if one of no single host is.
std::string about_parts(const Report& report, std::set<std::string> told = {}) {
  const bool follows = !told.empty();
  std::vector<std::string> clauses;
  if (const std::string suspects = about_suspects(report); !suspects.empty())
    clauses.push_back(suspects), told.insert("");
  for (const Suspect& suspect : report.suspects)
    if (suspect.kind != "link") told.insert(suspect.host);  // a link is no reason against its ends
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
  if (follows || !clauses.empty()) {
    std::vector<std::string> slow;
    for (const std::string& host : rejected_as_slow_alone(report)) slow.push_back(about_slow_alone(report, host));
    if (!slow.empty()) clauses.push_back(shortened(slow));
  }
  return join(clauses);
}

// Wrong data that no suspect explains, of measurements, else of findings, whose hosts are added to `told`, else of
// NCCL's own settings in a tuning.
std::string about_wrong(const Report& report, std::set<std::string>& told) {
  const std::size_t wrong = count_of(report, Grade::wrong);
  if (wrong == 0) {
    std::vector<std::string> findings;
    for (const topo::Finding& finding : report.findings)
      if (tells_wrong_data(finding)) {
        findings.push_back(fmt::format("{} ({})", finding.id, finding.evidence));
        told.insert(finding.subject.host);
      }
    const std::vector<const TuningFailure*> tuned = failures_of_default(report, true);
    if (findings.empty() && !tuned.empty())
      return fmt::format("tuning: wrong data with NCCL's own settings, {} {}", tuned.front()->collective,
                         to_text(Bytes{tuned.front()->bytes}));
    return shortened(findings);
  }
  std::string text = fmt::format("wrong data in {} of {}", wrong, counted(report.results.size(), "measurement"));
  for (const Result& each : report.results)
    if (each.verdict.grade == Grade::wrong && each.measurement.first_wrong)
      return text + ", first at " + name_of_rank(report.topology, each.measurement.first_wrong->rank);
  return text;
}

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
  std::set<std::pair<std::string, std::uint64_t>> sizes;
  const TuningFailure* first = nullptr;
  for (const TuningFailure* const each : failures_of_default(report, false)) {
    sizes.insert({each->collective, each->bytes});
    if (!first || (!first->because.starts_with("rank ") && each->because.starts_with("rank "))) first = each;
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

// Clause for NICs that no measurement of single NICs used, though some were to be measured, for GPUs that no rank used,
// and for hosts in no pair between nodes, though others were; "" if there are none. A fault there would not have been
// seen.
std::string about_untested(const Report& report) {
  const topo::Topology& topology = report.topology;
  std::vector<std::set<std::string>> nics(topology.hosts.size()), tested(topology.hosts.size()),
      gpus(topology.hosts.size());
  for (std::size_t rank = 0; rank < topology.gpu_of_rank.size(); ++rank)
    if (const auto host = host_of(topology, static_cast<int>(rank)); host && *host < gpus.size())
      gpus[*host].insert(topology.gpu_of_rank[rank]);
  std::set<std::size_t> in_pairs;
  bool single_nics = false, of_domains = false, lacks_nics = false;
  for (std::size_t rank = 0; rank < topology.nics_of_rank.size(); ++rank)
    if (const auto host = host_of(topology, static_cast<int>(rank)); host && *host < nics.size())
      std::ranges::copy_if(topology.nics_of_rank[rank], std::inserter(nics[*host], nics[*host].end()),
                           [](const std::string& name) { return !name.empty(); });  // "": the place of an absent NIC
  for (const Result& each : report.results) {
    const Measurement& m = each.measurement;
    if (!is_pairwise(each) || domains_of(m.measured_case) < 2) continue;
    lacks_nics = lacks_nics || (m.measured_case.nic && !was_measured(each) && !lacked_time(each));
    if (!was_measured(each)) continue;
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
    const std::size_t of_host = std::max(static_cast<std::size_t>(std::max(topology.hosts[host].gpus, 0)),
                                         topology.hosts[host].gpu_devices.size());
    if (!gpus[host].empty() && gpus[host].size() < of_host)
      clauses.push_back(fmt::format("{} of {} of {} not tested", of_host - gpus[host].size(), counted(of_host, "GPU"),
                                    topology.hosts[host].name));
    if (!in_pairs.empty() && !in_pairs.contains(host))
      alone.push_back(topology.hosts[host].name);
    else if (single_nics && missed > 0)
      clauses.push_back(fmt::format("{} of {} of {} not tested", missed, counted(nics[host].size(), "NIC"),
                                    topology.hosts[host].name));
  }
  if (!single_nics && lacks_nics) clauses.emplace_back("no single NIC tested");
  if (!alone.empty())
    clauses.insert(clauses.begin(),
                   shortened(alone) + (of_domains ? " in no pair between domains" : " in no pair between nodes"));
  return clauses.empty() ? "" : shortened(clauses);
}

// Clause for a job on several NVLink domains, which plain nodes are, of which only what goes on within them was
// measured; else "". Its NICs may be at fault.
std::string about_unused_fabric(const Report& report) {
  const topo::Topology& topology = report.topology;
  const std::vector<int> domains = domains_of_hosts(topology);
  std::set<int> of_ranks;
  for (const int host : topology.host_of_rank)
    if (host >= 0 && std::cmp_less(host, domains.size())) of_ranks.insert(domains[static_cast<std::size_t>(host)]);
  if (of_ranks.size() < 2) return "";
  const bool used = std::ranges::any_of(report.results, [](const Result& each) {
    return was_measured(each) && domains_of(each.measurement.measured_case) > 1;
  });
  if (used) return "";
  return std::string("nothing measured between ") + (of_ranks.size() == domains.size() ? "nodes" : "NVLink domains");
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
  if (const std::string unused = about_unused_fabric(report); !unused.empty()) return unused;
  if (sampled > 0) return "not all pairs measured";
  const auto tests_links = [](const Result& each) {
    return is_pairwise(each) || !uses_gpus(each.measurement.measured_case);
  };
  return report.run.ranks > 1 && std::ranges::none_of(report.results, tests_links) ? "no pairs measured" : "";
}

// Hosts whose GPUs are slow alone or under load, but for those that are rejected anyway; "" if there are none.
std::string about_slow_gpus(const Report& report, const std::set<std::string>& rejected = {}) {
  std::vector<std::string> hosts;
  bool any = false, alone = false, whole_hosts = true;
  for (const topo::Finding& finding : report.findings) {
    if (!is_slow_gpu(finding) || rejected.contains(finding.subject.host)) continue;
    any = true;
    whole_hosts = whole_hosts && is_of_all_gpus(finding);
    alone = alone || finding.id == slow_alone_id;
    const std::string& host = finding.subject.host;  // empty where either of several may be the slow one
    if (!host.empty() && std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  if (!any) return "";
  return fmt::format("{} slow {}{}", whole_hosts ? "all GPUs are" : "a GPU is", alone ? "alone" : "under load",
                     hosts.empty() || report.topology.hosts.size() < 2 ? "" : " on " + shortened(hosts));
}

std::string about_other_slow_gpus(const Report& report) { return about_slow_gpus(report, rejected_hosts(report)); }

// Slow pairs that the named parts do not explain.
std::string about_the_others(const Report& report) {
  const std::optional<double> fastest = fraction_of_other_pairs(report);
  return fastest ? fmt::format("pairs without {} are slow too (fastest {:.0f} % of limit)",
                               report.suspects.size() == 1 ? "it" : "them", 100 * *fastest)
                 : "";
}

std::string about_end(const Report& report) {
  if (report.status == "complete" && report.run.ended_by.empty()) return "";
  return "the run did not finish" + (report.run.ended_by.empty() ? "" : ": " + report.run.ended_by);
}

// True if pairs between nodes were measured, of whole ranks or of single NICs.
bool measured_between_nodes(const Report& report) {
  return std::ranges::any_of(report.results, [](const Result& each) {
    return was_measured(each) && is_pairwise(each) && each.measurement.measured_case.nodes > 1;
  });
}

// "no single GPU stands out", where that was looked for.
std::string_view about_single_gpus(const Report& report) {
  return pairs_within_nodes_measured(report) ? ", and no single GPU stands out"
                                             : "; no pairs of its GPUs were measured, so none can be named";
}

std::string figure_of(const Result& slow) {
  const Verdict& v = slow.verdict;
  return fmt::format("{} {} of limit{}", slow.measurement.measured_case.collective->name,
                     percent_beside(judged_fraction(slow), v.least_fraction),
                     v.mean_fraction ? " on average, median " + percent_beside(*v.fraction, v.least_fraction) : "");
}

std::string about_slow(const Report& report) {
  const Result* const worst = slowest(report);
  if (!worst) return count_of(report, Grade::slow) > 0 ? "it is slow" : "";
  const std::string figure = figure_of(*worst);
  if (!all_are_slow(report)) {
    if (!uses_gpus(worst->measurement.measured_case)) return fmt::format("host memory is slow ({})", figure);
    if (report.topology.hosts.size() == 1) return fmt::format("it is slow ({}){}", figure, about_single_gpus(report));
    if (const Result* const alone = slowest(report, 1); alone && !rejected_as_slow_alone(report).empty())
      return fmt::format("slow without the other nodes ({}){}", figure_of(*alone), about_single_gpus(report));
    if (measured_between_nodes(report)) return fmt::format("the cluster is slow ({}), and no part stands out", figure);
    return fmt::format("the cluster is slow ({}); without pairs between nodes no part can be named", figure);
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
    if (is_join_error(finding)) return "ranks did not join: " + finding.evidence;
  return "ranks did not join";
}

// Clause for a comparison, which shows in the exit code only.
std::string about_comparison(const Report& report) {
  const bool arms = !report.arms.empty();
  if (report.exit_code == ExitCode::slow) {
    constexpr std::string_view regression = "REGRESSION: ";
    return std::string(arms ? "arm b is slower than arm a" : "it is slower than the baseline") +
           (report.comparison.starts_with(regression) ? ": " + report.comparison.substr(regression.size()) : "");
  }
  if (report.exit_code == ExitCode::wrong_data) return "data was wrong";
  if (report.exit_code == ExitCode::ok && arms) {
    constexpr std::string_view none = "NO REGRESSION";
    return "arm b is no slower than arm a" +
           (report.comparison.starts_with(none) ? report.comparison.substr(none.size()) : "");
  }
  if (report.exit_code == ExitCode::inconclusive && arms) return "it is not known whether arm b is slower than arm a";
  if (may_be_slower_than_baseline(report))
    return "it may be slower than the baseline" + report.comparison.substr(inconclusive_headline.size());
  return "";
}

// True for times on GPUs, other than those of a single NIC.
bool can_be_figure(const Result& result) {
  const Measurement& m = result.measurement;
  return was_measured(result) && m.throughput && uses_gpus(m.measured_case) && !m.measured_case.nic;
}

// The representative measurement of each operation that is ok: the largest message over the most nodes.
std::vector<const Result*> healthy_results(const Report& report) {
  std::vector<const Result*> figures;
  const auto weight = [](const Result* each) {
    const Case& c = each->measurement.measured_case;
    return std::tuple{c.group == "world", c.nodes, c.bytes.count};
  };
  for (const bool pairs : {false, true}) {
    for (const Result& each : report.results) {
      if (!can_be_figure(each) || is_pairwise(each) != pairs || each.verdict.grade != Grade::ok) continue;
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
  const Verdict& v = result.verdict;
  const double ratio = slowdown_by_slow_samples(result);
  return fmt::format("{} ({} of limit{})", rate, percent_beside(*v.fraction, v.least_fraction),
                     ratio > 1 ? fmt::format(", {:.0f} % on average", 100 * *v.fraction / ratio) : "");
}

// The large message that loses most by slow samples, of collectives if any were measured, else of pairs; nullptr if
// none loses much. Few samples of the largest one may miss what is seldom slow.
const Result* least_steady(const Report& report) {
  const auto is_large = [](const Result& each) {
    const Case& c = each.measurement.measured_case;
    return can_be_figure(each) && !c.for_parts && c.bytes >= MiB(64);
  };
  const bool collectives =
      std::ranges::any_of(report.results, [&](const Result& each) { return is_large(each) && !is_pairwise(each); });
  const Result* worst = nullptr;
  for (const Result& each : report.results)
    if (is_large(each) && is_pairwise(each) != collectives &&
        slowdown_by_slow_samples(each) > (worst ? slowdown_by_slow_samples(*worst) : 1))
      worst = &each;
  return worst;
}

// No bar is needed to see slow samples.
std::string about_slow_samples(const Report& report) {
  const Result* const worst = least_steady(report);
  if (!worst) return "";
  const Case& c = worst->measurement.measured_case;
  return fmt::format("some samples are slow ({} of {}: mean {:.0f} % above the median)", c.collective->name,
                     to_text(c.bytes), 100 * (slowdown_by_slow_samples(*worst) - 1));
}

std::string healthy_figures(const Report& report) {
  std::vector<std::string> words;
  bool unsteady = false;
  for (const Result* each : healthy_results(report)) {
    words.push_back(healthy_figure(*each));
    unsteady = unsteady || slowdown_by_slow_samples(*each) > 1;
  }
  if (words.size() > 2) words.resize(2);
  const auto nodes = static_cast<std::size_t>(std::max(report.run.nodes, 1));
  if (words.empty()) words.emplace_back("no slower than the baseline");
  const auto findings = [&](std::string_view id) {
    return static_cast<std::size_t>(std::ranges::count(report.findings, id, &topo::Finding::id));
  };
  std::vector<std::string> but;
  if (const std::size_t launches = findings(slow_launch_id); launches > 0)
    but.push_back(launches == 1 ? "a launch was slow" : fmt::format("{} launches were slow", launches));
  if (unsteady)
    but.emplace_back("some samples are slow");
  else if (const Result* const other = least_steady(report))
    but.push_back(fmt::format("some samples of {} are slow", to_text(other->measurement.measured_case.bytes)));
  if (findings(below_published_id) > 0) but.emplace_back("below published figures");
  if (is_check(report) && lacks_verdict_between_nodes(report)) but.emplace_back("nothing judged between nodes");
  for (const std::string& each : {about_slow_gpus(report), about_left_out(report), about_untested(report)})
    if (!each.empty()) but.push_back(each);
  words.push_back(counted(nodes, "node") + (but.empty() ? ", nothing slow" : ""));
  return (but.empty() ? "" : "but " + join(but, " and ") + ": ") + join(words);
}

std::string without_full_stop(std::string text) {
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// The reason that most measurements were left out for, where none was made; "" without measurements.
std::string reason_of_most(const Report& report) {
  std::map<std::string, std::size_t> reasons;
  for (const Result& each : report.results)
    ++reasons[lacked_time(each) ? about_left_out(report) : each.measurement.because];
  const auto most = std::ranges::max_element(reasons, {}, [](const auto& each) { return each.second; });
  return most == reasons.end() ? "" : without_full_stop(most->first);
}

std::string reason_not_judged(const Report& report) {
  if (report.provenance == "imported") return "imported figures are not judged";
  if (count_results(report, was_measured) == 0) {
    if (report.tuning)
      return (tuned_nothing(report) ? "nothing was tuned: " : "tuning judges no hardware; ") +
             without_full_stop(report.tuning->because);
    const std::string why = reason_of_most(report);
    return "nothing was measured" + (why.empty() ? "" : ": " + why);
  }
  if (most_lacked_time(report)) return about_left_out(report);
  if (count_results(report, [](const Result& each) { return uses_gpus(each.measurement.measured_case); }) == 0)
    return "host memory was measured; only GPUs are accepted";
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

}  // namespace

std::string about_unexplained_failures(const Report& report) {
  const auto stops = [](const auto& each) { return each.fault != "slow"; };
  const bool explained = std::ranges::any_of(report.suspects, stops) ||
                         std::ranges::any_of(report.open_questions, stops) ||
                         std::ranges::any_of(report.findings, topo::condemns);
  return explained ? "" : first_of({about_joining(report), about_failed(report)}, "");
}

std::string reason_for(const Report& report, std::string_view word) {
  const std::string errors = about_errors(errors_to_fix(report));
  if (word == accept)
    return (report.arms.empty() ? healthy_figures(report) : about_comparison(report)) +
           (errors.empty() ? "" : "; " + errors);
  if (word == reject && report.exit_code == ExitCode::wrong_data &&
      std::ranges::find(report.suspects, "wrong", &Suspect::fault) == report.suspects.end()) {
    std::vector<std::string> clauses;
    std::set<std::string> told{""};
    if (const std::string wrong = about_wrong(report, told); !wrong.empty()) {
      clauses.push_back(wrong);
      if (const std::string parts = about_parts(report, told); !parts.empty()) clauses.push_back(parts);
      return join(clauses);
    }
  }
  // Errors come first where nothing is named, because they may be the cause, and a long sentence is cut at its end.
  if (word == reject) {
    const std::string to_fix = about_errors(errors_of_rejected(report));
    const bool names_nothing = !is_at_fault(report) && rejected_hosts(report).empty();
    std::vector<std::string> clauses{
        names_nothing ? to_fix : "",
        first_of({about_parts(report), about_slow(report), about_comparison(report)}, "it is not sound"),
        about_the_others(report),
        about_unexplained_failures(report),
        names_nothing ? "" : to_fix,
        about_other_slow_gpus(report)};
    std::erase(clauses, "");
    return join(clauses, "; ");
  }
  const std::string slow_gpus = about_slow_gpus(report);
  const std::string slow_samples = report.exit_code == ExitCode::inconclusive ? about_slow_samples(report) : "";
  return (errors.empty() ? "" : errors + "; ") + (slow_gpus.empty() ? "" : slow_gpus + "; ") +
         (slow_samples.empty() ? "" : slow_samples + "; ") +
         first_of({about_joining(report), about_failed(report), about_end(report), about_comparison(report)},
                  report.exit_code == ExitCode::environment  ? "the environment makes measuring impossible"
                  : report.exit_code == ExitCode::unfinished ? "the run is unfinished"
                                                             : reason_not_judged(report));
}

}  // namespace p5::reports::decision
