#include "bench/base/thread.hpp"

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace p5 {
namespace {

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
