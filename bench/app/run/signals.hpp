// SIGHUP, SIGINT and SIGTERM as events on a thread of their own, where files can be written: there is under a second
// for that before a launcher kills for good. A SIGHUP that is ignored from the start stays so.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "bench/base/error.hpp"

namespace p5 {

class TerminationSignals {
 public:
  // Make it first in main: threads made later inherit the blocked signals.
  TerminationSignals();
  ~TerminationSignals();
  TerminationSignals(const TerminationSignals&) = delete;  // the thread refers to this object
  TerminationSignals& operator=(const TerminationSignals&) = delete;

  // Gets the signal's name. The process then ends with what it returns; nullopt: it is at its end anyway.
  using Action = std::function<std::optional<ExitCode>(const std::string& signal)>;
  // Empty: nothing to do.
  void on_end(Action action);
  // From here on the process is at its end, which a signal hurries only when it does not come.
  void ends_with(ExitCode code);

 private:
  void wait();

  std::mutex mutex_;
  Action action_;
  std::optional<ExitCode> code_;  // at the end
  bool done_ = false;
  std::thread thread_;
};

// What is to be done when a signal ends the process, as long as this lives: what the action refers to has to live
// longer.
class TerminationHandler {
 public:
  TerminationHandler(TerminationSignals& signals, TerminationSignals::Action action) : signals_(signals) {
    signals_.on_end(std::move(action));
  }
  ~TerminationHandler() { signals_.on_end({}); }
  TerminationHandler(const TerminationHandler&) = delete;
  TerminationHandler& operator=(const TerminationHandler&) = delete;

 private:
  TerminationSignals& signals_;
};

}  // namespace p5
