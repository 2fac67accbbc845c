// SIGINT and SIGTERM as events on a thread of their own, where files can be written: there is under a second for that
// before a launcher kills for good.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "bench/base/error.hpp"

namespace p5 {

class EndingSignals {
 public:
  // Make it first in main: threads made later inherit the blocked signals.
  EndingSignals();
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;  // the thread refers to this object
  EndingSignals& operator=(const EndingSignals&) = delete;

  using Action = std::function<ExitCode(const std::string& signal)>;
  // Called with the signal's name; the process then ends with what it returns. Empty: nothing to do.
  void on_end(Action action);
  // What the process ends with where there is nothing to do; until it is known, `unfinished`.
  void ends_with(ExitCode code);

 private:
  void wait();

  std::mutex mutex_;
  Action action_;
  ExitCode code_ = ExitCode::unfinished;
  bool done_ = false;
  std::thread thread_;
};

// What is to be done when a signal ends the process, as long as this lives: what the action refers to has to live
// longer.
class EndingAction {
 public:
  EndingAction(EndingSignals& signals, EndingSignals::Action action) : signals_(signals) {
    signals_.on_end(std::move(action));
  }
  ~EndingAction() { signals_.on_end({}); }
  EndingAction(const EndingAction&) = delete;
  EndingAction& operator=(const EndingAction&) = delete;

 private:
  EndingSignals& signals_;
};

}  // namespace p5
