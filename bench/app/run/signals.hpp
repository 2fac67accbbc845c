// SIGINT and SIGTERM as events on a thread of their own, where files can be written: there is under a second for that
// before a launcher kills for good.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

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

// What is to be done when a signal ends the process, as long as this lives: what the action refers to has to live
// longer.
class EndingAction {
 public:
  EndingAction(EndingSignals& signals, std::function<void(const std::string& signal)> action) : signals_(signals) {
    signals_.on_end(std::move(action));
  }
  ~EndingAction() { signals_.on_end({}); }
  EndingAction(const EndingAction&) = delete;
  EndingAction& operator=(const EndingAction&) = delete;

 private:
  EndingSignals& signals_;
};

}  // namespace p5
