#include "bench/measure/agreement.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "bench/base/error.hpp"
#include "bench/measure/runner.hpp"
#include "bench/worlds/worlds.hpp"

namespace p5 {
namespace {

// What all three ranks learn when each does its part.
std::vector<PhaseFailed> failures_of(const std::vector<LocalPart>& parts) {
  std::vector<PhaseFailed> learned;
  std::mutex mutex;
  run_threads(static_cast<int>(parts.size()), [&](World& world) {
    try {
      agree(world, Phase::sample, /*recovers=*/true, parts[static_cast<std::size_t>(world.participant())],
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

TEST(Agreement, of_groups_keeps_the_failures_of_each_to_itself) {
  const std::vector<LocalPart> parts{good, stalled(1), lost, good, fails};
  const Round groups{{0}, {1, 2}, {3}};  // 4 is in none
  std::mutex mutex;
  run_threads(5, [&](World& world) {
    const GroupParts found =
        gather_by_group(world, Phase::open, groups, parts[static_cast<std::size_t>(world.participant())]);
    const std::lock_guard lock(mutex);
    ASSERT_EQ(found.failures.size(), 3u);
    EXPECT_FALSE(found.failures[0]);
    EXPECT_FALSE(found.failures[2]);
    ASSERT_TRUE(found.failures[1]);
    EXPECT_EQ(found.failures[1]->rank, 2) << "lost, which explains the one that waited for it";
    if (!world.leads()) return;
    EXPECT_EQ(found.parts, (std::vector<std::string>{"done", "", "", "done", ""}));
  });
}

TEST(Agreement, ends_the_job_when_ranks_cannot_come_back) {
  EXPECT_THROW(run_threads(2,
                           [](World& world) {
                             agree(world, Phase::sample, /*recovers=*/false, world.participant() == 1 ? fails : good,
                                   [](const std::vector<std::string>&) { return std::string(); });
                           }),
               JobLost);
}

}  // namespace
}  // namespace p5
