// Every end of the process other than the return of its command: a termination signal, the time limit of `check`, ranks
// that hang or are lost, and a teardown that does not return.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "bench/base/error.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"

namespace p5 {

// Temporary folders, which are removed wherever their process ends in its own code: at a signal too, when no
// destructor runs. Only SIGKILL leaves them.
class TemporaryFolders {
 public:
  void add(const std::filesystem::path& folder);
  void remove(const std::filesystem::path& folder);
  void remove_all();  // from any thread; what cannot be removed stays

 private:
  std::mutex mutex_;
  std::set<std::filesystem::path> folders_;
};

class Shutdown {
 public:
  // Actions of a command before the process ends. Both run on threads of their own, which can write files.
  struct Actions {
    // Receives the signal's name and returns the exit code; nullopt: the command is about to end by itself.
    std::function<std::optional<ExitCode>(const std::string& signal)> on_signal = {};
    // Reports what has not answered within the time limit and returns the exit code; the process ends 0.7 s later at
    // the latest. nullopt: nothing is known that differs from `unfinished`.
    std::function<std::optional<ExitCode>()> on_limit = {};
  };

  Shutdown() = default;
  ~Shutdown();
  Shutdown(const Shutdown&) = delete;  // its threads refer to this object
  Shutdown& operator=(const Shutdown&) = delete;

  // Handles SIGHUP, SIGINT, SIGTERM and the like from here on, on a thread: a launcher kills under a second later. Call
  // it before other threads start, which inherit the blocked signals, and after forking processes. A SIGHUP that is
  // ignored at the start stays ignored.
  void handle_signals();
  // Time limit of the whole command: the process and all that it started end by `start` plus `limit`, whatever blocks.
  // With `prints_reason` false another process prints the reason, and this one ends a moment later.
  void limit_time(Clock::time_point start, Seconds limit, bool prints_reason);
  // Limits the start of the job (MPI_Init), from here on until has_started(), because MPI itself waits for missing
  // ranks without a bound: after `limit` the process ends with `environment`. With `prints_reason` false another
  // process prints the reason, and this one ends a moment later.
  void limit_start(Seconds limit, bool prints_reason);
  void has_started();
  // Without actions a signal ends the process with `unfinished`. Objects that actions refer to must exist until others
  // are set, which waits for an action that runs.
  void set_actions(Actions actions);
  // The command is done and nothing changes its exit code any more: a signal ends the process only if it does not exit
  // soon.
  void set_final_exit_code(ExitCode code) { code_ = code; }
  // For errors after the command is done, which do not change its exit code any more.
  ExitCode final_exit_code_or(ExitCode code) const { return code_.load().value_or(code); }
  // Folders that the command removes itself unless the process is ended before.
  TemporaryFolders& temporary() { return temporary_; }
  // Later steps, such as MPI_Finalize, may wait for ranks that are gone: the process ends after `limit`.
  void limit_teardown(const std::string& step, Seconds limit);

  // Ends the process without destructors and MPI_Finalize, which would wait for other ranks. Where the command has a
  // time limit, ends all that it started first.
  [[noreturn]] void exit(ExitCode code);

 private:
  void wait_for_signals();
  void end_within(const std::string& step, Seconds limit);
  [[noreturn]] void end_in_time(const Watchdog::Hang& hang);
  [[noreturn]] void end_start(const Watchdog::Hang& hang);
  void print_reason(const std::string& reason) const;

  std::mutex mutex_;  // held while an action runs
  Actions actions_;
  bool done_ = false;
  TemporaryFolders temporary_;
  std::atomic<std::optional<ExitCode>> code_{};  // the final exit code
  std::thread signals_;
  // Threads that end the process read these while an action runs.
  std::atomic<Seconds> limit_{};  // of the command; 0: none
  std::atomic<bool> prints_reason_ = true;
  std::optional<Watchdog> start_;     // while the job starts
  Clock::time_point deadline_{};      // of what the watchdog watches
  std::optional<Watchdog> watchdog_;  // declared last: its thread uses all of the above
};

// The part of a time limit for finding the device that did not answer, and for the report.
Seconds time_to_report(Seconds limit);
// The part in which devices are waited for, and its end; the rest is time_to_report().
Seconds last_wait(Seconds limit);
Clock::time_point last_wait_deadline(Clock::time_point start, Seconds limit);

}  // namespace p5
