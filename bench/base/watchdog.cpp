#include "bench/base/watchdog.hpp"

#include <utility>

#include "bench/base/clock.hpp"
#include "bench/base/thread.hpp"

namespace p5 {

Watchdog::Watchdog(OnHang on_hang) : on_hang_(std::move(on_hang)), thread_(start_thread([this] { watch(); })) {}

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
  limit_ = limit;
  ++steps_;
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit.count));
}

void Watchdog::rest() {
  const std::lock_guard lock(mutex_);
  deadline_ = Clock::time_point::max();
  ++steps_;
}

bool Watchdog::rests() const {
  const std::lock_guard lock(mutex_);
  return deadline_ == Clock::time_point::max();
}

// Looks five times a second rather than being told of every step: a step may be a few microseconds long.
void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!done_) {
    if (Clock::now() > deadline_) {
      const Hang hang{step_, limit_, [this, late = steps_] {
                        const std::lock_guard again(mutex_);
                        return steps_ == late && !done_;
                      }};
      lock.unlock();
      on_hang_(hang);
      lock.lock();
      continue;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(200));
  }
}

}  // namespace p5
