// SIGINT and SIGTERM as events on a thread of their own, where files can be written: there is under a second for that
// before a launcher kills for good.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace p5 {

class EndingSignals {
 public:
  // Make it first in main: threads made later inherit the blocked signals.
  EndingSignals();
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;  // the thread refers to this object
  EndingSignals& operator=(const EndingSignals&) = delete;

  // Called with the signal's name before the process ends with `unfinished`. Empty: nothing to do.
  void on_end(std::function<void(const std::string& signal)> action);

 private:
  void wait();

  std::mutex mutex_;
  std::function<void(const std::string&)> action_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace p5
