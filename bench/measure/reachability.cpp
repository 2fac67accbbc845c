#include "bench/measure/reachability.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

#include "bench/base/error.hpp"
#include "bench/model/agreement.hpp"
#include "bench/model/expected.hpp"
#include "bench/model/groups.hpp"

namespace p5 {

namespace {

constexpr int most_rounds = 4;
constexpr int enough_partners = 2;
constexpr std::size_t enough_silent_rounds = 3;
// Timeout for starting a worker and opening its NIC, which is no deadline for the fabric.
constexpr Seconds to_start{30};

constexpr Bytes small{8};

// Results of the trials so far, by host and by pair.
class ProbeResults {
 public:
  explicit ProbeResults(const std::vector<JoinAttempt>& trials) {
    for (const JoinAttempt& trial : trials) {
      const int a = trial.hosts.at(0), b = trial.hosts.at(1);
      met_[a].insert(b), met_[b].insert(a);
      ++meetings_by_pair_[{a, b}];
      if (trial.failure.empty()) heard_.insert({a, b}), silent_.erase({a, b});
      if (!trial.failure.empty()) silent_.insert({a, b});
    }
  }

  bool heard(int host) const { return heard_.contains(host); }
  bool met(int a, int b) const { return met_.contains(a) && met_.at(a).contains(b); }
  std::size_t partners(int host) const { return met_.contains(host) ? met_.at(host).size() : 0; }
  // True if further partners for a silent host would add nothing.
  bool settled(int host) const {
    if (heard_.empty())
      return std::ranges::any_of(met_, [](const auto& each) { return each.second.size() >= enough_silent_rounds; });
    return partners(host) > 0 &&
           std::ranges::count_if(met_.at(host), [&](int each) { return heard(each); }) >= enough_partners;
  }
  // Pairs without a message that were tried only once.
  std::vector<std::pair<int, int>> silent_once() const {
    std::vector<std::pair<int, int>> pairs;
    std::ranges::copy_if(silent_, std::back_inserter(pairs),
                         [&](const auto& pair) { return meetings_by_pair_.at(pair) == 1; });
    return pairs;
  }

 private:
  std::set<int> heard_;
  std::set<std::pair<int, int>> silent_;
  std::map<int, std::set<int>> met_;
  std::map<std::pair<int, int>, int> meetings_by_pair_;
};

Case message_between(const Group& pair) {
  Case c;
  c.collective = &find_collective("send_recv");
  c.ranks = c.nodes = static_cast<int>(pair.size());
  c.shape = c.collective->shape(small, false, size_of(c.type), c.ranks);
  c.bytes = c.shape.bytes;
  c.bytes_per_rank = c.shape.bytes_per_rank;
  c.rounds = std::make_shared<const std::vector<Round>>(std::vector<Round>{{pair}});
  return c;
}

// Results of one side, as of Session::probe_nics().
using NicResults = std::vector<std::string>;

// This rank's side of a trial. Rethrows errors of its own side.
NicResults exchange(Session& session, Seconds limit) {
  try {
    return session.probe_nics(limit);
  } catch (const LostError&) {
    throw;
  } catch (const StalledError& problem) {
    if (problem.cut_short) throw;
    return {std::string(nothing_heard)};
  } catch (const CaseError& problem) {
    return {problem.what()};
  }
}

bool passed(const std::string& failure) { return failure.empty(); }

// True if nothing was tried through the NIC, because a side lacks it.
bool untried(const std::string& failure) { return failure == nic_absent || failure == nic_unmatched; }

// The more informative of two failures.
std::string told_by(const std::string& a, const std::string& b) { return a.empty() || a == nothing_heard ? b : a; }

// The same by NIC. A side that reported fewer NICs failed as a whole.
NicResults told_by(const NicResults& a, const NicResults& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? a : b;
  NicResults both;
  for (std::size_t nic = 0; nic < a.size(); ++nic) both.push_back(told_by(a[nic], b[nic]));
  return both;
}

void add_trial(int a, int b, const NicResults& nics, Reachability& found) {
  if (!nics.empty() && std::ranges::all_of(nics, untried)) {
    found.nothing_common.insert({a, b});
    return;
  }
  if (std::ranges::none_of(nics, passed)) {
    std::string because(nothing_heard);
    for (const std::string& failure : nics)
      if (!untried(failure)) because = told_by(because, failure);
    found.trials.push_back({{a, b}, because});
    return;
  }
  found.trials.push_back({{a, b}, ""});
  if (found.trials_of_nics.size() < nics.size()) found.trials_of_nics.resize(nics.size());
  for (std::size_t nic = 0; nic < nics.size(); ++nic) {
    if (untried(nics[nic])) continue;
    found.trials_of_nics[nic].push_back({{a, b}, nics[nic]});
    for (const int host : {a, b}) found.unmatched[nic].erase(host);
  }
}

bool tried(const std::vector<JoinAttempt>& trials, int host) {
  return std::ranges::any_of(
      trials, [&](const JoinAttempt& each) { return std::ranges::find(each.hosts, host) != each.hosts.end(); });
}

// Notes the NICs of the host through which nothing was tried because the partner lacks the NIC of that number.
void note_unmatched(int host, const NicResults& nics, Reachability& found) {
  for (std::size_t nic = 0; nic < nics.size(); ++nic) {
    if (nics[nic] != nic_unmatched) continue;
    const bool was_tried = nic < found.trials_of_nics.size() && tried(found.trials_of_nics[nic], host);
    if (!was_tried) found.unmatched[nic].insert(host);
  }
}

// Pairs for the next round: of hosts as next_probe_pairs(), then of hosts with a silent NIC or one that was not tried.
// Hosts without a NIC in common have met, and do not meet again.
std::vector<std::pair<int, int>> next_pairs(const std::vector<int>& hosts, const Reachability& found) {
  std::vector<JoinAttempt> meetings = found.trials;
  for (const auto& [a, b] : found.nothing_common) meetings.push_back({{a, b}, std::string(nic_unmatched)});
  std::vector<std::pair<int, int>> round = next_probe_pairs(hosts, meetings);
  std::set<int> busy;
  for (const auto& [a, b] : round) busy.insert({a, b});
  for (std::size_t nic = 0; nic < found.trials_of_nics.size(); ++nic) {
    const std::vector<JoinAttempt>& trials = found.trials_of_nics[nic];
    const auto unmatched = found.unmatched.find(nic);
    const bool waits = unmatched != found.unmatched.end() && !unmatched->second.empty();
    if (!waits && std::ranges::all_of(trials, passed, &JoinAttempt::failure)) continue;
    std::vector<int> free;
    for (const int host : hosts) {
      const bool has_it = tried(trials, host) || (waits && unmatched->second.contains(host));
      if (has_it && !busy.contains(host)) free.push_back(host);
    }
    for (const auto& [a, b] : next_probe_pairs(free, trials)) {
      busy.insert({a, b});
      round.emplace_back(a, b);
    }
  }
  std::erase_if(round, [&](const auto& each) { return found.nothing_common.contains(each); });
  return round;
}

// Notes the hosts that were tried with no other, since their partners had no NIC in common with them.
void note_nothing_common(Reachability& found) {
  for (const auto& [a, b] : found.nothing_common)
    for (const int host : {a, b})
      if (!tried(found.trials, host))
        found.not_tried.try_emplace(host, "hosts that were paired with it have no NIC of the same place");
}

class ReachabilityProbe {
 public:
  ReachabilityProbe(ControlPlane& control, Backend& backend, const std::vector<int>& rank_of_host, Seconds limit)
      : control_(control), backend_(backend), rank_of_host_(rank_of_host), limit_(limit) {}

  // Tries disjoint pairs of hosts, known at the leader.
  void run(const std::vector<std::pair<int, int>>& pairs, Reachability& found) {
    RendezvousGroups rendezvous_groups{.groups = ranks_of(pairs), .limit = to_start, .start = {}};
    const auto unready = join_groups(control_, backend_, rendezvous_groups);
    RendezvousGroups ready{.groups = {}};
    std::vector<std::pair<int, int>> met;
    for (std::size_t i = 0; i < rendezvous_groups.groups.size(); ++i) {
      if (!unready[i]) ready.groups.push_back(rendezvous_groups.groups[i]);
      if (!control_.is_leader()) continue;
      if (unready[i])
        keep_out(pairs[i], *unready[i], found);
      else
        met.push_back(pairs[i]);
    }
    const auto told = exchange_in(ready.groups);
    for (std::size_t i = 0; i < met.size(); ++i) {
      const auto& [a, b] = met[i];
      if (told.failures[i])
        keep_out(met[i], *told.failures[i], found);
      else
        add_trial(a, b, told_by(part_of(a, told), part_of(b, told)), found);
      for (const int host : {a, b}) note_unmatched(host, part_of(host, told), found);
    }
  }

 private:
  int rank_of(int host) const { return rank_of_host_.at(static_cast<std::size_t>(host)); }
  const NicResults& part_of(int host, const GroupParts<NicResults>& told) const {
    return told.parts.at(static_cast<std::size_t>(rank_of(host)));
  }

  // The leader's choice of pairs, as ranks.
  Round ranks_of(const std::vector<std::pair<int, int>>& pairs) const {
    Round groups;
    for (const auto& [a, b] : pairs) groups.push_back({rank_of(a), rank_of(b)});
    return shared_by_leader(control_, groups);
  }

  GroupParts<NicResults> exchange_in(const Round& groups) {
    std::unique_ptr<Session> session;
    bool silent = false;
    auto told = gather_by_group(control_, Phase::warm_up, groups, [&]() -> NicResults {
      const std::optional<RankInGroup> place = rank_in_group(groups, control_.hosted().front(), 0);
      if (!place) return {};
      session = backend_.open(message_between(place->group), 0);
      NicResults heard = exchange(*session, limit_);
      silent = !std::ranges::all_of(heard, [](const std::string& each) { return passed(each) || untried(each); });
      return heard;
    });
    // Its worker may be blocked, so it is abandoned; closing the session could hang.
    if (silent) backend_.abandon();
    return told;
  }

  // Excludes the host whose side failed; both hosts if the failure names neither.
  void keep_out(const std::pair<int, int>& pair, const PhaseFailed& failed, Reachability& found) const {
    for (const int host : {pair.first, pair.second})
      if (!failed.rank || rank_of(host) == *failed.rank) found.not_tried[host] = failed.what;
  }

  ControlPlane& control_;
  Backend& backend_;
  const std::vector<int>& rank_of_host_;
  Seconds limit_;
};

}  // namespace

std::vector<std::pair<int, int>> next_probe_pairs(const std::vector<int>& hosts,
                                                  const std::vector<JoinAttempt>& so_far) {
  std::vector<std::pair<int, int>> round;
  if (so_far.empty()) {
    if (hosts.size() < 2) return {};
    const auto rounds = round_robin(static_cast<int>(hosts.size()));
    for (const auto& [a, b] : rounds.front())
      round.emplace_back(hosts[static_cast<std::size_t>(a)], hosts[static_cast<std::size_t>(b)]);
    return round;
  }
  const ProbeResults standing(so_far);
  std::set<int> busy;
  const auto meet = [&](int a, int b) {
    busy.insert({a, b});
    round.emplace_back(std::min(a, b), std::max(a, b));
  };
  std::vector<int> unreachable, heard;
  for (const int host : hosts)
    if (standing.heard(host))
      heard.push_back(host);
    else if (!standing.settled(host))
      unreachable.push_back(host);
  std::ranges::stable_sort(unreachable, std::greater(), [&](int host) { return standing.partners(host); });
  for (const std::vector<int>* const partners : {&std::as_const(heard), &std::as_const(unreachable)})
    for (const int host : unreachable) {
      if (busy.contains(host)) continue;
      const auto fits = [&](int partner) {
        return partner != host && !busy.contains(partner) && !standing.met(host, partner);
      };
      if (const auto partner = std::ranges::find_if(*partners, fits); partner != partners->end()) meet(host, *partner);
    }
  for (const auto& [a, b] : standing.silent_once()) {
    const bool ones_fault = hosts.size() > 2 && !(standing.heard(a) && standing.heard(b));
    const bool here = std::ranges::find(hosts, a) != hosts.end() && std::ranges::find(hosts, b) != hosts.end();
    if (here && !ones_fault && !busy.contains(a) && !busy.contains(b)) meet(a, b);
  }
  return round;
}

Reachability check_reachability(ControlPlane& control, Backend& backend, const std::vector<int>& rank_of_host,
                                Seconds limit) {
  Reachability found;
  ReachabilityProbe meetings(control, backend, rank_of_host, limit);
  std::vector<int> hosts(rank_of_host.size());
  std::iota(hosts.begin(), hosts.end(), 0);
  for (int round = 0; round < most_rounds; ++round) {
    std::erase_if(hosts, [&](int host) { return found.not_tried.contains(host); });
    std::vector<std::pair<int, int>> pairs;
    if (control.is_leader()) pairs = next_pairs(hosts, found);
    if (shared_by_leader(control, pairs.empty())) break;
    if (round > 0) {
      backend.abandon();
      control.barrier();  // the processes of all ranks are gone before the first new one starts
    }
    meetings.run(pairs, found);
  }
  note_nothing_common(found);
  return found;
}

}  // namespace p5
