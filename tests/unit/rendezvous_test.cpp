// Rendezvous of ranks, and attribution of failures to hosts: with ranks as threads, and the deduction alone.
#include "bench/measure/rendezvous.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <set>

#include "bench/base/error.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/agreement.hpp"
#include "reports/judge.hpp"
#include "reports/reachability.hpp"

namespace p5 {
namespace {

using Culprit = JoinFault::Kind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// All trials of a number of hosts; those selected by `at_fault` fail.
std::vector<JoinAttempt> trials_of(int hosts, const std::function<bool(const std::vector<int>&)>& at_fault) {
  std::vector<JoinAttempt> trials;
  const auto add = [&](const std::vector<int>& group) {
    trials.push_back({group, at_fault(group) ? "it at_fault" : ""});
  };
  for (int host = 0; host < hosts; ++host) add({host});
  if (std::ranges::any_of(trials, [](const JoinAttempt& each) { return !each.failure.empty(); })) return trials;
  for (const auto& round : pairs_to_try(hosts))
    for (const auto& [a, b] : round) add({a, b});
  return trials;
}

auto with(std::set<int> bad, std::size_t least) {
  return [bad, least](const std::vector<int>& group) {
    return group.size() >= least && std::ranges::any_of(group, [&](int host) { return bad.contains(host); });
  };
}

TEST(PairsToTry, are_disjoint_and_give_each_host_two_partners) {
  EXPECT_THAT(pairs_to_try(1), IsEmpty());
  EXPECT_THAT(pairs_to_try(2), ElementsAre(ElementsAre(std::pair(0, 1))));
  for (int hosts = 3; hosts <= 9; ++hosts) {
    const auto rounds = pairs_to_try(hosts);
    EXPECT_EQ(rounds.size(), hosts % 2 == 0 ? 2u : 3u);
    std::vector<std::set<int>> partners(static_cast<std::size_t>(hosts));
    for (const auto& round : rounds) {
      std::set<int> busy;
      for (const auto& [a, b] : round) {
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second) << hosts;
        partners[static_cast<std::size_t>(a)].insert(b);
        partners[static_cast<std::size_t>(b)].insert(a);
      }
    }
    for (const auto& each : partners) EXPECT_EQ(each.size(), 2u) << hosts;
  }
}

TEST(FindCulprit, names_hosts_that_fail_by_themselves) {
  const JoinFault one = locate_fault(4, trials_of(4, with({2}, 1)));
  EXPECT_EQ(one.kind, Culprit::hosts);
  EXPECT_TRUE(one.alone);
  EXPECT_THAT(one.hosts, ElementsAre(2));
  EXPECT_EQ(one.because, "it at_fault");
  EXPECT_THAT(one.failures, ElementsAre("it at_fault"));
  EXPECT_THAT(locate_fault(4, trials_of(4, with({0, 3}, 1))).hosts, ElementsAre(0, 3));
}

TEST(FindCulprit, tells_when_it_is_all_of_them) {
  EXPECT_EQ(locate_fault(1, trials_of(1, with({0}, 1))).kind, Culprit::nowhere);
  EXPECT_EQ(locate_fault(3, trials_of(3, with({0, 1, 2}, 1))).kind, Culprit::nowhere);
}

TEST(FindCulprit, names_the_host_that_fails_with_each_partner) {
  for (int hosts = 3; hosts <= 7; ++hosts)
    for (int bad = 0; bad < hosts; ++bad) {
      const JoinFault found = locate_fault(hosts, trials_of(hosts, with({bad}, 2)));
      EXPECT_EQ(found.kind, Culprit::hosts);
      EXPECT_FALSE(found.alone);
      EXPECT_THAT(found.hosts, ElementsAre(bad)) << hosts;
    }
}

TEST(FindCulprit, does_not_blame_a_host_whose_partners_are_all_to_blame) {
  const JoinFault found = locate_fault(6, trials_of(6, with({1, 3}, 2)));
  EXPECT_EQ(found.kind, Culprit::hosts);
  EXPECT_THAT(found.hosts, ElementsAre(1, 3)) << "2 met only these";
}

TEST(FindCulprit, goes_by_the_last_time_that_hosts_tried) {
  const JoinFault found =
      locate_fault(4, {{{0, 1}, "no"}, {{2, 3}, "no"}, {{0, 2}, ""}, {{1, 3}, ""}, {{0, 1}, ""}, {{2, 3}, "no"}});
  EXPECT_EQ(found.kind, Culprit::pairs);
  EXPECT_THAT(found.pairs, ElementsAre(std::pair(2, 3)));
}

TEST(FindCulprit, names_a_pair_that_fails_once) {
  const auto link = [](const std::vector<int>& group) { return group == std::vector{1, 2}; };
  const JoinFault found = locate_fault(4, trials_of(4, link));
  EXPECT_EQ(found.kind, Culprit::pairs);
  EXPECT_THAT(found.pairs, ElementsAre(std::pair(1, 2)));
  EXPECT_EQ(locate_fault(2, trials_of(2, with({0}, 2))).kind, Culprit::pairs) << "of two nobody can tell which";
}

TEST(FindCulprit, tells_when_no_two_hosts_join) {
  EXPECT_EQ(locate_fault(4, trials_of(4, with({0, 1, 2, 3}, 2))).kind, Culprit::between);
  EXPECT_EQ(locate_fault(3, trials_of(3, with({0, 1, 2}, 2))).kind, Culprit::between);
}

TEST(FindCulprit, blames_nobody_when_all_join_alone_and_in_pairs) {
  for (int hosts : {1, 2, 3, 4}) EXPECT_EQ(locate_fault(hosts, trials_of(hosts, with({0}, 3))).kind, Culprit::together);
}

// ---- ranks as threads, two a host

// Fails to join if `at_fault` returns true for the hosts of the rank's group and the number of its attempts to join all
// of them.
struct PlannedJoinFault {
  std::function<bool(const std::vector<int>& hosts, int attempts)> at_fault = [](const auto&, int) { return false; };
  int culprit = 0;                  // the host
  std::optional<int> told_by = {};  // the host that fails instead where all join
  std::optional<int> of_rank = {};  // the only rank of the culprit that fails
  bool partner_tells = false;       // the host that tries with the culprit alone fails instead
  bool offers = false;
  bool all_stall = false;  // the whole job, whoever is at fault
  Seconds start{0};        // of each rank's process; one that has to be shorter fails
  // Attempts that the time limit of the whole command cuts short, on all of their ranks.
  std::function<bool(const std::vector<int>& hosts, bool whole_job, int attempts)> cut_short =
      [](const auto&, bool, int) { return false; };
};

class Joiner final : public Backend {
 public:
  Joiner(const PlannedJoinFault& fault, int rank) : fault_(fault), rank_(rank) {}
  std::unique_ptr<Session> open(const Case&, int) override { return nullptr; }
  Bytes memory_per_rank(const Case&) const override { return {1}; }
  CostModel cost() const override { return {}; }
  bool recovers() const override { return true; }
  bool joined() const override { return joined_; }
  std::string advertise(const RendezvousGroups& rendezvous_groups) override {
    constexpr Seconds longest_search{45};
    if (rendezvous_groups.start && rendezvous_groups.start->count < fault_.start.count)
      throw StalledError("no answer to \"identify\"", rank_);
    if (rendezvous_groups.limit && rendezvous_groups.limit->count > longest_search.count)
      throw CaseError("a join that fails would take longer than the search may");
    if (fault_.offers) act(rendezvous_groups);
    return std::to_string(rank_);
  }
  // The expected ranks, in the order of groups.
  std::string negotiate(const RendezvousGroups& rendezvous_groups, const std::vector<std::string>& offers) override {
    std::string terms;
    for (const Group& group : rendezvous_groups.groups)
      for (const int rank : group) terms += offers.at(static_cast<std::size_t>(rank)) + ",";
    return terms;
  }
  void join(const RendezvousGroups& rendezvous_groups, const std::string& terms) override {
    std::string expected;
    for (const Group& group : rendezvous_groups.groups)
      for (const int rank : group) expected += std::to_string(rank) + ",";
    if (terms != expected) throw CaseError("the terms are others'");
    const auto own = std::ranges::find_if(
        rendezvous_groups.groups, [&](const Group& group) { return std::ranges::find(group, rank_) != group.end(); });
    if (own == rendezvous_groups.groups.end()) return;
    if (!fault_.offers) act(rendezvous_groups);
    joined_ = true;
  }
  void abandon() override { joined_ = false; }
  Seconds longest_start() const override { return rank_ == 0 ? fault_.start : Seconds{0}; }

 private:
  void act(const RendezvousGroups& rendezvous_groups) {
    for (const Group& group : rendezvous_groups.groups) {
      if (std::ranges::find(group, rank_) == group.end()) continue;
      std::vector<int> hosts;
      for (const int rank : group)
        if (std::ranges::find(hosts, rank / 2) == hosts.end()) hosts.push_back(rank / 2);
      const bool all = !rendezvous_groups.limit;
      if (all) ++attempts_;
      if (all && fault_.all_stall) throw StalledError("no answer for 5 s to \"join\"");
      if (fault_.cut_short(hosts, all, attempts_)) {
        StalledError late("its worker received no order for 15 ms");
        late.cut_short = true;
        throw late;
      }
      const auto partner = std::ranges::find_if(hosts, [&](int host) { return host != fault_.culprit; });
      const int in_trial = fault_.partner_tells && partner != hosts.end() ? *partner : fault_.culprit;
      if (rank_ / 2 == (all ? fault_.told_by.value_or(fault_.culprit) : in_trial) &&
          (rank_ / 2 != fault_.culprit || rank_ == fault_.of_rank.value_or(rank_)) && fault_.at_fault(hosts, attempts_))
        throw CaseError("told to fail");
    }
  }

  const PlannedJoinFault& fault_;
  int rank_, attempts_ = 0;
  bool joined_ = false;
};

class Hearing final : public Observer {
 public:
  void repetition_started(const Case&, const RunProgress&) override {}
  void repetition_finished(const Measurement&, bool) override {}
  void case_finished(const Measurement&, bool) override {}
  void joining_failed(const JoinFailure& failure) override { heard.push_back(failure); }
  std::vector<JoinFailure> heard;
};

struct Outcomes {
  std::vector<JoinFailure> heard{};
  std::set<std::string> given_up{}, thrown{};  // over all ranks
  std::set<std::optional<int>> failed_ranks{};
  int joined = 0;  // ranks
};

// All ranks join `times` times with fresh state.
Outcomes join_on(int hosts, const PlannedJoinFault& fault, int times = 1, bool looks = true) {
  Outcomes found;
  Hearing observer;
  std::mutex mutex;
  RanksOnHosts where;
  for (int host = 0; host < hosts; ++host) {
    where.names.push_back("n" + std::to_string(host));
    where.host_of_rank.insert(where.host_of_rank.end(), 2, host);
  }
  run_threads(2 * hosts, [&](ControlPlane& control) {
    Joiner backend(fault, control.participant());
    Rendezvous joining(control, looks ? where : RanksOnHosts{}, observer);
    std::string thrown;
    std::optional<int> failed_rank;
    for (int i = 0; i < times; ++i) try {
        backend.abandon();
        joining.join_ranks(backend);
      } catch (const PhaseFailed& failed) {
        thrown = failed.what;
        failed_rank = failed.rank;
      }
    const std::lock_guard lock(mutex);
    found.given_up.insert(joining.given_up());
    found.thrown.insert(thrown);
    found.failed_ranks.insert(failed_rank);
    found.joined += backend.joined() ? 1 : 0;
  });
  found.heard = observer.heard;
  return found;
}

TEST(Rendezvous, says_nothing_where_nothing_fails) {
  const Outcomes found = join_on(3, {}, 2);
  EXPECT_THAT(found.heard, IsEmpty());
  EXPECT_THAT(found.given_up, ElementsAre(""));
  EXPECT_EQ(found.joined, 6);
}

TEST(Rendezvous, names_a_host_and_gives_up_on_all_ranks_alike) {
  for (const bool offers : {false, true}) {
    const PlannedJoinFault fault{.at_fault = [](const auto&, int) { return true; }, .culprit = 1, .offers = offers};
    const Outcomes found = join_on(4, fault, 2);
    ASSERT_EQ(found.heard.size(), 1u);
    ASSERT_TRUE(found.heard[0].culprit);
    EXPECT_EQ(found.heard[0].culprit->kind, Culprit::hosts);
    EXPECT_THAT(found.heard[0].culprit->hosts, ElementsAre(1));
    EXPECT_THAT(found.heard[0].said, AllOf(HasSubstr("n1"), HasSubstr("rank 2: told to fail"), Not(HasSubstr("n0"))));
    EXPECT_EQ(found.given_up.size(), 1u);
    EXPECT_THAT(*found.given_up.begin(), HasSubstr("do not join"));
    EXPECT_EQ(found.thrown.size(), 1u);
    EXPECT_EQ(found.joined, 0);
  }
}

TEST(Rendezvous, fails_at_a_rank_of_the_host_at_fault_and_not_at_the_one_that_told_it) {
  const PlannedJoinFault fault{.at_fault = [](const auto&, int) { return true; }, .culprit = 2, .told_by = 0};
  const Outcomes found = join_on(4, fault);
  ASSERT_EQ(found.heard.size(), 1u);
  EXPECT_THAT(found.heard[0].culprit->hosts, ElementsAre(2));
  EXPECT_THAT(found.failed_ranks, ElementsAre(4));
}

TEST(Rendezvous, fails_at_no_rank_of_a_host_that_joins_with_others) {
  const PlannedJoinFault fault{
      .at_fault = [](const auto& hosts, int) { return hosts.size() > 1 && std::ranges::find(hosts, 2) != hosts.end(); },
      .culprit = 2,
      .partner_tells = true};
  const Outcomes found = join_on(4, fault);
  ASSERT_EQ(found.heard.size(), 1u);
  EXPECT_THAT(found.heard[0].culprit->hosts, ElementsAre(2));
  EXPECT_THAT(found.failed_ranks, ElementsAre(4));
}

TEST(Rendezvous, fails_at_the_rank_that_fails_wherever_it_is_on_its_host) {
  for (const std::size_t least : {1, 2, 3})  // hosts at which it fails: one alone, pairs, or all together
    for (const int rank : {4, 5}) {
      const PlannedJoinFault fault{.at_fault = [&](const auto& hosts, int) { return hosts.size() >= least; },
                                   .culprit = 2,
                                   .told_by = least < 3 ? std::optional(0) : std::nullopt,
                                   .of_rank = rank};
      const Outcomes found = join_on(4, fault);
      EXPECT_THAT(found.failed_ranks, ElementsAre(rank)) << least;
      EXPECT_THAT(*found.thrown.begin(), HasSubstr(fmt::format("rank {}: told to fail", rank)));
    }
}

TEST(Rendezvous, names_a_host_that_fails_with_others_only) {
  const PlannedJoinFault fault{.at_fault = [](const auto& hosts, int) { return hosts.size() > 1; }, .culprit = 2};
  const Outcomes found = join_on(5, fault);
  ASSERT_TRUE(found.heard.at(0).culprit);
  EXPECT_THAT(found.heard[0].culprit->hosts, ElementsAre(2));
  EXPECT_FALSE(found.heard[0].culprit->alone);
}

TEST(Rendezvous, goes_on_when_it_works_the_second_time) {
  const PlannedJoinFault fault{
      .at_fault = [](const auto& hosts, int attempts) { return hosts.size() > 2 && attempts == 1; }};
  const Outcomes found = join_on(4, fault);
  ASSERT_EQ(found.heard.size(), 1u);
  EXPECT_FALSE(found.heard[0].culprit);
  EXPECT_THAT(found.given_up, ElementsAre(""));
  EXPECT_THAT(found.thrown, ElementsAre(""));
  EXPECT_EQ(found.joined, 8);
}

TEST(Rendezvous, leaves_ranks_the_time_that_their_start_takes) {
  for (const double start_s : {9.5, 11.5, 60.0}) {
    const PlannedJoinFault fault{
        .at_fault = [](const auto& hosts, int attempts) { return hosts.size() > 2 && attempts == 1; },
        .start = {start_s}};
    const Outcomes found = join_on(5, fault);
    ASSERT_EQ(found.heard.size(), 1u);
    EXPECT_FALSE(found.heard[0].culprit) << found.heard[0].said;
    EXPECT_THAT(found.given_up, ElementsAre(""));
    EXPECT_EQ(found.joined, 10);
  }
}

// Hours and many launches may lie between two failures that pass.
TEST(Rendezvous, goes_on_each_time_that_it_works_the_second_time) {
  const PlannedJoinFault fault{
      .at_fault = [](const auto& hosts, int attempts) { return hosts.size() > 2 && (attempts == 1 || attempts == 3); }};
  std::atomic<int> calls = 0;  // of two ranks, as they join and as they try by themselves
  const PlannedJoinFault of_one_host{.at_fault = [&](const auto&, int) { return calls++ % 4 == 0; }};
  for (const int hosts : {1, 4}) {
    const Outcomes found = join_on(hosts, hosts == 1 ? of_one_host : fault, 3);
    ASSERT_EQ(found.heard.size(), hosts == 1 ? 3u : 2u);
    for (const JoinFailure& each : found.heard) EXPECT_FALSE(each.culprit);
    EXPECT_THAT(found.given_up, ElementsAre(""));
    EXPECT_THAT(found.thrown, ElementsAre(""));
    EXPECT_EQ(found.joined, 2 * hosts);
  }
}

// With one or two hosts the last trial is the whole job, so no rank has to join again.
TEST(Rendezvous, of_one_host_or_two_stays_together_after_a_trial_that_worked) {
  for (const int hosts : {1, 2}) {
    std::atomic<int> most = 0;
    std::atomic<bool> fresh = true;
    const PlannedJoinFault fault{.at_fault = [&](const auto& of, int attempts) {
      most = std::max(most.load(), attempts);
      return of.size() == static_cast<std::size_t>(hosts) && fresh.exchange(false);
    }};
    const Outcomes found = join_on(hosts, fault);
    ASSERT_EQ(found.heard.size(), 1u);
    EXPECT_FALSE(found.heard[0].culprit);
    EXPECT_EQ(found.joined, 2 * hosts);
    EXPECT_EQ(most, 1);
  }
}

TEST(Rendezvous, gives_up_when_only_all_together_fail_twice) {
  const PlannedJoinFault fault{.at_fault = [](const auto& hosts, int) { return hosts.size() > 2; }};
  const Outcomes found = join_on(4, fault, 3);
  ASSERT_EQ(found.heard.size(), 1u);
  ASSERT_TRUE(found.heard[0].culprit);
  EXPECT_EQ(found.heard[0].culprit->kind, Culprit::together);
  EXPECT_EQ(found.joined, 0);
}

// Hosts that had no time to join by themselves are not to blame for it: the failure of the whole job is all that is
// known.
TEST(Rendezvous, blames_no_host_for_joins_that_the_time_limit_of_the_command_cut_short) {
  using Hosts = std::vector<int>;
  const auto at_fault = [](const Hosts& hosts, int) { return hosts.size() > 1; };
  for (const int hosts : {2, 4, 5}) {
    for (const std::size_t size : {1, 2}) {
      const Outcomes found = join_on(
          hosts, {.at_fault = at_fault, .culprit = 1, .cut_short = [&](const Hosts& trial, bool whole_job, int) {
                    return !whole_job && trial.size() == size;
                  }});
      EXPECT_THAT(found.heard, IsEmpty());
      EXPECT_THAT(found.given_up, ElementsAre(""));
      const char* const then = size == 1 ? "no time was left to try hosts by themselves"
                                         : "each host joins by itself, and no time was left to try them together";
      EXPECT_THAT(found.thrown, ElementsAre(std::string("told to fail; ") + then + ": a longer --limit leaves more"));
      EXPECT_THAT(found.failed_ranks, ElementsAre(2));
    }
    const Outcomes one = join_on(
        hosts, {.at_fault = at_fault, .cut_short = [](const Hosts& trial, bool, int) { return trial == Hosts{1}; }});
    EXPECT_THAT(one.heard, IsEmpty());
    EXPECT_THAT(one.thrown, ElementsAre(HasSubstr("; n1 did not join without the others in the time that was left")));
    const Outcomes whole = join_on(hosts, {.cut_short = [](const Hosts&, bool, int) { return true; }});
    EXPECT_THAT(whole.heard, IsEmpty());
    EXPECT_THAT(whole.thrown,
                ElementsAre("all ranks stopped at the same point: its worker received no order for 15 ms"));
    EXPECT_THAT(whole.failed_ranks, ElementsAre(std::nullopt));
  }
  const Outcomes again =
      join_on(4, {.at_fault = [](const Hosts& hosts, int) { return hosts.size() > 2; },
                  .cut_short = [](const Hosts&, bool whole_job, int attempts) { return whole_job && attempts > 1; }});
  EXPECT_THAT(again.heard, IsEmpty());
  EXPECT_THAT(again.failed_ranks, ElementsAre(0));
}

// All hosts had the same time to join by themselves.
TEST(Rendezvous, tells_a_host_that_alone_of_all_did_not_join_before_the_time_limit_of_the_command) {
  using Hosts = std::vector<int>;
  for (const int hosts : {2, 4, 5})
    for (const bool all_stall : {true, false}) {
      const Outcomes found =
          join_on(hosts, {.at_fault = [](const Hosts& trial, int) { return trial.size() > 1; },
                          .culprit = 1,
                          .all_stall = all_stall,
                          .cut_short = [](const Hosts& trial, bool, int) { return trial == Hosts{1}; }});
      ASSERT_EQ(found.heard.size(), 1u) << hosts;
      ASSERT_TRUE(found.heard[0].culprit);
      EXPECT_THAT(found.heard[0].culprit->hosts, ElementsAre(1));
      EXPECT_TRUE(found.heard[0].culprit->alone);
      EXPECT_THAT(found.thrown,
                  ElementsAre(HasSubstr("; n1 did not join without the others in the time that was left")));
      EXPECT_THAT(found.failed_ranks, ElementsAre(all_stall ? std::nullopt : std::optional(2)));
    }
}

TEST(Rendezvous, without_hosts_fails_as_it_is_and_is_tried_again) {
  const PlannedJoinFault fault{.at_fault = [](const auto&, int attempts) { return attempts == 1; }};
  EXPECT_THAT(join_on(2, fault, 1, false).thrown, ElementsAre("told to fail"));
  const Outcomes found = join_on(2, fault, 2, false);
  EXPECT_EQ(found.joined, 4);
  EXPECT_THAT(found.heard, IsEmpty());
  EXPECT_THAT(found.given_up, ElementsAre(""));
}

// ---- findings

JoinFailure failure_of(Culprit kind, std::vector<int> hosts, std::vector<std::pair<int, int>> pairs = {}) {
  return {.culprit = JoinFault{.kind = kind, .hosts = std::move(hosts), .pairs = std::move(pairs)},
          .hosts = {"n0", "n1", "n2"},
          .said = "it was so"};
}

TEST(JoinFindings, are_about_the_hosts_that_are_named) {
  const std::vector<topo::Finding> found = reports::join_findings(failure_of(Culprit::hosts, {0, 2}));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].id, "join.host");
  EXPECT_EQ(found[0].severity, topo::Severity::error);
  EXPECT_EQ(found[1].subject.host, "n2");
  EXPECT_EQ(found[1].evidence, "it was so");
  EXPECT_FALSE(found[1].action.empty());
  EXPECT_EQ(reports::join_findings(failure_of(Culprit::pairs, {}, {{1, 2}})).at(0).id, "join.pair");
  EXPECT_EQ(reports::join_findings(failure_of(Culprit::between, {})).at(0).id, "join.between");
  EXPECT_EQ(reports::join_findings(failure_of(Culprit::nowhere, {0, 1, 2})).at(0).id, "join.nowhere");
  EXPECT_EQ(reports::join_findings(failure_of(Culprit::together, {})).at(0).id, "join.together");
}

// The GPUs of one host have the same software and variables.
TEST(JoinFindings, condemn_a_gpu_that_fails_by_itself_where_others_of_its_host_do_not) {
  JoinFailure failure = failure_of(Culprit::hosts, {0, 2});
  failure.hosts = {"GPU 3", "GPU 5", "rank 2"};
  failure.one_host = "node";
  const auto fail = [&](const std::string& first, const std::string& second) {
    failure.culprit->failures = {first, second};
    failure.said = "the ranks of both do not join: " + first;
  };
  const std::string crash = "rank 0: its worker (process 9) was ended by signal 11 (Segmentation fault)";
  fail(crash, crash);
  const auto condemned = [&] {
    std::vector<std::string> subjects;
    for (const topo::Finding& each : reports::join_findings(failure))
      if (topo::condemns(each))
        subjects.push_back(each.id + " " + each.subject.host + " " +
                           (each.subject.gpu ? std::to_string(*each.subject.gpu) : "?"));
    return subjects;
  };
  EXPECT_THAT(condemned(), IsEmpty()) << "it was not tried whether they join by themselves";
  failure.culprit->alone = true;
  EXPECT_THAT(condemned(), ElementsAre("join.gpu node 3", "join.gpu node ?"));
  EXPECT_THAT(reports::join_message(failure), HasSubstr("reset it, and replace the instance"));
  reports::Report report;
  report.findings = reports::join_findings(failure);
  EXPECT_TRUE(reports::never_joined(report));
  for (const char* const of_limits :
       {"was ended by signal 9 (Killed)", "Resource temporarily unavailable",
        "cudaMalloc: out of memory (cudaErrorMemoryAllocation, 2)", "Cuda failure 2 'out of memory'",
        "system not yet initialized", "its worker's reply is not understood: it is no object"}) {
    fail(of_limits, of_limits);
    EXPECT_THAT(condemned(), IsEmpty()) << of_limits;
    EXPECT_EQ(reports::join_findings(failure).at(0).id, "join.host");
    fail(of_limits, crash);
    EXPECT_THAT(condemned(), ElementsAre("join.gpu node ?")) << of_limits;
    EXPECT_THAT(reports::join_findings(failure).at(0).evidence, HasSubstr("the ranks of rank 2 do not join"));
  }
  fail(crash, "no answer to \"identify\" within 15 s");
  EXPECT_THAT(condemned(), ElementsAre("join.gpu node 3"));
  EXPECT_THAT(reports::join_findings(failure).at(0).evidence, AllOf(HasSubstr("GPU 3"), HasSubstr("signal 11")));
  const std::string of_gpu = "Cuda failure 214 'uncorrectable ECC error encountered'";
  fail(of_gpu, of_gpu);
  EXPECT_THAT(condemned(), ElementsAre("join.gpu node 3", "join.gpu node ?"));
  EXPECT_EQ(reports::join_findings(failure).at(0).action, "see nccl.gpu_failed");
  failure.culprit->kind = Culprit::nowhere;
  EXPECT_THAT(condemned(), IsEmpty()) << "all of them fail";
}

TEST(JoinFindings, are_a_warning_where_it_worked_the_second_time) {
  const topo::Finding found = reports::join_findings({.culprit = {}, .hosts = {"n0"}, .said = "it was so"}).at(0);
  EXPECT_EQ(found.id, "join.again");
  EXPECT_EQ(found.severity, topo::Severity::warning);
}

TEST(JoinFindings, tell_nccls_own_remedy_once) {
  JoinFailure failure = failure_of(Culprit::nowhere, {0});
  failure.said = "invalid usage: Duplicate GPU detected : rank 0 and rank 2";
  EXPECT_EQ(reports::join_findings(failure).at(0).action, "see nccl.duplicate_gpu");
  EXPECT_THAT(reports::join_message(failure), AllOf(HasSubstr("Duplicate GPU"), HasSubstr("NCCL_HOSTID")));
}

TEST(JoinFindings, make_the_run_one_that_never_began_where_nothing_was_measured) {
  reports::Report report;
  report.results.resize(2);
  report.results[0].measurement.outcome = Outcome::failed;
  report.results[0].verdict.grade = reports::Grade::failed;
  report.results[1].measurement.outcome = Outcome::skipped;
  EXPECT_EQ(reports::exit_code(report), ExitCode::unfinished);
  report.findings = reports::join_findings(failure_of(Culprit::hosts, {1}));
  EXPECT_EQ(reports::exit_code(report), ExitCode::environment);
  report.results[1].measurement.outcome = Outcome::measured;
  EXPECT_EQ(reports::exit_code(report), ExitCode::unfinished);
  report.results[1].measurement.measured_case.backend = "ofi";
  EXPECT_EQ(reports::exit_code(report), ExitCode::environment) << "libfabric's workers measured single NICs";
  report.results[1].verdict.grade = reports::Grade::wrong;
  EXPECT_EQ(reports::exit_code(report), ExitCode::wrong_data);
}

}  // namespace
}  // namespace p5
