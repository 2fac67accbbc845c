#include "bench/base/thread.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace p5 {
namespace {

TEST(Pauses, are_times_between_looks_that_are_far_apart) {
  using std::chrono::milliseconds;
  const Clock::time_point start = Clock::now();
  Pauses pauses(start);
  EXPECT_EQ(pauses.look(start + milliseconds(200)), Clock::duration::zero());
  EXPECT_EQ(pauses.look(start + milliseconds(1900)), Clock::duration::zero()) << "a busy machine";
  EXPECT_EQ(pauses.look(start + milliseconds(11'900)), milliseconds(10'000));
  EXPECT_EQ(pauses.look(start + milliseconds(12'000)), Clock::duration::zero());
}

TEST(CallWithin, gives_up_a_call_that_does_not_end) {
  EXPECT_EQ(call_within<int>({60}, [] { return 7; }), 7);
  EXPECT_THROW(call_within<int>({60}, []() -> int { throw EnvironmentError("none"); }), EnvironmentError);
  std::promise<void> goes_on, ended;
  const auto start = Clock::now();
  const auto blocked = [held = std::make_shared<std::future<void>>(goes_on.get_future()), &ended] {
    held->wait();
    ended.set_value();
    return 7;
  };
  EXPECT_EQ(call_within<int>({0.05}, blocked), std::nullopt);
  EXPECT_LT(since(start).count, 30);
  goes_on.set_value();
  ended.get_future().wait();
}

TEST(Watchdog, bites_with_the_step_that_does_not_end) {
  std::promise<std::string> bitten;
  bool first = true;
  Watchdog watchdog([&](const Watchdog::Hang& hang) {
    if (first && hang.lasts()) bitten.set_value(hang.step);
    first = false;
  });
  watchdog.arm("the first", {1e6});
  watchdog.arm("the second", {0});
  EXPECT_EQ(bitten.get_future().get(), "the second");
}

TEST(Watchdog, does_not_bite_when_all_ends_or_rests) {
  bool bitten = false;
  {
    Watchdog watchdog([&](const Watchdog::Hang&) { bitten = true; });
    watchdog.arm("a step", {1e6});
    watchdog.disarm();
  }
  EXPECT_FALSE(bitten);
}

// Another process continues this one.
[[noreturn]] void stand_still() {
  const pid_t own = ::getpid();
  if (::fork() == 0) {
    ::sleep(4);
    ::kill(own, SIGCONT);
    std::_Exit(0);
  }
  Watchdog watchdog([](const Watchdog::Hang&) { std::_Exit(3); });
  watchdog.arm("a step of a suspended job", {2.5});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ::kill(own, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  watchdog.disarm();
  std::_Exit(0);
}

TEST(Watchdog, does_not_count_time_in_which_its_process_stood_still) {
  EXPECT_EXIT(stand_still(), testing::ExitedWithCode(0), "");
}

TEST(Watchdog, learns_that_what_hung_goes_on_and_watches_on) {
  std::promise<void> first, second, gone_on;
  int bites = 0;
  Watchdog watchdog([&](const Watchdog::Hang& hang) {
    if (++bites > 2) return;
    (bites == 1 ? first : second).set_value();
    if (bites == 2) return;
    gone_on.get_future().wait();
    EXPECT_EQ(hang.step, "a slow step");
    EXPECT_FALSE(hang.lasts());
  });
  watchdog.arm("a slow step", {0});
  first.get_future().wait();
  watchdog.arm("a step that hangs", {0});
  gone_on.set_value();
  second.get_future().wait();
  watchdog.disarm();
}

}  // namespace
}  // namespace p5
