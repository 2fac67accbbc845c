// Rounds of reachability tests until the silent hosts are known, their cost, and their findings; with ranks as threads
// too.
#include "bench/measure/reachability.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <numeric>
#include <set>

#include "bench/app/machine/fabric.hpp"
#include "bench/base/error.hpp"
#include "bench/control/control_planes.hpp"
#include "reports/reachability.hpp"

namespace p5 {
namespace {

using Culprit = JoinFault::Kind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Cut = std::function<bool(int a, int b)>;

std::vector<int> up_to(int count) {
  std::vector<int> hosts(static_cast<std::size_t>(count));
  std::iota(hosts.begin(), hosts.end(), 0);
  return hosts;
}

// Each of these hosts receives nothing.
Cut deaf(std::set<int> hosts) {
  return [hosts](int a, int b) { return hosts.contains(a) || hosts.contains(b); };
}

struct Played {
  std::vector<JoinAttempt> trials;
  int rounds = 0, silent_rounds = 0;  // silent rounds take the deadline
  JoinFault culprit;
};

// Runs rounds until none is left.
Played play(int hosts, const Cut& cut) {
  Played played;
  for (;;) {
    const auto round = next_probe_pairs(up_to(hosts), played.trials);
    if (round.empty() || played.rounds == 9) break;
    std::set<int> busy;
    bool silent = false;
    for (const auto& [a, b] : round) {
      EXPECT_LT(a, b);
      EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second) << "rounds are of disjoint pairs";
      played.trials.push_back({{a, b}, cut(a, b) ? "nothing" : ""});
      silent = silent || cut(a, b);
    }
    ++played.rounds;
    played.silent_rounds += silent ? 1 : 0;
  }
  played.culprit = locate_fault(hosts, played.trials);
  return played;
}

TEST(NextMeetings, of_hosts_that_all_hear_each_other_are_one_for_each) {
  EXPECT_THAT(next_probe_pairs({}, {}), IsEmpty());
  EXPECT_THAT(next_probe_pairs({0}, {}), IsEmpty());
  for (int hosts = 2; hosts <= 9; ++hosts) {
    const Played played = play(hosts, deaf({}));
    EXPECT_EQ(played.rounds, hosts % 2 == 0 ? 1 : 2) << hosts;
    std::set<int> met;
    for (const JoinAttempt& each : played.trials) met.insert(each.hosts.begin(), each.hosts.end());
    EXPECT_EQ(met.size(), static_cast<std::size_t>(hosts));
    EXPECT_EQ(played.culprit.kind, Culprit::together);
  }
}

TEST(NextMeetings, name_one_host_of_any_number_in_two_deadlines) {
  for (int hosts = 3; hosts <= 12; ++hosts)
    for (int bad = 0; bad < hosts; ++bad) {
      const Played played = play(hosts, deaf({bad}));
      EXPECT_EQ(played.culprit.kind, Culprit::hosts) << bad << " of " << hosts;
      EXPECT_THAT(played.culprit.hosts, ElementsAre(bad)) << "of " << hosts;
      EXPECT_EQ(played.silent_rounds, 2) << bad << " of " << hosts;
      EXPECT_LE(played.rounds, 3);
    }
}

TEST(NextMeetings, name_any_two_hosts) {
  for (int hosts = 4; hosts <= 9; ++hosts)
    for (int first = 0; first < hosts; ++first)
      for (int second = first + 1; second < hosts; ++second) {
        const Played played = play(hosts, deaf({first, second}));
        EXPECT_THAT(played.culprit.hosts, ElementsAre(first, second)) << "of " << hosts;
        EXPECT_LE(played.rounds, 4);
      }
}

TEST(NextMeetings, end_soon_where_nobody_hears_anybody) {
  for (int hosts = 3; hosts <= 12; ++hosts) {
    const Played played = play(hosts, [](int, int) { return true; });
    EXPECT_EQ(played.culprit.kind, Culprit::between) << hosts;
    EXPECT_LE(played.rounds, 3) << hosts;
  }
}

TEST(NextMeetings, of_two_hosts_are_two_of_the_same) {
  const Played played = play(2, deaf({0}));
  EXPECT_EQ(played.rounds, 2);
  EXPECT_EQ(played.culprit.kind, Culprit::pairs);
  EXPECT_THAT(played.culprit.pairs, ElementsAre(std::pair(0, 1)));
}

TEST(NextMeetings, try_a_pair_twice_that_others_hear_and_blame_no_host_for_it) {
  const auto first = next_probe_pairs(up_to(6), {}).front();
  const Played played = play(6, [&](int a, int b) { return std::pair(a, b) == first; });
  EXPECT_EQ(played.culprit.kind, Culprit::pairs);
  EXPECT_THAT(played.culprit.pairs, ElementsAre(first));
  EXPECT_EQ(std::ranges::count(played.trials, std::vector{first.first, first.second}, &JoinAttempt::hosts), 2);
}

TEST(NextMeetings, of_two_halves_that_do_not_hear_each_other_name_pairs_across) {
  const Played played = play(4, [](int a, int b) { return (a < 2) != (b < 2); });
  EXPECT_EQ(played.culprit.kind, Culprit::pairs);
  for (const auto& [a, b] : played.culprit.pairs) EXPECT_TRUE(a < 2 && b >= 2);
  EXPECT_FALSE(played.culprit.pairs.empty());
}

// ---- ranks as threads, two a host

struct Faults {
  Cut cut = [](int, int) { return false; };
  std::set<int> not_starting = {}, crashing = {}, cut_short = {};  // hosts
  std::function<bool(int nic, int a, int b)> cut_nics = [](int, int, int) { return false; };
  std::function<bool(int nic, int host)> absent_nics = [](int, int) { return false; };
};

// Outcomes are predetermined; no test waits in real time.
class Meeting final : public Backend {
 public:
  Meeting(const Faults& faults, int rank) : faults_(faults), rank_(rank) {}

  struct Talk final : Session {
    explicit Talk(std::function<std::vector<std::string>()> act) : speak(std::move(act)) {}
    int slots() const override { return 1; }
    void warm_up(int, const std::string&) override {}
    std::vector<std::string> probe_nics(Seconds) override { return speak(); }
    Times sample(const SampleRequest&) override { return {}; }
    Verification verify() override { return {}; }
    std::function<std::vector<std::string>()> speak;
  };

  std::unique_ptr<Session> open(const Case& c, int round) override {
    const Group& pair = c.rounds->at(static_cast<std::size_t>(round)).front();
    const int a = pair.at(0) / 2, b = pair.at(1) / 2;
    ++opened;
    return std::make_unique<Talk>([this, a, b] {
      if (faults_.crashing.contains(rank_ / 2)) throw LostError("it crashed");
      if (faults_.cut_short.contains(rank_ / 2)) {
        StalledError late("no answer for 8 ms");
        late.cut_short = true;
        throw late;
      }
      if (faults_.cut(a, b)) throw StalledError("for 5 s no answer");
      std::vector<std::string> nics;
      const int here = rank_ / 2, there = a + b - here;
      for (int nic = 0; nic < 4; ++nic)
        nics.emplace_back(faults_.absent_nics(nic, here)    ? nic_absent
                          : faults_.absent_nics(nic, there) ? nic_unmatched
                          : faults_.cut_nics(nic, a, b)     ? nothing_heard
                                                            : "");
      return nics;
    });
  }
  Bytes memory_per_rank(const Case&) const override { return {1}; }
  CostModel cost() const override { return {}; }
  bool recovers() const override { return true; }
  bool joined() const override { return joined_; }
  std::string advertise(const RendezvousGroups& rendezvous_groups) override {
    EXPECT_FALSE(joined_) << "workers are new in each round";
    const bool mine = std::ranges::any_of(
        rendezvous_groups.groups, [&](const Group& group) { return std::ranges::find(group, rank_) != group.end(); });
    if (mine && faults_.not_starting.contains(rank_ / 2)) throw CaseError("no NIC");
    return "here";
  }
  void join(const RendezvousGroups& rendezvous_groups, const std::string&) override {
    for (const Group& group : rendezvous_groups.groups)
      if (std::ranges::find(group, rank_) != group.end()) joined_ = true;
  }
  void abandon() override { joined_ = false; }

  int opened = 0;

 private:
  const Faults& faults_;
  int rank_;
  bool joined_ = false;
};

Reachability reach(int hosts, const Faults& faults) {
  Reachability found;
  std::vector<int> first;
  for (int host = 0; host < hosts; ++host) first.push_back(2 * host);
  run_threads(2 * hosts, [&](ControlPlane& control) {
    Meeting backend(faults, control.participant());
    const Reachability told = check_reachability(control, backend, first, {5});
    if (control.is_leader()) found = told;
    EXPECT_TRUE(control.participant() % 2 == 0 || backend.opened == 0) << "one rank a host";
  });
  return found;
}

TEST(ReachHosts, tries_each_host_and_stops) {
  const Reachability found = reach(4, {});
  EXPECT_EQ(found.trials.size(), 2u);
  for (const JoinAttempt& each : found.trials) EXPECT_EQ(each.failure, "");
  EXPECT_THAT(found.not_tried, IsEmpty());
}

TEST(ReachHosts, finds_the_host_that_is_not_heard) {
  const Reachability found = reach(4, {.cut = deaf({2})});
  EXPECT_THAT(locate_fault(4, found.trials).hosts, ElementsAre(2));
  EXPECT_THAT(found.not_tried, IsEmpty());
}

TEST(ReachHosts, goes_on_without_a_host_that_cannot_try) {
  const Reachability found = reach(5, {.not_starting = {1}});
  ASSERT_EQ(found.not_tried.size(), 1u);
  EXPECT_THAT(found.not_tried.at(1), HasSubstr("no NIC"));
  std::set<int> heard;
  for (const JoinAttempt& each : found.trials) {
    EXPECT_EQ(each.failure, "");
    heard.insert(each.hosts.begin(), each.hosts.end());
  }
  EXPECT_THAT(heard, ElementsAre(0, 2, 3, 4));
}

TEST(ReachHosts, takes_a_worker_that_dies_for_no_silence) {
  const Reachability found = reach(4, {.crashing = {3}});
  ASSERT_EQ(found.not_tried.size(), 1u);
  EXPECT_THAT(found.not_tried.at(3), HasSubstr("it crashed"));
  EXPECT_EQ(locate_fault(4, found.trials).kind, Culprit::together);
}

TEST(ReachHosts, takes_a_wait_that_the_time_limit_of_the_command_cut_short_for_no_silence) {
  const Reachability found = reach(4, {.cut_short = {3}});
  ASSERT_TRUE(found.not_tried.contains(3));
  EXPECT_THAT(found.not_tried.at(3), HasSubstr("no answer for 8 ms"));
  for (const JoinAttempt& each : found.trials) EXPECT_EQ(each.failure, "");
}

// Two NICs of two hosts, in each place: each is named at its host, and no host is.
TEST(ReachHosts, finds_the_nics_that_are_not_heard) {
  for (const int hosts : {3, 4, 5, 8})
    for (int bad = 0; bad < hosts; ++bad) {
      const int other = (bad + 1) % hosts;
      const Reachability found =
          reach(hosts, {.cut_nics = [&](int nic, int a, int b) {
                  return (nic == 1 && (a == bad || b == bad)) || (nic == 3 && (a == other || b == other));
                }});
      EXPECT_EQ(locate_fault(hosts, found.trials).kind, Culprit::together);
      ASSERT_EQ(found.trials_of_nics.size(), 4u);
      for (const int nic : {0, 2})
        for (const JoinAttempt& each : found.trials_of_nics[static_cast<std::size_t>(nic)]) EXPECT_EQ(each.failure, "");
      EXPECT_THAT(locate_fault(hosts, found.trials_of_nics[1]).hosts, ElementsAre(bad)) << hosts;
      EXPECT_THAT(locate_fault(hosts, found.trials_of_nics[3]).hosts, ElementsAre(other)) << hosts;
    }
}

// One host lacks a NIC; another one's NIC of the same or another number is silent, and only that is named.
TEST(ReachHosts, blames_no_nic_for_one_that_a_host_lacks) {
  for (const int hosts : {3, 4, 5})
    for (int lacks = 0; lacks < hosts; ++lacks)
      for (int bad = 0; bad < hosts; ++bad)
        for (const int silent : {1, 2}) {
          const auto absent = [&](int nic, int host) { return nic == 1 && host == lacks; };
          const bool is_there = !absent(silent, bad);
          const Reachability found =
              reach(hosts, {.cut_nics = [&](int nic, int a, int b) { return nic == silent && (a == bad || b == bad); },
                            .absent_nics = absent});
          EXPECT_EQ(locate_fault(hosts, found.trials).kind, Culprit::together);
          const auto silent_nic = static_cast<std::size_t>(silent);
          std::set<int> tried;
          for (std::size_t nic = 0; nic < 4; ++nic)
            for (const JoinAttempt& each : found.trials_of_nics.at(nic)) {
              if (nic != silent_nic) {
                EXPECT_EQ(each.failure, "");
              }
              if (nic == 1) tried.insert(each.hosts.begin(), each.hosts.end());
            }
          EXPECT_EQ(tried.size(), static_cast<std::size_t>(hosts) - 1) << "each host that has it, and no other";
          EXPECT_FALSE(tried.contains(lacks));
          const JoinFault fault = locate_fault(hosts, found.trials_of_nics.at(silent_nic));
          if (!is_there)
            EXPECT_EQ(fault.kind, Culprit::together);
          else if (hosts - (silent == 1 && lacks != bad ? 1 : 0) > 2)
            EXPECT_THAT(fault.hosts, ElementsAre(bad)) << hosts << " " << lacks << " " << silent;
          else  // of two that have it nobody can tell which
            EXPECT_EQ(fault.pairs.size(), 1u);
        }
}

TEST(ReachHosts, ends_where_nobody_can_try) {
  const Reachability found = reach(3, {.not_starting = {0, 1, 2}});
  EXPECT_THAT(found.trials, IsEmpty());
  EXPECT_GE(found.not_tried.size(), 2u);
}

// ---- hosts without a NIC in common

// Host 0 has NICs 0 and 1, host 1 has 2 and 3, and all others have all.
bool is_of_other_half(int nic, int host) { return host < 2 && (nic < 2) != (host == 0); }

TEST(ReachHosts, that_have_no_nic_in_common_are_not_silent) {
  const Reachability two = reach(2, {.absent_nics = is_of_other_half});
  EXPECT_THAT(two.trials, IsEmpty());
  EXPECT_EQ(two.not_tried.size(), 2u);
  for (const int hosts : {3, 4, 5}) {
    const Reachability found = reach(hosts, {.absent_nics = is_of_other_half});
    EXPECT_EQ(locate_fault(hosts, found.trials).kind, Culprit::together) << hosts;
    std::set<int> tried;
    for (const JoinAttempt& each : found.trials) {
      EXPECT_EQ(each.failure, "");
      tried.insert(each.hosts.begin(), each.hosts.end());
    }
    EXPECT_EQ(tried.size(), static_cast<std::size_t>(hosts));
    EXPECT_THAT(found.not_tried, IsEmpty());
  }
}

TEST(ReachHosts, that_are_silent_are_told_by_a_nic_that_was_tried) {
  const Reachability found = reach(2, {.cut_nics = [](int, int, int) { return true; },
                                       .absent_nics = [](int nic, int host) { return nic == 0 && host == 0; }});
  ASSERT_FALSE(found.trials.empty());
  for (const JoinAttempt& each : found.trials) EXPECT_EQ(each.failure, nothing_heard);
}

// ---- findings

TEST(ReachFindings, condemn_no_hosts_without_a_nic_in_common) {
  std::vector<reports::ReachabilityHost> hosts(2);
  hosts[0].name = "pod-0", hosts[1].name = "pod-1";
  const std::vector<topo::Finding> found =
      reports::reachability_findings(reach(2, {.absent_nics = is_of_other_half}), hosts, {5});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "fabric.untried");
  EXPECT_FALSE(topo::condemns(found[0]));
}

std::vector<reports::ReachabilityHost> so_many(int count) {
  std::vector<reports::ReachabilityHost> made;
  for (int i = 1; i <= count; ++i)
    made.push_back({.name = "n" + std::to_string(i),
                    .instance = "i-" + std::to_string(i),
                    .nics = {"eth0", "eth1"},
                    .address = "10.0.0." + std::to_string(i),
                    .library = "libfabric 1.17, tcp"});
  return made;
}

std::vector<topo::Finding> findings(int count, const Cut& cut) {
  return reports::reachability_findings({.trials = play(count, cut).trials}, so_many(count), {5});
}

TEST(ReachFindings, are_none_where_all_are_heard) { EXPECT_THAT(findings(5, deaf({})), IsEmpty()); }

TEST(ReachFindings, condemn_the_host_with_partners_addresses_and_time) {
  const std::vector<topo::Finding> found = findings(4, deaf({2}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "fabric.unreachable");
  EXPECT_TRUE(topo::condemns(found[0]));
  EXPECT_EQ(found[0].subject.host, "n3");
  EXPECT_EQ(found[0].subject.instance, "i-3");
  EXPECT_THAT(found[0].evidence, AllOf(HasSubstr("n3 (eth0, 10.0.0.3) exchanged no message with "),
                                       HasSubstr("for 5 s each"), HasSubstr("libfabric 1.17, tcp")));
  EXPECT_EQ(std::ranges::count(found[0].evidence, '('), 3) << "itself and two partners: " << found[0].evidence;
  EXPECT_THAT(found[0].action, AllOf(HasSubstr("security group"), HasSubstr("from itself"), HasSubstr("to itself"),
                                     HasSubstr("network ACL"), HasSubstr("replace")));
}

// `cut` with the NIC's number.
std::vector<topo::Finding> findings_of_nics(int hosts, const std::function<bool(int nic, int a, int b)>& cut) {
  return reports::reachability_findings(reach(hosts, {.cut_nics = cut}), so_many(hosts), {5});
}

TEST(ReachFindings, condemn_the_nic_and_not_its_host) {
  const std::vector<topo::Finding> found =
      findings_of_nics(4, [](int nic, int a, int b) { return nic == 1 && (a == 2 || b == 2); });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "fabric.nic");
  EXPECT_TRUE(topo::condemns(found[0]));
  EXPECT_EQ(found[0].subject.host, "n3");
  EXPECT_EQ(found[0].subject.nic, "eth1");
  EXPECT_THAT(found[0].evidence, AllOf(HasSubstr("eth1 of n3 exchanged no message with eth1 of n"),
                                       HasSubstr("for 5 s each"), HasSubstr("other NICs of n3 did")));
}

TEST(ReachFindings, of_the_nics_of_two_hosts_name_neither) {
  const std::vector<topo::Finding> found = findings_of_nics(2, [](int nic, int, int) { return nic == 1; });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "fabric.nics");
  EXPECT_TRUE(topo::condemns(found[0]));
  EXPECT_EQ(found[0].subject.host, "");
  EXPECT_THAT(found[0].hosts, ElementsAre("n1", "n2"));
  EXPECT_FALSE(found[0].subject.nic);
  EXPECT_THAT(found[0].evidence, HasSubstr("eth1 of n1 and eth1 of n2"));
}

TEST(ReachFindings, are_one_where_a_nic_is_silent_on_all_hosts) {
  const std::vector<topo::Finding> found = findings_of_nics(6, [](int nic, int, int) { return nic == 1; });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "fabric.nics");
  EXPECT_THAT(found[0].evidence, AllOf(HasSubstr("eth1 of n1, eth1 of n2"), HasSubstr("with each other")));
}

TEST(ReachFindings, are_one_where_it_is_all_of_them) {
  const std::vector<topo::Finding> found = findings(12, [](int, int) { return true; });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "fabric.silent");
  EXPECT_TRUE(topo::condemns(found[0]));
  EXPECT_EQ(found[0].subject.host, "");
  EXPECT_THAT(found[0].evidence, AllOf(HasSubstr("none of 12 hosts"), HasSubstr("and 4 more"), Not(HasSubstr("n9"))));
}

TEST(ReachFindings, of_two_hosts_blame_both) {
  const std::vector<topo::Finding> found = findings(2, deaf({1}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "fabric.pair");
  EXPECT_TRUE(topo::condemns(found[0]));
  EXPECT_EQ(found[0].subject.host, "") << "the second one is at fault";
  EXPECT_THAT(found[0].hosts, ElementsAre("n1", "n2"));
  EXPECT_THAT(found[0].evidence,
              AllOf(HasSubstr("n1 (eth0, 10.0.0.1) and n2"), HasSubstr("it cannot be determined which")));
}

TEST(ReachFindings, only_warn_of_a_pair_that_was_heard_the_second_time) {
  const std::vector<topo::Finding> found = reports::reachability_findings(
      {.trials = {{{0, 1}, "nothing"}, {{2, 3}, ""}, {{0, 2}, ""}, {{1, 3}, ""}, {{0, 1}, ""}}}, so_many(4), {5});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "fabric.pair");
  EXPECT_FALSE(topo::condemns(found[0]));
  EXPECT_THAT(found[0].evidence, HasSubstr("the second time"));
}

TEST(ReachFindings, tell_the_librarys_own_words) {
  const auto cut = deaf({0});
  Reachability reached{.trials = play(4, cut).trials};
  for (JoinAttempt& each : reached.trials)
    if (!each.failure.empty()) each.failure = "a message failed: No route to host";
  EXPECT_THAT(reports::reachability_findings(reached, so_many(4), {5}).at(0).evidence,
              HasSubstr("(a message failed: No route"));
}

TEST(ReachFindings, condemn_nobody_for_an_address_that_all_hosts_have) {
  std::vector<reports::ReachabilityHost> alike = so_many(3);
  for (reports::ReachabilityHost& each : alike) each.address = "172.17.0.1";
  const Reachability reached{.trials = play(3, [](int, int) { return true; }).trials};
  const std::vector<topo::Finding> found = reports::reachability_findings(reached, alike, {5});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "fabric.address");
  EXPECT_FALSE(topo::condemns(found[0]));
}

TEST(ReachFindings, condemn_nobody_who_could_not_try) {
  const std::vector<topo::Finding> found =
      reports::reachability_findings({.trials = {{{0, 1}, ""}}, .not_tried = {{2, "rank 4: no NIC"}}}, so_many(3), {5});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "fabric.untried");
  EXPECT_FALSE(topo::condemns(found[0]));
  EXPECT_THAT(found[0].evidence, AllOf(HasSubstr("n3"), HasSubstr("no NIC")));
}

// ---- selection of ranks

TEST(FirstRanks, are_one_a_machine_whatever_its_hosts_are_called) {
  topo::Topology topology;
  for (const auto& [name, boot] : {std::pair{"a", "1"}, {"a", "1"}, {"a", "2"}, {"b", "2"}}) {
    topo::Host& host = topology.hosts.emplace_back();
    host.host_name = name;
    host.boot_id = boot;
  }
  topology.host_of_rank = {0, 0, 1, 2, 2, 3};
  EXPECT_THAT(first_ranks(topology), ElementsAre(0, 3, 5)) << "the second host is the first under another name";
}

}  // namespace
}  // namespace p5
