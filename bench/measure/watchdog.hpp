// Notices that a step does not end. For backends whose calls cannot be interrupted: what then happens ends the process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "bench/base/units.hpp"

namespace p5 {

class Watchdog {
 public:
  // `bite` is called once, on a thread of its own, with what was being done.
  explicit Watchdog(std::function<void(const std::string&)> bite);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;  // the thread refers to this object
  Watchdog& operator=(const Watchdog&) = delete;

  // A step begins that has to end, by the next call, within `limit`.
  void expect(std::string step, Seconds limit);
  void rest();

 private:
  void watch();

  std::function<void(const std::string&)> bite_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string step_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  bool done_ = false;
  std::thread thread_;
};

}  // namespace p5
