// Notices that a step does not end, of those that nobody can interrupt.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "bench/base/units.hpp"

namespace p5 {

class Watchdog {
 public:
  struct Hang {
    std::string step;
    Seconds limit;
    std::function<bool()> lasts;  // false once the step has ended after all
  };
  // Called on a thread of its own. When it returns, the watch goes on.
  using OnHang = std::function<void(const Hang& hang)>;
  explicit Watchdog(OnHang on_hang);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;  // the thread refers to this object
  Watchdog& operator=(const Watchdog&) = delete;

  // A step begins that has to end, by the next call, within `limit`.
  void expect(std::string step, Seconds limit);
  void rest();
  bool rests() const;

 private:
  void watch();

  OnHang on_hang_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string step_;
  Seconds limit_{};
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  std::uint64_t steps_ = 0;  // told of so far
  bool done_ = false;
  std::thread thread_;
};

}  // namespace p5
