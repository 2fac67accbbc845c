#include "reports/retests.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "reports/observations.hpp"
#include "reports/suspects.hpp"

namespace p5::reports {

namespace {

using TransferKey = std::tuple<Transfers, std::vector<RankLocation>, int>;  // ranks ascending; NIC, or -1
TransferKey key_of(const TransferRecord& record) { return {record.kind, record.ranks, record.nic.value_or(-1)}; }

std::vector<RetestCase> silent_cases_to_retest(const Report& report, std::span<const TransferRecord> observations,
                                               const Paths& paths) {
  std::set<TransferKey> open;
  for (const TransferRecord& each : observations)
    if (each.silent.hits > 0) open.insert(key_of(each));
  for (const FaultyPart& faulty : localize(observations, paths, Fault::silent, accepted_log_odds))
    if (faulty.confidence >= least_confidence)
      for (const TransferRecord* each : faulty.observations) open.erase(key_of(*each));
  const std::vector<RankLocation> places = places_of(report.topology);
  std::vector<RetestCase> all;
  for (const Result& result : report.results) {
    const Measurement& m = result.measurement;
    const std::optional<Transfers> kind = transfers_of(m.measured_case);
    if (!kind) continue;
    RetestCase retest{.like = m.measured_case, .pairs = {}, .silent = true};
    bool any = false;
    for (Group group : m.silent_groups) {
      std::ranges::sort(group);
      std::vector<RankLocation> ranks;
      for (const int rank : group) ranks.push_back(places.at(static_cast<std::size_t>(rank)));
      if (open.erase({*kind, ranks, m.measured_case.nic.value_or(-1)}) == 0) continue;
      any = true;
      if (is_of_pairs(*kind) && *kind != Transfers::all_rails) retest.pairs.push_back(std::move(group));
    }
    if (any) all.push_back(std::move(retest));
  }
  return all;
}

// Retests for slow pairs of single NICs whose NICs have met few others, as on two hosts: each of the two NICs with
// other NICs of the same two ranks. The faulty one is slow with these too. `slow`: cases with their slow pairs.
std::vector<RetestCase> pairs_of_other_nics(std::span<const RetestCase> slow, const Report& report,
                                            std::span<const TransferRecord> observations, const NicNumbers& numbers) {
  constexpr std::size_t enough_partners = 3;
  const std::vector<RankLocation> places = places_of(report.topology);
  std::map<std::pair<RankLocation, int>, std::size_t> partners;
  std::set<std::tuple<RankLocation, RankLocation, int>> fast;
  for (const TransferRecord& each : observations) {
    if (!each.nic) continue;
    for (const RankLocation& rank : each.ranks) ++partners[{rank, *each.nic}];
    if (each.slow.share() < 0.5) fast.emplace(each.ranks[0], each.ranks[1], *each.nic);
  }
  std::map<std::pair<int, int>, RetestCase> by_nics;
  for (const RetestCase& each : slow) {
    if (!each.like.nic) continue;
    const int nic = *each.like.nic;
    for (const Group& ranks : each.pairs) {
      const auto [a, b] = std::minmax(places.at(static_cast<std::size_t>(ranks.front())),
                                      places.at(static_cast<std::size_t>(ranks.back())));
      if (partners[{a, nic}] >= enough_partners && partners[{b, nic}] >= enough_partners) continue;
      std::vector<int> others;
      const std::vector<int>&of_a = numbers.of(a), &of_b = numbers.of(b);
      for (int other = 0; std::cmp_less(other, std::min(of_a.size(), of_b.size())); ++other) {
        const auto at = static_cast<std::size_t>(other);
        if (other != nic && of_a[at] != NicNumbers::lacking && of_b[at] != NicNumbers::lacking) others.push_back(other);
      }
      std::ranges::stable_partition(others, [&](int other) { return fast.contains({a, b, other}); });
      const auto add = [&](int one, int two) {
        RetestCase& retest = by_nics[{one, two}];
        retest.like = each.like;
        retest.like.nic = one;
        retest.like.other_nic = two;
        retest.slowest = std::max(retest.slowest, each.slowest);
        if (std::ranges::find(retest.pairs, ranks) == retest.pairs.end()) retest.pairs.push_back(ranks);
      };
      for (const int other : others | std::views::take(enough_partners)) add(nic, other), add(other, nic);
      // Two fast NICs of different numbers, for comparison: such NICs may be farther from each other.
      if (others.size() > 1 && fast.contains({a, b, others[0]}) && fast.contains({a, b, others[1]}))
        add(others[0], others[1]);
    }
  }
  std::vector<RetestCase> all;
  for (auto& [nics, retest] : by_nics) all.push_back(std::move(retest));
  return all;
}

}  // namespace

std::vector<RetestCase> to_retest(const Report& report) {
  constexpr std::size_t most = 64;  // slowest pairs per operation: more slow pairs are not the fault of one part
  const NicNumbers numbers(report.topology);
  const std::vector<TransferRecord> observations = observe(report, {});
  const Paths paths = paths_of(report, numbers);
  std::map<TransferKey, double> slow;  // fraction of slow samples
  std::set<Transfers> whole;           // kinds that are retested as a whole
  for (const FaultyPart& faulty : localize(observations, paths, Fault::slow, doubtful_log_odds)) {
    for (const TransferRecord* each : faulty.observations) {
      if (each->slow.hits == 0) continue;
      if (each->is_pair() && each->kind != Transfers::all_rails)
        slow[key_of(*each)] = each->slow.share();
      else
        whole.insert(each->kind);
    }
  }
  const std::vector<RankLocation> places = places_of(report.topology);
  const auto slow_pairs = [&](const Measurement& m) {
    std::set<std::pair<double, Group>, std::greater<>> found;
    for (const GroupResult& result : m.groups) {
      const auto [low, high] = std::minmax(result.group.front(), result.group.back());
      const std::vector<RankLocation> two{places.at(static_cast<std::size_t>(low)),
                                          places.at(static_cast<std::size_t>(high))};
      const auto its = slow.find({*transfers_of(m.measured_case), two, m.measured_case.nic.value_or(-1)});
      if (its != slow.end()) found.insert({its->second, {low, high}});
    }
    RetestCase retest{.like = m.measured_case, .pairs = {}, .slowest = found.empty() ? 0 : found.begin()->first};
    for (const auto& [its, pair] : found | std::views::take(most)) retest.pairs.push_back(pair);
    return retest;
  };
  std::vector<RetestCase> all = silent_cases_to_retest(report, observations, paths), slow_cases;
  for (const std::size_t at : cases_of_pairs(report)) {
    const Measurement& m = report.results[at].measurement;
    // The plan's most demanding pattern is retested. Cases for fault localization have only one pattern.
    if (!m.measured_case.for_parts && m.measured_case.pattern != "both_ways") continue;
    if (RetestCase retest = slow_pairs(m); !retest.pairs.empty()) slow_cases.push_back(std::move(retest));
  }
  std::ranges::move(pairs_of_other_nics(slow_cases, report, observations, numbers), std::back_inserter(all));
  std::ranges::move(slow_cases, std::back_inserter(all));
  for (const Result& result : report.results) {
    const Measurement& m = result.measurement;
    const std::optional<Transfers> kind = transfers_of(m.measured_case);
    if (kind && whole.contains(*kind) && m.groups.size() > 1) all.push_back({m.measured_case, {}});
  }
  return all;
}

}  // namespace p5::reports
