#include "bench/measure/rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include "bench/base/names.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/agreement.hpp"

namespace p5 {

namespace {

// Time limit for locating a fault, counted from the failure: a host has to be named within a minute, of which ending
// and starting workers takes a part.
constexpr Seconds fault_search_limit{45};
constexpr Seconds least_limit{5};
// A start may take this many times as long as the longest one so far before it counts as a failure.
constexpr double starts_of_limit = 2;

std::vector<std::string> names_of(const std::vector<int>& hosts, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const int host : hosts) found.push_back(names.at(static_cast<std::size_t>(host)));
  return found;
}

std::string describe(const JoinFault& culprit, const RanksOnHosts& hosts) {
  using Kind = JoinFault::Kind;
  const std::vector<std::string>& names = hosts.names;
  const std::string_view host = hosts.one_host.empty() ? "host" : "GPU";
  const std::string& why = culprit.because;
  switch (culprit.kind) {
    case Kind::nowhere:
      return names.size() == 1 ? fmt::format("the ranks of {} do not join: {}", names.front(), why)
                               : fmt::format("the ranks of no {} join, not even by themselves: {}", host, why);
    case Kind::hosts:
      return fmt::format("the ranks of {} do not join, {}, while other {}s' do: {}",
                         join(names_of(culprit.hosts, names)),
                         culprit.alone ? "not even by themselves" : "though they do by themselves", host, why);
    case Kind::between:
      return fmt::format("no two {}s join, though the ranks of each do by themselves: {}", host, why);
    case Kind::pairs: {
      std::vector<std::string> pairs;
      for (const auto& [a, b] : culprit.pairs) pairs.push_back(join(names_of({a, b}, names), " with "));
      return fmt::format("{}: these do not join, though the ranks of each {} do by themselves: {}", join(pairs), host,
                         why);
    }
    case Kind::together:
      break;
  }
  return fmt::format("all ranks together do not join, though those of each {} do, alone and with other {}s': {}", host,
                     host, why);
}

// The first rank that failed in the search or before it. A rank on a host that joins with others is passed over: it
// may only have waited for the host at fault.
std::optional<int> rank_at_fault(const JoinFault& culprit, const PhaseFailed& first, const RanksOnHosts& hosts) {
  std::vector<int> ranks = culprit.ranks;
  if (first.rank) ranks.push_back(*first.rank);
  for (const int rank : ranks)
    if (culprit.kind != JoinFault::Kind::hosts ||
        std::ranges::find(culprit.hosts, hosts.host_of_rank.at(static_cast<std::size_t>(rank))) != culprit.hosts.end())
      return rank;
  return std::nullopt;
}

}  // namespace

void join_ranks(ControlPlane& control, Backend& backend) {
  if (backend.joined()) return;
  Group all(static_cast<std::size_t>(control.ranks()));
  std::iota(all.begin(), all.end(), 0);
  const RendezvousGroups rendezvous_groups{.groups = {all}};
  const std::string terms = agree(
      control, Phase::open, backend.recovers(), [&] { return backend.advertise(rendezvous_groups); },
      [&](const std::vector<std::string>& offers) { return backend.negotiate(rendezvous_groups, offers); });
  agree(control, Phase::open, backend.recovers(), [&] { backend.join(rendezvous_groups, terms); });
}

std::vector<std::optional<PhaseFailed>> join_groups(ControlPlane& control, Backend& backend,
                                                    const RendezvousGroups& rendezvous_groups) {
  auto offers = gather_by_group(control, Phase::open, rendezvous_groups.groups,
                                [&] { return backend.advertise(rendezvous_groups); });
  RendezvousGroups willing{.groups = {}, .limit = rendezvous_groups.limit, .start = rendezvous_groups.start};
  for (std::size_t i = 0; i < rendezvous_groups.groups.size(); ++i)
    if (!offers.failures[i]) willing.groups.push_back(rendezvous_groups.groups[i]);
  const std::string terms = from_leader(control, [&] { return backend.negotiate(willing, offers.parts); });
  const auto joined = gather_by_group(control, Phase::open, willing.groups, [&] { backend.join(willing, terms); });
  auto next = joined.failures.begin();
  for (std::optional<PhaseFailed>& failure : offers.failures)
    if (!failure) failure = *next++;
  return std::move(offers.failures);
}

// ---- location of a fault

JoinFault locate_fault(int hosts, const std::vector<JoinAttempt>& trials) {
  using Kind = JoinFault::Kind;
  JoinFault culprit;
  std::map<std::vector<int>, const JoinAttempt*> last;
  for (const JoinAttempt& trial : trials) last[trial.hosts] = &trial;
  std::vector<const JoinAttempt*> failed_alone, failed_pairs;
  std::vector<bool> joins(static_cast<std::size_t>(hosts));  // with at least one other host
  std::size_t pairs = 0;
  for (const JoinAttempt& trial : trials) {
    if (last.at(trial.hosts) != &trial) continue;
    const bool alone = trial.hosts.size() == 1;
    if (!alone) ++pairs;
    if (!trial.failure.empty()) (alone ? failed_alone : failed_pairs).push_back(&trial);
    if (alone || !trial.failure.empty()) continue;
    for (const int host : trial.hosts) joins[static_cast<std::size_t>(host)] = true;
  }
  if (!failed_alone.empty()) {
    culprit.alone = true;
    culprit.because = failed_alone.front()->failure;
    culprit.kind = failed_alone.size() == static_cast<std::size_t>(hosts) ? Kind::nowhere : Kind::hosts;
    for (const JoinAttempt* each : failed_alone) {
      culprit.hosts.push_back(each->hosts.front());
      culprit.failures.push_back(each->failure);
      if (each->rank) culprit.ranks.push_back(*each->rank);
    }
    return culprit;
  }
  if (failed_pairs.empty()) return culprit;
  culprit.because = failed_pairs.front()->failure;
  for (const JoinAttempt* each : failed_pairs)
    if (each->rank) culprit.ranks.push_back(*each->rank);
  if (failed_pairs.size() == pairs && pairs > 1) {
    culprit.kind = Kind::between;
    return culprit;
  }
  for (int host = 0; host < hosts; ++host) {
    if (joins[static_cast<std::size_t>(host)]) continue;
    int partners = 0, blameless = 0;
    for (const JoinAttempt* each : failed_pairs) {
      if (std::ranges::find(each->hosts, host) == each->hosts.end()) continue;
      const int partner = each->hosts.at(0) == host ? each->hosts.at(1) : each->hosts.at(0);
      ++partners;
      if (joins[static_cast<std::size_t>(partner)]) ++blameless;
    }
    if (partners > 1 && blameless > 0) culprit.hosts.push_back(host);
  }
  culprit.kind = culprit.hosts.empty() ? Kind::pairs : Kind::hosts;
  if (culprit.kind == Kind::pairs)
    for (const JoinAttempt* each : failed_pairs) culprit.pairs.emplace_back(each->hosts.at(0), each->hosts.at(1));
  return culprit;
}

// The edges of a ring of all hosts, in rounds of disjoint pairs: two rounds, or three for an odd number of hosts.
std::vector<std::vector<std::pair<int, int>>> pairs_to_try(int hosts) {
  if (hosts < 2) return {};
  std::vector<std::vector<std::pair<int, int>>> rounds(1);
  for (int host = 0; host + 1 < hosts; host += 2) rounds[0].emplace_back(host, host + 1);
  if (hosts == 2) return rounds;
  rounds.emplace_back();
  for (int host = 1; host + 1 < hosts; host += 2) rounds[1].emplace_back(host, host + 1);
  if (hosts % 2 != 0) rounds.emplace_back();
  rounds.back().emplace_back(0, hosts - 1);
  return rounds;
}

// ---- search for the fault

Rendezvous::Rendezvous(ControlPlane& control, RanksOnHosts hosts, Observer& observer)
    : control_(control), hosts_(std::move(hosts)), observer_(observer) {}

void Rendezvous::join_ranks(Backend& backend) {
  if (!given_up_.empty()) throw PhaseFailed{Phase::open, std::nullopt, given_up_};
  try {
    p5::join_ranks(control_, backend);
  } catch (const PhaseFailed& failed) {
    if (hosts_.names.empty() || failed.cut_short) throw;
    search_for_fault(backend, failed);
  }
}

void Rendezvous::search_for_fault(Backend& backend, const PhaseFailed& first) {
  began_ = Clock::now();
  longest_start_.count = agree(
      control_, [&] { return backend.longest_start().count; }, [](const auto& all) { return std::ranges::max(all); });
  std::vector<JoinAttempt> trials;
  const bool together = try_rounds(backend, trials);
  if (together) return tell(first, std::nullopt);
  if (cut_off_) throw_cut_off(first, trials);
  const int hosts = static_cast<int>(hosts_.names.size());
  JoinFault culprit = locate_fault(hosts, trials);
  if (culprit.kind == JoinFault::Kind::together) {
    const std::optional<PhaseFailed> again = join_again(backend);
    if (!again) return tell(first, std::nullopt);
    if (again->cut_short) throw_cut_off(first, trials);
    culprit.because = with_rank(again->rank, again->what);
    if (again->rank) culprit.ranks.push_back(*again->rank);
  }
  // Another search would give no new information.
  given_up_ = fmt::format("the ranks do not join: {}", see_findings);
  tell(first, culprit);
  throw PhaseFailed{Phase::open, rank_at_fault(culprit, first, hosts_), describe(culprit, hosts_)};
}

// Joins the whole job again; returns the failure if there is one.
std::optional<PhaseFailed> Rendezvous::join_again(Backend& backend) {
  start_anew(backend);
  try {
    p5::join_ranks(control_, backend);
    return std::nullopt;
  } catch (const PhaseFailed& failed) {
    return failed;
  }
}

// True if the last round was the whole job and it joined.
bool Rendezvous::try_rounds(Backend& backend, std::vector<JoinAttempt>& trials) {
  const auto rounds = pairs_to_try(static_cast<int>(hosts_.names.size()));
  std::vector<std::vector<int>> each;
  for (std::size_t host = 0; host < hosts_.names.size(); ++host) each.push_back({static_cast<int>(host)});
  bool good = try_round(backend, each, static_cast<int>(rounds.size()) + 1, trials);
  if (!good || rounds.empty()) return good;
  for (std::size_t i = 0; i < rounds.size() && !cut_off_; ++i) {
    std::vector<std::vector<int>> pairs;
    for (const auto& [a, b] : rounds[i]) pairs.push_back({a, b});
    good = try_round(backend, pairs, static_cast<int>(rounds.size() - i), trials);
  }
  return good && hosts_.names.size() == 2;
}

// True if all host groups of the round joined.
bool Rendezvous::try_round(Backend& backend, const std::vector<std::vector<int>>& hosts, int rounds_left,
                           std::vector<JoinAttempt>& trials) {
  start_anew(backend);
  const double left = fault_search_limit.count - since(began_).count;
  const double limit = shared_by_leader(control_, std::max(least_limit.count, left / rounds_left));
  const double start = std::max(limit, starts_of_limit * longest_start_.count);
  RendezvousGroups rendezvous_groups{.groups = {}, .limit = Seconds{limit}, .start = Seconds{start}};
  for (const std::vector<int>& group : hosts) {
    rendezvous_groups.groups.emplace_back();
    for (std::size_t rank = 0; rank < hosts_.host_of_rank.size(); ++rank)
      if (std::ranges::find(group, hosts_.host_of_rank[rank]) != group.end())
        rendezvous_groups.groups.back().push_back(static_cast<int>(rank));
  }
  const auto failures = join_groups(control_, backend, rendezvous_groups);
  bool all = true;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    JoinAttempt& trial = trials.emplace_back(JoinAttempt{.hosts = hosts[i], .failure = "", .rank = {}});
    if (failures[i]) {
      trial.rank = failures[i]->rank;
      trial.failure = with_rank(trial.rank, failures[i]->what);
    }
    all = all && !failures[i];
    cut_off_ = cut_off_ || (failures[i] && failures[i]->cut_short);
  }
  return all;
}

// Trials of which one was cut short do not tell who is at fault. The failure of the whole job had its time, and hosts
// that joined by themselves did so: others that did not, in the same time, are told, unless a rank elsewhere failed.
// GPUs are not, as that would condemn them.
void Rendezvous::throw_cut_off(const PhaseFailed& first, const std::vector<JoinAttempt>& trials) {
  const std::string_view host = hosts_.one_host.empty() ? "host" : "GPU";
  JoinFault tried = locate_fault(static_cast<int>(hosts_.names.size()), trials);
  if (!tried.alone) tried = {};
  const bool some_join = tried.kind == JoinFault::Kind::hosts;
  const std::string found =
      some_join     ? fmt::format("{} did not join without the others in the time that was left, while other {}s did",
                                  join(names_of(tried.hosts, hosts_.names)), host)
      : tried.alone ? fmt::format("no time was left to try {}s by themselves", host)
                    : fmt::format("each {} joins by itself, and no time was left to try them together", host);
  const auto is_open = [&](int rank) {
    return std::ranges::find(tried.hosts, hosts_.host_of_rank.at(static_cast<std::size_t>(rank))) != tried.hosts.end();
  };
  if (some_join && hosts_.one_host.empty() && (!first.rank || is_open(*first.rank))) tell(first, tried);
  throw PhaseFailed{Phase::open, first.rank, fmt::format("{}; {}: a longer --limit leaves more", first.what, found)};
}

// Abandons all workers. A barrier ensures that all old processes are gone before a new one starts.
void Rendezvous::start_anew(Backend& backend) {
  backend.abandon();
  control_.barrier();
}

void Rendezvous::tell(const PhaseFailed& first, const std::optional<JoinFault>& culprit) {
  if (!control_.is_leader()) return;
  observer_.joining_failed({.culprit = culprit,
                            .hosts = hosts_.names,
                            .one_host = hosts_.one_host,
                            .said = culprit ? describe(*culprit, hosts_) : with_rank(first.rank, first.what)});
}

}  // namespace p5
