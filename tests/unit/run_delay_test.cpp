#include "bench/base/run_delay.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "bench/base/thread.hpp"

namespace p5 {
namespace {

// Two threads on one core: each waits while the other runs.
TEST(RunDelay, grows_while_another_thread_has_the_core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(std::max(sched_getcpu(), 0)), &one);
  std::atomic<bool> done{false};
  bool counts = false, grew = false;
  std::thread waiting([&] {
    sched_setaffinity(0, sizeof one, &one);
    const RunDelay delay;
    const std::optional<Seconds> before = delay.total();
    counts = before.has_value();
    const auto start = Clock::now();
    while (counts && !grew && since(start).count < 60) grew = delay.total()->count > before->count + 1e-3;
    done = true;
  });
  std::thread other([&] {
    sched_setaffinity(0, sizeof one, &one);
    while (!done) {
    }
  });
  waiting.join();
  other.join();
  if (!counts) GTEST_SKIP() << "the kernel counts no waiting for cores";
  EXPECT_TRUE(grew);
}

}  // namespace
}  // namespace p5
