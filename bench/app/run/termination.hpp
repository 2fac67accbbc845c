// Ends of a command from outside: SIGHUP, SIGINT and SIGTERM, or its wall limit. Signals are events on a
// thread of their own, which can write files: a launcher kills under a second later. A SIGHUP that is ignored at the
// start stays ignored.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"

namespace p5 {

class TerminationSignals {
 public:
  // Construct it first in main: later threads inherit the blocked signals.
  TerminationSignals();
  ~TerminationSignals();
  TerminationSignals(const TerminationSignals&) = delete;  // the thread refers to this object
  TerminationSignals& operator=(const TerminationSignals&) = delete;

  // Receives the signal's name and returns the exit code to end the process with; nullopt: the process is finishing
  // already.
  using Action = std::function<std::optional<ExitCode>(const std::string& signal)>;
  // An empty action removes the handler.
  void on_end(Action action);
  // Marks the process as finishing: a signal then ends it only if it does not exit soon.
  void set_final_exit_code(ExitCode code);

 private:
  void wait();

  std::mutex mutex_;
  Action action_;
  std::optional<ExitCode> code_;  // set when the process is finishing
  bool done_ = false;
  std::thread thread_;
};

// Installs an action for its own lifetime; objects that the action refers to must outlive it.
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

// The time limit of a whole command.
class WallLimit {
 public:
  // Time limit of a whole command. The process ends by `start` plus `limit`, whatever blocks. With `prints_reason`
  // false other processes print the reason, and this one ends a moment later.
  WallLimit(Clock::time_point start, Seconds limit, bool prints_reason);

  // Reports what has not answered, on a thread of its own, within a second; then the process ends with `unfinished`.
  using Action = std::function<void()>;
  void on_end(Action action);

 private:
  void end();

  const Seconds limit_;
  const bool prints_reason_;
  std::mutex mutex_;
  Action action_;
  Watchdog watchdog_;  // declared last: its thread uses all of the above
};

// The last time to wait for a device under such a limit; the rest is for the report.
Clock::time_point last_wait_deadline(Clock::time_point start, Seconds limit);

}  // namespace p5
