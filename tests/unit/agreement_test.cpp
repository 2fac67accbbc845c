#include "bench/model/agreement.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <new>

#include "bench/base/error.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/result_fields.hpp"

namespace p5 {
namespace {

using LocalPart = std::function<std::string()>;

// The common result of three ranks after each did its part.
std::vector<PhaseFailed> failures_of(const std::vector<LocalPart>& parts) {
  std::vector<PhaseFailed> learned;
  std::mutex mutex;
  run_threads(static_cast<int>(parts.size()), [&](ControlPlane& control) {
    try {
      agree(control, Phase::sample, /*recovers=*/true, parts[static_cast<std::size_t>(control.participant())],
            [](const std::vector<std::string>&) { return std::string(); });
    } catch (const PhaseFailed& failed) {
      const std::lock_guard lock(mutex);
      learned.push_back(failed);
    }
  });
  return learned;
}

const LocalPart good = [] { return std::string("done"); };
const LocalPart fails = []() -> std::string { throw CaseError("the library reports an error"); };
const LocalPart lost = []() -> std::string { throw LostError("its process is gone"); };
LocalPart stalled(double progress) {
  return [progress]() -> std::string { throw StalledError("no answer", std::nullopt, progress); };
}

TEST(Agreement, takes_values_of_all_and_gives_all_the_same_value) {
  using Part = std::map<std::string, std::vector<std::vector<double>>>;
  std::mutex mutex;
  int agreed = 0;
  run_threads(3, [&](ControlPlane& control) {
    const double me = control.participant();
    bool decided = false;
    const auto first = agree(
        control, Phase::sample, true,
        [&] {
          return Part{{"times", {{me, std::nan("")}, {}}}};
        },
        [&](const std::vector<Part>& parts) {
          decided = true;
          EXPECT_EQ(parts.at(2).at("times").at(0).at(0), 2);
          EXPECT_TRUE(std::isnan(parts.at(2).at("times").at(0).at(1)));
          EXPECT_EQ(parts.at(2).at("times").size(), 2u);
          return std::optional(
              WrongElement{.rank = 1, .offset = 1ull << 60, .wanted = "a\nb", .got = "", .guard = true});
        });
    agree(control, Phase::sample, true, [] {});
    const std::lock_guard lock(mutex);
    EXPECT_EQ(decided, control.is_leader());
    ASSERT_TRUE(first);
    EXPECT_EQ(first->offset, 1ull << 60);
    EXPECT_EQ(first->wanted, "a\nb");
    EXPECT_TRUE(first->guard);
    ++agreed;
  });
  EXPECT_EQ(agreed, 3);
}

TEST(Agreement, a_word_that_ends_in_the_middle_is_refused) {
  const std::string whole = wire::serialize(std::vector<std::string>{"one", "two"});
  EXPECT_EQ(wire::deserialize<std::vector<std::string>>(whole), (std::vector<std::string>{"one", "two"}));
  EXPECT_THROW(wire::deserialize<std::vector<std::string>>(whole.substr(0, whole.size() - 1)), std::runtime_error);
  EXPECT_THROW(wire::deserialize<double>(whole.substr(0, 7)), std::runtime_error);
}

TEST(Agreement, tells_all_ranks_the_same_failure) {
  const std::vector<PhaseFailed> learned = failures_of({good, fails, good});
  ASSERT_EQ(learned.size(), 3u);
  for (const PhaseFailed& failed : learned) {
    EXPECT_EQ(failed.rank, 1);
    EXPECT_EQ(failed.phase, Phase::sample);
    EXPECT_EQ(failed.what, "the library reports an error");
  }
}

TEST(Agreement, blames_a_lost_process_before_the_errors_that_its_peers_see) {
  for (const PhaseFailed& failed : failures_of({fails, stalled(1), lost})) EXPECT_EQ(failed.rank, 2);
}

TEST(Agreement, blames_an_error_before_those_that_waited_for_it) {
  for (const PhaseFailed& failed : failures_of({stalled(0), fails, stalled(1)})) EXPECT_EQ(failed.rank, 1);
}

TEST(Agreement, blames_the_rank_behind_when_all_stall) {
  for (const PhaseFailed& failed : failures_of({stalled(7), stalled(7), stalled(6)})) EXPECT_EQ(failed.rank, 2);
}

TEST(Agreement, blames_nobody_when_all_stall_at_the_same_point) {
  for (const PhaseFailed& failed : failures_of({stalled(7), stalled(7), stalled(7)})) {
    EXPECT_FALSE(failed.rank);
    EXPECT_NE(failed.what.find("all ranks stopped at the same point"), std::string::npos);
  }
}

// Idle ranks have completed the same operations; one that completed more may have waited for the others.
TEST(Agreement, tells_ranks_that_stalled_from_those_that_waited_for_them) {
  int told = 0;
  for (const PhaseFailed& failed : failures_of({stalled(7.5), stalled(8), stalled(7), good})) {
    if (failed.stalled.empty()) continue;  // not the leader
    ++told;
    EXPECT_EQ(failed.stalled, (std::vector<int>{0, 2}));
    EXPECT_EQ(failed.waiting, (std::vector<int>{1}));
  }
  EXPECT_EQ(told, 1);
  for (const PhaseFailed& failed : failures_of({stalled(7), lost, stalled(8)}))
    EXPECT_TRUE(failed.stalled.empty() && failed.waiting.empty());
}

// The rank behind the others is at fault only if the wait for it had its time.
TEST(Agreement, blames_no_rank_for_a_wait_that_the_time_limit_of_the_command_cut_short) {
  const LocalPart late = []() -> std::string {
    StalledError problem("no answer for 8 ms", std::nullopt, 6);
    problem.cut_short = true;
    throw problem;
  };
  for (const std::vector<LocalPart>& parts :
       {std::vector{stalled(7), late, good}, std::vector{late, good, stalled(5)}}) {
    const std::vector<PhaseFailed> learned = failures_of(parts);
    ASSERT_EQ(learned.size(), 3u);
    int told = 0;  // at the leader
    for (const PhaseFailed& failed : learned) {
      EXPECT_TRUE(failed.cut_short);
      EXPECT_FALSE(failed.rank);
      EXPECT_EQ(failed.what, learned.front().what);
      EXPECT_EQ(failed.what.rfind("rank ", 0), 0u) << failed.what;
      told += failed.stalled.size() == 1 && failed.waiting.size() == 1 ? 1 : 0;
    }
    EXPECT_EQ(told, 1) << "which ranks did not answer is known";
  }
  for (const PhaseFailed& failed : failures_of({stalled(7), late, lost})) {
    EXPECT_FALSE(failed.cut_short);
    EXPECT_EQ(failed.rank, 2);
  }
  for (const PhaseFailed& failed : failures_of({stalled(7), stalled(6), good})) EXPECT_FALSE(failed.cut_short);
}

// A rank whose device does not become idle is known also where no rank is blamed.
TEST(Agreement, tells_which_devices_hang_of_ranks_that_did_not_answer) {
  const auto ends = [](bool hangs) -> LocalPart {
    return [hangs]() -> std::string {
      StalledError problem("no answer for 4 s", std::nullopt, 7);
      problem.cut_short = true;
      problem.hangs = hangs;
      throw problem;
    };
  };
  std::map<int, std::string> hung;  // told to the leader
  for (const PhaseFailed& failed : failures_of({ends(false), ends(true), ends(false)})) {
    EXPECT_FALSE(failed.rank);
    hung.insert(failed.hung.begin(), failed.hung.end());
  }
  EXPECT_EQ(hung, (std::map<int, std::string>{{1, "no answer for 4 s"}}));
  for (const PhaseFailed& failed : failures_of({ends(false), ends(false)})) EXPECT_TRUE(failed.hung.empty());
}

// Returns what each rank throws in a step outside of the operation under test.
std::vector<std::string> errors_of(const std::vector<LocalPart>& parts, const std::function<void()>& decide) {
  std::vector<std::string> learned;
  std::mutex mutex;
  run_threads(static_cast<int>(parts.size()), [&](ControlPlane& control) {
    std::string what;
    try {
      agree(control, parts[static_cast<std::size_t>(control.participant())],
            [&](const std::vector<std::string>&) { decide(); });
    } catch (const UsageError& problem) {
      what = std::string("usage: ") + problem.what();
    } catch (const EnvironmentError& problem) {
      what = std::string("environment: ") + problem.what();
    } catch (const std::runtime_error& problem) {
      what = std::string("other: ") + problem.what();
    }
    const std::lock_guard lock(mutex);
    learned.push_back(what);
  });
  return learned;
}

TEST(Agreement, throws_the_leaders_error_on_all_ranks) {
  const auto refuse = [] { throw UsageError("no such file"); };
  EXPECT_EQ(errors_of({good, good, good}, refuse), std::vector<std::string>(3, "usage: no such file"));
}

TEST(Agreement, names_the_rank_whose_part_failed) {
  const auto decide = [] {};
  const LocalPart wrong = []() -> std::string { throw std::runtime_error("unforeseen"); };
  EXPECT_EQ(errors_of({good, fails, stalled(0)}, decide),
            std::vector<std::string>(3, "environment: rank 1: the library reports an error"));
  EXPECT_EQ(errors_of({good, good, wrong}, decide), std::vector<std::string>(3, "other: rank 2: unforeseen"));
}

// Outside of the operation under test the ranks that do not stall have not stopped anywhere.
TEST(Agreement, names_a_rank_when_some_stall_outside_of_an_operation) {
  EXPECT_EQ(errors_of({good, stalled(0), stalled(0)}, [] {}),
            std::vector<std::string>(3, "environment: rank 1: no answer"));
}

TEST(Agreement, of_groups_keeps_the_failures_of_each_to_itself) {
  const std::vector<LocalPart> parts{good, stalled(1), lost, good, fails};
  const Round groups{{0}, {1, 2}, {3}};  // rank 4 is in no group
  std::mutex mutex;
  run_threads(5, [&](ControlPlane& control) {
    const auto found =
        gather_by_group(control, Phase::open, groups, parts[static_cast<std::size_t>(control.participant())]);
    const std::lock_guard lock(mutex);
    ASSERT_EQ(found.failures.size(), 3u);
    EXPECT_FALSE(found.failures[0]);
    EXPECT_FALSE(found.failures[2]);
    ASSERT_TRUE(found.failures[1]);
    EXPECT_EQ(found.failures[1]->rank, 2) << "lost, which explains the one that waited for it";
    if (!control.is_leader()) return;
    EXPECT_EQ(found.parts, (std::vector<std::string>{"done", "", "", "done", ""}));
  });
}

TEST(Agreement, ends_the_job_when_ranks_cannot_come_back) {
  EXPECT_THROW(run_threads(2,
                           [](ControlPlane& control) {
                             agree(control, Phase::sample, /*recovers=*/false,
                                   control.participant() == 1 ? fails : good,
                                   [](const std::vector<std::string>&) { return std::string(); });
                           }),
               JobLost);
}

TEST(Agreement, tells_what_to_do_where_memory_has_run_out) {
  const LocalPart too_much = []() -> std::string { throw std::bad_alloc(); };
  const std::vector<PhaseFailed> learned = failures_of({good, too_much});
  ASSERT_EQ(learned.size(), 2u);
  for (const PhaseFailed& failed : learned) {
    EXPECT_EQ(failed.rank, 1);
    EXPECT_NE(failed.what.find("ulimit -v"), std::string::npos) << failed.what;
  }
}

}  // namespace
}  // namespace p5
