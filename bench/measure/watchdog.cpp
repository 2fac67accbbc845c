#include "bench/measure/watchdog.hpp"
#include "bench/base/clock.hpp"

#include <utility>

namespace p5 {

Watchdog::Watchdog(Bite bite) : bite_(std::move(bite)), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::expect(std::string step, Seconds limit) {
  const std::lock_guard lock(mutex_);
  step_ = std::move(step);
  ++steps_;
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit.count));
}

void Watchdog::rest() {
  const std::lock_guard lock(mutex_);
  deadline_ = Clock::time_point::max();
  ++steps_;
}

// Looks five times a second rather than being told of every step: a step may be a few microseconds long.
void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!done_) {
    if (Clock::now() > deadline_) {
      const std::uint64_t late = steps_;
      const std::string step = step_;
      lock.unlock();
      bite_(step, [&] {
        const std::lock_guard again(mutex_);
        return steps_ == late && !done_;
      });
      lock.lock();
      continue;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(200));
  }
}

}  // namespace p5
