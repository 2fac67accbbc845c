#include "reports/decision.hpp"

#include <algorithm>
#include <array>
#include <ranges>
#include <set>

#include <fmt/format.h>

#include "bench/base/text.hpp"
#include "reports/decision_parts.hpp"
#include "reports/judge.hpp"
#include "reports/markup.hpp"
#include "reports/nccl_tests.hpp"
#include "reports/nodes.hpp"
#include "reports/report.hpp"

namespace p5::reports {

namespace {

std::vector<std::string> rejected_parts(const Report& report) {
  const std::set<std::string> hosts = rejected_hosts(report);
  std::vector<std::string> parts;
  for (const topo::Host& host : report.topology.hosts)
    if (hosts.contains(host.name)) parts.push_back(host.name);
  for (const Suspect& suspect : report.suspects)
    if (!hosts.contains(suspect.host) || suspect.host.empty() || suspect.kind == "link")
      parts.push_back(suspect.kind + " " + suspect.name);
  // A run on one node rejects that node, but not where only a comparison is why.
  if (parts.empty() && report.topology.hosts.size() == 1 && !decision::is_slower_than_baseline(report) &&
      (report.exit_code == ExitCode::slow || report.exit_code == ExitCode::wrong_data) && report.arms.empty())
    parts.push_back(report.topology.hosts.front().name);
  return parts;
}

std::string_view word_of(const Report& report) {
  switch (report.exit_code) {
    case ExitCode::ok:
      return was_judged(report) || passed_comparison(report) ? accept : cannot_tell;
    case ExitCode::slow:
    case ExitCode::wrong_data:
      return reject;
    default:
      return is_at_fault(report) || !decision::rejected_as_slow_alone(report).empty() ? reject : cannot_tell;
  }
}

}  // namespace

std::string alternatives(const std::vector<std::string>& candidates) {
  std::string names;
  for (const std::string& each : candidates | std::views::take(decision::most_named))
    names += (names.empty() ? "" : " or ") + each;
  return candidates.size() > decision::most_named
             ? fmt::format("{} or {} more", names, candidates.size() - decision::most_named)
             : names;
}

std::set<std::string> rejected_hosts(const Report& report) {
  std::set<std::string> hosts;
  for (const Suspect& suspect : report.suspects)
    if (suspect.kind != "link") hosts.insert(suspect.host);
  for (const topo::Finding& finding : report.findings)
    if (topo::condemns(finding)) hosts.insert(finding.subject.host);
  for (const OpenQuestion& question : report.open_questions) hosts.insert(question.host);
  hosts.merge(decision::rejected_as_slow_alone(report));
  hosts.erase("");
  return hosts;
}

bool was_interrupted(const Report& report, const Result& result) {
  return !report.run.ended_by.empty() && result.measurement.because == report.run.ended_by;
}

bool lacked_time(const Result& result) {
  return result.measurement.outcome == Outcome::skipped && result.measurement.because == "budget";
}

namespace {

// True if the result is about GPUs, and, if `between`, about transfers between nodes.
bool counts_for_verdict(const Result& result, bool between) {
  const Case& c = result.measurement.measured_case;
  return uses_gpus(c) && !c.for_parts && (!between || domains_of(c) > 1);
}

bool was_any_judged(const Report& report, bool between) {
  return std::ranges::any_of(report.results, [&](const Result& each) {
    return counts_for_verdict(each, between) && decision::was_measured(each) &&
           (each.verdict.grade == Grade::ok || each.verdict.grade == Grade::slow);
  });
}

}  // namespace

bool lacks_verdict_between_nodes(const Report& report) {
  return !was_any_judged(report, true) &&
         std::ranges::any_of(report.results, [](const Result& each) { return counts_for_verdict(each, true); });
}

bool was_judged(const Report& report) {
  return was_any_judged(report, false) && (is_check(report) || !lacks_verdict_between_nodes(report));
}

bool passed_comparison(const Report& report) {
  return report.exit_code == ExitCode::ok &&
         (!report.arms.empty() || std::ranges::any_of(report.results, [](const Result& each) {
           return each.baseline && uses_gpus(each.measurement.measured_case);
         }));
}

void add_baseline_answer(const std::string& headline, ExitCode code, Report& report) {
  if (!headline.empty()) report.comparison = headline;
  const bool lacks_only_a_verdict = report.exit_code == ExitCode::inconclusive && exit_code(report) == ExitCode::ok;
  if (code == ExitCode::ok && lacks_only_a_verdict) report.exit_code = ExitCode::ok;
  report.exit_code = worse(report.exit_code, code);
  report.decision = decide(report);
}

void withdraw_baseline_answer(Report& report) {
  if (!is_check(report) && decision::is_slower_than_baseline(report)) report.exit_code = exit_code(report, true);
  report.comparison.clear();
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

// Place among the grades that an accepted run does not have, the worst first; behind them that of all others.
static std::ptrdiff_t order_of_grade(Grade grade) {
  constexpr std::array bad_grades{Grade::wrong, Grade::failed, Grade::faulty, Grade::slow};
  return std::ranges::find(bad_grades, grade) - bad_grades.begin();
}

Grade worse_grade(Grade a, Grade b) { return order_of_grade(b) < order_of_grade(a) ? b : a; }

// A grade that is not the worst of the content. Cases that failed in the newest run of a baseline are not in it.
static std::string contradiction_of_grade(const Report& report) {
  const Grade content = overall(report), grade = report.grade;
  const bool may_be_worse = grade == Grade::failed && report.exit_code != ExitCode::ok;
  if (order_of_grade(content) == order_of_grade(grade) ||
      (order_of_grade(content) > order_of_grade(grade) && may_be_worse))
    return "";
  return fmt::format("its measurements, findings and suspects are {}, and its grade is {}", name_of(content),
                     name_of(grade));
}

// Smallest, median and largest time out of order. Samples of an import may be of another clock than its medians.
static std::string disorder_in(const Report& report) {
  constexpr double rounding = 1e-9;  // relative; files have twelve digits
  if (report.provenance == "imported") return "";
  for (const Result& each : report.results)
    for (const std::optional<Series>* series : {&each.measurement.latency, &each.measurement.throughput}) {
      if (!*series) continue;
      const Summary& times = (*series)->summary;
      if (times.min > times.median * (1 + rounding) || times.median > times.max * (1 + rounding))
        return fmt::format("{} took {:.6g} us at least, {:.6g} us in the median and {:.6g} us at most",
                           describe(each.measurement.measured_case), 1e6 * times.min, 1e6 * times.median,
                           1e6 * times.max);
    }
  return "";
}

std::string contradiction_in(const Report& report) {
  for (const auto look : {difference_in, contradiction_of_grade, disorder_in})
    if (std::string found = look(report); !found.empty()) return found;
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
  const auto is_measured = [](const Result& each) { return each.measurement.outcome == Outcome::measured; };
  if (accepts && std::ranges::none_of(report.results, is_measured))
    return fmt::format("its decision is {}, and nothing was measured", accept);
  if (report.decision.word == reject && (code == ExitCode::ok || code == ExitCode::usage))
    return fmt::format("its decision is {}, and the exit code is {}", reject, static_cast<int>(code));
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
  if (report.provenance == "simulated" || nccl_tests::is_import_with(nccl_tests::of_simulator, report))
    end += ", SIMULATED";
  if (word == reject && report.status != "complete") end += ", PARTIAL";
  const std::string begin =
      fmt::format("{}{}: ", word, named.empty() ? "" : " " + cut(decision::shortened(named), longest_sentence / 2));
  decision.sentence =
      begin + cut(printable(decision::reason_for(report, word)), longest_sentence - begin.size() - end.size()) + end;
  decision.next = decision::steps(report, word);
  if (word == reject) decision.command = command_for_healthy(report);
  return decision;
}

}  // namespace p5::reports
