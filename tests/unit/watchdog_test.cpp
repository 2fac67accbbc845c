#include "bench/measure/watchdog.hpp"

#include <gtest/gtest.h>

#include <future>
#include <string>

namespace p5 {
namespace {

TEST(Watchdog, bites_with_the_step_that_does_not_end) {
  std::promise<std::string> bitten;
  bool first = true;
  Watchdog watchdog([&](const std::string& step, const Watchdog::Question& hangs) {
    if (first && hangs()) bitten.set_value(step);
    first = false;
  });
  watchdog.expect("the first", {1e6});
  watchdog.expect("the second", {0});
  EXPECT_EQ(bitten.get_future().get(), "the second");
}

TEST(Watchdog, does_not_bite_when_all_ends_or_rests) {
  bool bitten = false;
  {
    Watchdog watchdog([&](const std::string&, const Watchdog::Question&) { bitten = true; });
    watchdog.expect("a step", {1e6});
    watchdog.rest();
  }
  EXPECT_FALSE(bitten);
}

TEST(Watchdog, learns_that_what_hung_goes_on_and_watches_on) {
  std::promise<void> first, second, gone_on;
  int bites = 0;
  Watchdog watchdog([&](const std::string& step, const Watchdog::Question& hangs) {
    if (++bites > 2) return;
    (bites == 1 ? first : second).set_value();
    if (bites == 2) return;
    gone_on.get_future().wait();
    EXPECT_EQ(step, "a slow step");
    EXPECT_FALSE(hangs());
  });
  watchdog.expect("a slow step", {0});
  first.get_future().wait();
  watchdog.expect("a step that hangs", {0});
  gone_on.set_value();
  second.get_future().wait();
  watchdog.rest();
}

}  // namespace
}  // namespace p5
