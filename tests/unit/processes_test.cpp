// The World of forked processes: what they say to each other, and what becomes of it when one of them is no more.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "bench/base/error.hpp"
#include "bench/worlds/fate_sharing.hpp"
#include "bench/worlds/worlds.hpp"

namespace p5 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int how_many = 3;
constexpr auto moment = std::chrono::milliseconds(20);

// Runs `body` in each process. Those that were forked leave the test program here: 0 where nothing was thrown.
void run_processes(int ranks, const std::function<void(World&)>& body) {
  const ProcessJob job(ranks);
  if (job.world().leads()) return body(job.world());
  try {
    body(job.world());
  } catch (const std::exception&) {
    std::_Exit(1);
  }
  std::_Exit(0);
}

std::string word(const World& world, int step) { return fmt::format("{}-{}", world.participant(), step); }

TEST(Processes, a_gather_has_all_parts_in_order_and_a_broadcast_is_the_leaders) {
  run_processes(how_many, [](World& world) {
    EXPECT_EQ(world.ranks(), how_many);
    EXPECT_EQ(world.participants(), how_many);
    EXPECT_THAT(world.hosted(), ElementsAre(world.participant()));
    for (int step = 0; step < 100; ++step) {
      // Later ranks come first.
      if (step == 3) std::this_thread::sleep_for(moment * (how_many - world.participant()));
      const std::vector<std::string> all = world.gather(word(world, step));
      if (world.leads()) {
        EXPECT_THAT(all, ElementsAre(fmt::format("0-{}", step), fmt::format("1-{}", step), fmt::format("2-{}", step)));
      }
      // What comes back tells the leader what the others heard.
      const std::string heard = step % 2 == 0 ? world.broadcast(word(world, step)) : fmt::format("0-{}", step);
      for (const std::string& each : world.gather(heard)) EXPECT_EQ(each, fmt::format("0-{}", step));
    }
  });
}

TEST(Processes, parts_may_be_empty_and_larger_than_what_a_socket_holds) {
  const std::string large(5'000'000, 'x');
  run_processes(how_many, [&](World& world) {
    const std::vector<std::string> all = world.gather(world.participant() == 1 ? "" : large);
    if (world.leads()) {
      EXPECT_TRUE(all == (std::vector<std::string>{large, "", large}));
    }
    const std::string told = world.broadcast(world.leads() ? large + "1" : "");
    const std::vector<std::string> heard = world.gather(told == large + "1" ? "y" : "n");
    if (world.leads()) {
      EXPECT_THAT(heard, ElementsAre("y", "y", "y"));
    }
    world.barrier();
  });
}

TEST(Processes, one_alone_needs_nobody) {
  run_processes(1, [](World& world) {
    EXPECT_TRUE(world.leads());
    EXPECT_THAT(world.gather("mine"), ElementsAre("mine"));
    EXPECT_EQ(world.broadcast("mine"), "mine");
    EXPECT_THAT(world.awaited(), ElementsAre());
  });
}

TEST(Processes, an_alarm_reaches_all_and_no_other_epoch) {
  run_processes(how_many, [](World& world) {
    constexpr std::uint32_t mine = 7, high = 1u << 31;
    world.barrier();
    if (world.participant() == 2) world.raise_alarm(mine), world.raise_alarm(high);
    world.barrier();
    const std::vector<std::string> all =
        world.gather(world.alarmed(mine) && world.alarmed(high) && !world.alarmed(mine + 1) ? "y" : "n");
    if (world.leads()) {
      EXPECT_THAT(all, ElementsAre("y", "y", "y"));
    }
    world.barrier();
    for (std::uint32_t epoch = 100; epoch < 1100; ++epoch) world.raise_alarm(epoch);
    EXPECT_TRUE(world.alarmed(1099));
    world.barrier();
  });
}

TEST(Processes, a_process_that_dies_is_named_with_what_ended_it) {
  for (const bool in_broadcast : {false, true})
    run_processes(how_many, [&](World& world) {
      world.barrier();
      if (world.participant() == 2) ::kill(::getpid(), SIGKILL);
      while (!world.leads()) in_broadcast ? (void)world.broadcast("") : (void)world.gather("");  // until it has gone
      const auto meet = [&] {
        // The first words into a socket that nobody reads any more may still get there.
        for (int i = 0; i < 1000 && in_broadcast; ++i) world.broadcast(std::string(100'000, 'x'));
        world.gather("");
      };
      EXPECT_THAT(meet, ThrowsMessage<JobLost>(::testing::AllOf(HasSubstr("rank 2 ended before the job did (process"),
                                                                HasSubstr("signal 9"))));
    });
}

TEST(Processes, whose_part_has_not_come_is_known) {
  run_processes(how_many, [](World& world) {
    world.barrier();
    if (world.participant() == 1) std::this_thread::sleep_for(moment * 20);
    std::thread looking;
    if (world.leads())
      looking = std::thread([&] {
        bool alone = false;
        while (!alone) alone = world.awaited() == std::vector<int>{1};  // or the test never ends
      });
    world.gather("");
    if (world.leads()) looking.join();
    world.broadcast("");
  });
}

TEST(Processes, those_that_do_not_end_are_ended_with_the_job) {
  pid_t silent = 0;
  {
    const ProcessJob job(2, {0.2});
    const std::vector<std::string> all = job.world().gather(std::to_string(::getpid()));
    if (!job.world().leads()) {
      ::kill(::getpid(), SIGSTOP);
      std::_Exit(0);
    }
    silent = std::stoi(all.at(1));
  }
  EXPECT_NE(::kill(silent, 0), 0) << "it is still there";
}

TEST(Processes, those_that_fail_share_their_fate) {
  run_processes(how_many, [](World& inner) {
    FateSharing world(inner);
    const std::optional<Problem> problem = world.attempt([&] {
      world.barrier();
      if (world.participant() == 1) throw EnvironmentError("no space");
      world.gather("x");
      world.broadcast("x");
    });
    if (inner.leads()) {
      ASSERT_TRUE(problem);
      EXPECT_EQ(problem->what, "rank 1: no space");
    }
  });
}

}  // namespace
}  // namespace p5
