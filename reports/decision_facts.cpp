#include "reports/decision_parts.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "reports/decision.hpp"
#include "reports/judge.hpp"
#include "reports/local_checks.hpp"
#include "reports/nodes.hpp"
#include "reports/observations.hpp"
#include "reports/part_names.hpp"
#include "reports/reachability.hpp"
#include "reports/report.hpp"

namespace p5::reports::decision {

std::size_t count_of(const Report& report, Grade grade) {
  return count_results(report, [&](const Result& each) { return each.verdict.grade == grade; });
}

std::string shortened(const std::vector<std::string>& names) {
  if (names.size() <= most_named) return join(names);
  return fmt::format("{} and {} more", join({names.begin(), names.begin() + most_named}), names.size() - most_named);
}

std::set<std::string> rejected_as_slow_alone(const Report& report) {
  std::set<std::string> hosts = hosts_slow_alone(report);
  if (hosts.empty()) return hosts;
  // Links and rails are between hosts and slow nothing within one.
  for (const Suspect& suspect : report.suspects) {
    if (suspect.kind == "link" || suspect.kind == "rail") continue;
    hosts.erase(suspect.host);
    for (const std::size_t host : hosts_of(suspect, report.topology)) hosts.erase(report.topology.hosts[host].name);
  }
  for (const topo::Finding& finding : report.findings)
    if (topo::condemns(finding)) hosts.erase(finding.subject.host);
  for (const OpenQuestion& question : report.open_questions) hosts.erase(question.host);
  return hosts;
}

bool names_a_rank(const Report& report) {
  return report.run.ended_by.find("rank ") != std::string::npos ||
         std::ranges::any_of(report.results,
                             [](const Result& each) { return each.measurement.failed_rank.has_value(); }) ||
         std::ranges::any_of(failures_of_default(report, false),
                             [](const TuningFailure* failure) { return failure->because.starts_with("rank "); });
}

bool is_pairwise(const Result& result) { return result.measurement.measured_case.collective->pairwise; }

bool pairs_within_nodes_measured(const Report& report) {
  return std::ranges::any_of(report.results, [](const Result& each) {
    return was_measured(each) && is_pairwise(each) && each.measurement.measured_case.nodes == 1;
  });
}

bool is_slow_gpu(const topo::Finding& finding) {
  return finding.id == slow_alone_id || finding.id == slow_under_load_id;
}

double judged_fraction(const Result& result) {
  return result.verdict.mean_fraction.value_or(result.verdict.fraction.value_or(0));
}

const Result* slowest(const Report& report, int most_nodes) {
  const Result* worst = nullptr;
  for (const Result& each : report.results)
    if (each.verdict.grade == Grade::slow && each.verdict.fraction &&
        each.measurement.measured_case.nodes <= most_nodes &&
        (!worst || judged_fraction(each) < judged_fraction(*worst)))
      worst = &each;
  return worst;
}

std::vector<const Result*> pairs_between_nodes(const Report& report) {
  std::vector<const Result*> pairs;
  for (const std::size_t at : cases_of_pairs(report)) {
    const Result& each = report.results[at];
    if (each.measurement.measured_case.nodes > 1 && !each.measurement.measured_case.nic && each.verdict.fraction)
      pairs.push_back(&each);
  }
  return pairs;
}

std::optional<double> fraction_of_pairs(const Report& report) {
  std::optional<double> least;
  for (const Result* each : pairs_between_nodes(report))
    least = std::min(*each->verdict.fraction, least.value_or(*each->verdict.fraction));
  return least;
}

namespace {

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

}  // namespace

bool all_are_slow(const Report& report) {
  if (count_of(report, Grade::slow) == 0 || !report.suspects.empty() || !report.open_questions.empty()) return false;
  const auto leaves_out_hosts = [](const Result& each) { return !each.verdict.not_judged_hosts.empty(); };
  if (std::ranges::any_of(report.results, leaves_out_hosts)) return false;
  const std::vector<const Result*> pairs = pairs_between_nodes(report);
  return report.topology.hosts.size() > 1 && !pairs.empty() && hosts_slow_alone(report).empty() &&
         std::ranges::none_of(pairs, [&](const Result* each) { return nodes_differ_in(*each, report.topology); });
}

bool only_collectives_are_slow(const Report& report, const Result& worst) {
  const std::optional<double> pairs = fraction_of_pairs(report);
  return !is_pairwise(worst) && pairs && 1 - *worst.verdict.fraction > 2 * (1 - *pairs);
}

namespace {

// The pairs whose slowness a named part explains.
class ExplainedPairs {
 public:
  explicit ExplainedPairs(const Report& report) : topology_(report.topology) {
    std::set<std::string> broken = rejected_as_slow_alone(report);
    for (const topo::Finding& finding : report.findings)
      if (topo::condemns(finding)) broken.insert(finding.subject.host);
    const NicNumbers numbers(topology_);
    const std::vector<RankLocation> places = places_of(topology_);
    for (const RankLocation& place : places)
      is_explained_.push_back(broken.contains(topology_.hosts.at(static_cast<std::size_t>(place.node)).name));
    for (const Suspect& suspect : report.suspects) {
      const std::optional<Part> part = part_of(suspect);
      if (!part) continue;
      const std::set<std::size_t> hosts = hosts_of(*part, topology_);
      for (std::size_t rank = 0; !is_of_links(*part) && rank < places.size(); ++rank)
        if (hosts.contains(static_cast<std::size_t>(places[rank].node)) && uses(places[rank], *part, numbers))
          is_explained_[rank] = true;
      for (const auto& [one, other] : pairs_joined_by(*part)) links_.emplace(one, other);
    }
  }

  bool contain(const Group& pair) const {
    std::set<std::size_t> hosts;
    for (const int rank : pair) {
      const std::optional<std::size_t> host = host_of(topology_, rank);
      if (!host || is_explained_.at(static_cast<std::size_t>(rank))) return true;
      hosts.insert(*host);
    }
    return hosts.size() == 2 && links_.contains({static_cast<int>(*hosts.begin()), static_cast<int>(*hosts.rbegin())});
  }

 private:
  // True if transfers of the rank, which is on one of the part's hosts, may use it.
  static bool uses(const RankLocation& rank, const Part& part, const NicNumbers& numbers) {
    if (part.kind == Part::Kind::gpu) return part.number == rank.number;
    if (!is_nic(part)) return true;
    if (part.number < 0) return -1 - part.number == rank.number;  // the NICs beside that GPU
    const std::vector<int> near = numbers.near(rank);
    const int last = part.kind == Part::Kind::nics ? part.last : part.number;
    return near.empty() || std::ranges::any_of(near, [&](int nic) { return part.number <= nic && nic <= last; });
  }

  const topo::Topology& topology_;
  std::vector<bool> is_explained_;       // by rank
  std::set<std::pair<int, int>> links_;  // suspected ones, by their ends
};

}  // namespace

std::optional<double> fraction_of_other_pairs(const Report& report) {
  if (report.suspects.empty() || !report.open_questions.empty()) return std::nullopt;
  const ExplainedPairs explained(report);
  std::optional<double> least;
  for (const Result* each : pairs_between_nodes(report)) {
    if (each->verdict.grade != Grade::ok && each->verdict.grade != Grade::slow) continue;  // not judged
    const GroupResult* fastest = nullptr;
    for (const GroupResult& pair : each->measurement.groups)
      if (!explained.contain(pair.group) && (!fastest || pair.median.count < fastest->median.count)) fastest = &pair;
    if (!fastest || !each->verdict.limit) continue;
    if (!is_slow_group(*fastest, *each, report)) return std::nullopt;
    const double fraction =
        bus_bandwidth(each->measurement.measured_case, fastest->median).count / each->verdict.limit->count;
    least = std::min(fraction, least.value_or(fraction));
  }
  return least;
}

bool most_lacked_time(const Report& report) {
  if (is_check(report)) return ran_out_of_time(report);
  const std::size_t left_out = count_results(report, lacked_time);
  return left_out > 0 && left_out >= count_results(report, was_measured);
}

bool tuned_nothing(const Report& report) {
  return report.results.empty() && report.tuning && report.tuning->outcome == "refused";
}

bool is_slower_than_baseline(const Report& report) {
  const ExitCode content = exit_code(report);
  return report.exit_code == ExitCode::slow && report.arms.empty() &&
         (content == ExitCode::ok || content == ExitCode::inconclusive);
}

bool may_be_slower_than_baseline(const Report& report) {
  return report.exit_code == ExitCode::inconclusive && report.arms.empty() &&
         report.comparison.starts_with(inconclusive_headline);
}

void add_step(std::vector<std::string>& list, const std::string& text) {
  if (!text.empty() && std::ranges::find(list, text) == list.end()) list.push_back(text);
}

std::vector<topo::Finding> errors_to_fix(const Report& report) {
  const bool never = never_joined(report);
  std::vector<topo::Finding> errors;
  for (const topo::Finding& finding : report.findings)
    if (finding.severity == topo::Severity::error && !topo::condemns(finding) && !(never && is_join_error(finding)))
      errors.push_back(finding);
  return errors;
}

std::vector<topo::Finding> errors_of_rejected(const Report& report) {
  std::vector<topo::Finding> errors = errors_to_fix(report);
  std::map<std::string, std::set<std::string>> hosts_with;
  for (const topo::Finding& each : errors) hosts_with[each.id].insert(each.subject.host);
  const std::set<std::string> rejected = rejected_hosts(report);
  if (rejected.empty() && report.suspects.empty() && report.arms.empty()) return errors;
  std::erase_if(errors, [&](const topo::Finding& each) {
    return !rejected.contains(each.subject.host) || hosts_with[each.id].size() == report.topology.hosts.size();
  });
  return errors;
}

}  // namespace p5::reports::decision
