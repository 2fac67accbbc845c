// Notices that a step does not end. For backends whose calls cannot be interrupted: what then happens ends the process.
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
  using Question = std::function<bool()>;
  // Called on a thread of its own with what was being done. When it returns, because what hung went on after all, the
  // watch does too; `hangs` tells as long as it has not.
  using Bite = std::function<void(const std::string& step, const Question& hangs)>;
  explicit Watchdog(Bite bite);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;  // the thread refers to this object
  Watchdog& operator=(const Watchdog&) = delete;

  // A step begins that has to end, by the next call, within `limit`.
  void expect(std::string step, Seconds limit);
  void rest();

 private:
  void watch();

  Bite bite_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string step_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  std::uint64_t steps_ = 0;  // told of so far
  bool done_ = false;
  std::thread thread_;
};

}  // namespace p5
