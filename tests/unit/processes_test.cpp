// The ControlPlane of forked processes: its messages, and the end of one of the processes.
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
#include "bench/control/collective_errors.hpp"
#include "bench/control/control_planes.hpp"

namespace p5 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int how_many = 3;
constexpr auto moment = std::chrono::milliseconds(20);

// Runs `body` in each process. Forked processes exit here, with 0 where nothing was thrown.
void run_processes(int ranks, const std::function<void(ControlPlane&)>& body) {
  const ProcessJob job(ranks);
  if (job.control().is_leader()) return body(job.control());
  try {
    body(job.control());
  } catch (const std::exception&) {
    std::_Exit(1);
  }
  std::_Exit(0);
}

std::string word(const ControlPlane& control, int step) { return fmt::format("{}-{}", control.participant(), step); }

TEST(Processes, a_gather_has_all_parts_in_order_and_a_broadcast_is_the_leaders) {
  run_processes(how_many, [](ControlPlane& control) {
    EXPECT_EQ(control.ranks(), how_many);
    EXPECT_EQ(control.participants(), how_many);
    EXPECT_THAT(control.hosted(), ElementsAre(control.participant()));
    for (int step = 0; step < 100; ++step) {
      // Later ranks join first.
      if (step == 3) std::this_thread::sleep_for(moment * (how_many - control.participant()));
      const std::vector<std::string> all = control.gather(word(control, step));
      if (control.is_leader()) {
        EXPECT_THAT(all, ElementsAre(fmt::format("0-{}", step), fmt::format("1-{}", step), fmt::format("2-{}", step)));
      }
      // The reply contains what the others received.
      const std::string heard = step % 2 == 0 ? control.broadcast(word(control, step)) : fmt::format("0-{}", step);
      for (const std::string& each : control.gather(heard)) EXPECT_EQ(each, fmt::format("0-{}", step));
    }
  });
}

TEST(Processes, parts_may_be_empty_and_larger_than_what_a_socket_holds) {
  const std::string large(5'000'000, 'x');
  run_processes(how_many, [&](ControlPlane& control) {
    const std::vector<std::string> all = control.gather(control.participant() == 1 ? "" : large);
    if (control.is_leader()) {
      EXPECT_TRUE(all == (std::vector<std::string>{large, "", large}));
    }
    const std::string told = control.broadcast(control.is_leader() ? large + "1" : "");
    const std::vector<std::string> heard = control.gather(told == large + "1" ? "y" : "n");
    if (control.is_leader()) {
      EXPECT_THAT(heard, ElementsAre("y", "y", "y"));
    }
    control.barrier();
  });
}

TEST(Processes, one_alone_needs_nobody) {
  run_processes(1, [](ControlPlane& control) {
    EXPECT_TRUE(control.is_leader());
    EXPECT_THAT(control.gather("mine"), ElementsAre("mine"));
    EXPECT_EQ(control.broadcast("mine"), "mine");
    EXPECT_THAT(control.missing_participants(), ElementsAre());
  });
}

TEST(Processes, an_alarm_reaches_all_and_no_other_epoch) {
  run_processes(how_many, [](ControlPlane& control) {
    constexpr std::uint32_t mine = 7, high = 1u << 31;
    control.barrier();
    if (control.participant() == 2) control.notify_abort(mine), control.notify_abort(high);
    control.barrier();
    const std::vector<std::string> all = control.gather(
        control.abort_notified(mine) && control.abort_notified(high) && !control.abort_notified(mine + 1) ? "y" : "n");
    if (control.is_leader()) {
      EXPECT_THAT(all, ElementsAre("y", "y", "y"));
    }
    control.barrier();
    for (std::uint32_t epoch = 100; epoch < 1100; ++epoch) control.notify_abort(epoch);
    EXPECT_TRUE(control.abort_notified(1099));
    control.barrier();
  });
}

TEST(Processes, a_process_that_dies_is_named_with_what_ended_it) {
  for (const bool in_broadcast : {false, true})
    run_processes(how_many, [&](ControlPlane& control) {
      control.barrier();
      if (control.participant() == 2) ::kill(::getpid(), SIGKILL);
      while (!control.is_leader())
        in_broadcast ? (void)control.broadcast("") : (void)control.gather("");  // until the process has ended
      const auto meet = [&] {
        // The first message into a socket without a reader may still be delivered.
        for (int i = 0; i < 1000 && in_broadcast; ++i) control.broadcast(std::string(100'000, 'x'));
        control.gather("");
      };
      EXPECT_THAT(meet, ThrowsMessage<JobLost>(::testing::AllOf(HasSubstr("rank 2 ended before the job did (process"),
                                                                HasSubstr("signal 9"))));
    });
}

TEST(Processes, whose_part_has_not_come_is_known) {
  run_processes(how_many, [](ControlPlane& control) {
    control.barrier();
    if (control.participant() == 1) std::this_thread::sleep_for(moment * 20);
    std::thread looking;
    if (control.is_leader())
      looking = std::thread([&] {
        bool alone = false;
        while (!alone) alone = control.missing_participants() == std::vector<int>{1};  // or the test never ends
      });
    control.gather("");
    if (control.is_leader()) looking.join();
    control.broadcast("");
  });
}

TEST(Processes, those_that_do_not_end_are_ended_with_the_job) {
  pid_t silent = 0;
  {
    const ProcessJob job(2, {0.2});
    const std::vector<std::string> all = job.control().gather(std::to_string(::getpid()));
    if (!job.control().is_leader()) {
      ::kill(::getpid(), SIGSTOP);
      std::_Exit(0);
    }
    silent = std::stoi(all.at(1));
  }
  EXPECT_NE(::kill(silent, 0), 0) << "it is still there";
}

TEST(Processes, those_that_fail_share_their_fate) {
  run_processes(how_many, [](ControlPlane& inner) {
    CollectiveErrors control(inner);
    const std::optional<Problem> problem = control.attempt([&] {
      control.barrier();
      if (control.participant() == 1) throw EnvironmentError("no space");
      control.gather("x");
      control.broadcast("x");
    });
    if (inner.is_leader()) {
      ASSERT_TRUE(problem);
      EXPECT_EQ(problem->what, "rank 1: no space");
    }
  });
}

}  // namespace
}  // namespace p5
