// Threads, the watchdog, and the process's limits and signals.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/units.hpp"

namespace p5 {

// Throws EnvironmentError where limits allow no further thread.
std::thread start_thread(std::function<void()> body);

// The result of a call that a file system may hold for ever, or nothing if it does not end within `limit`. The call
// runs on a thread of its own, which is left behind then, so that it must not refer to what the caller owns; where no
// thread can be started, on the caller's. Rethrows its exception.
template <class Result>
std::optional<Result> call_within(Seconds limit, std::function<Result()> call) {
  const auto task = std::make_shared<std::packaged_task<Result()>>(std::move(call));
  std::future<Result> result = task->get_future();
  try {
    start_thread([task] { (*task)(); }).detach();
  } catch (const EnvironmentError&) {
    (*task)();
  }
  if (result.wait_for(std::chrono::duration<double>(limit.count)) != std::future_status::ready) return std::nullopt;
  return result.get();
}

// Raises a stack limit (ulimit -s) that is lower than libraries expect as far as permitted, and gives threads started
// from here on stacks of at least 1 MiB.
void raise_stack_limits();

// Starts `count` threads at once and ends them again; child processes count against the same limits. Throws
// EnvironmentError that names `what` needs them, the limits, and the number that started.
void check_thread_limit(int count, std::string_view what);

// The times in which this process itself stood still, as where its whole job is suspended: looks of a loop that should
// follow each other within a second are far apart then. What it waits for may have stood still as well.
class Pauses {
 public:
  explicit Pauses(Clock::time_point now = Clock::now()) : looked_(now) {}
  // The time since the last look, or the creation, if the process stood still in it; else 0.
  Clock::duration look(Clock::time_point now = Clock::now());

 private:
  Clock::time_point looked_;
};

// The pauses that may prolong one wait, so that a machine which is slow to the extreme ends it too.
inline constexpr int most_pauses = 10;

// Time in which the process itself stands still does not count.
class Watchdog {
 public:
  struct Hang {
    std::string step;
    Seconds limit;
    std::function<bool()> lasts;  // false once the step has ended
  };
  // Called on the watchdog's thread; the watch continues when it returns.
  using OnHang = std::function<void(const Hang& hang)>;
  explicit Watchdog(OnHang on_hang);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;  // the thread refers to this object
  Watchdog& operator=(const Watchdog&) = delete;

  // A step starts that has to end, by the next call, within `limit`.
  void arm(std::string step, Seconds limit);
  void disarm();
  bool disarmed() const;

 private:
  void watch();

  OnHang on_hang_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string step_;
  Seconds limit_{};
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::time_point::max();
  int pauses_ = 0;           // that prolonged the step
  std::uint64_t steps_ = 0;  // calls of arm() and disarm()
  bool done_ = false;
  std::thread thread_;
};

// Arms a watchdog for its own lifetime; null: none.
class WatchdogScope {
 public:
  WatchdogScope(Watchdog* watchdog, const std::string& step, Seconds limit) : watchdog_(watchdog) {
    if (watchdog_) watchdog_->arm(step, limit);
  }
  ~WatchdogScope() {
    if (watchdog_) watchdog_->disarm();
  }
  WatchdogScope(const WatchdogScope&) = delete;
  WatchdogScope& operator=(const WatchdogScope&) = delete;

 private:
  Watchdog* watchdog_;
};

// Share of the time in which a process was ready to run that its main thread waited for a processor core; nullopt where
// the kernel does not count it (/proc/PID/schedstat) or the process is gone.
std::optional<double> share_of_waiting(pid_t process);
// The same from the file's text.
std::optional<double> share_of_waiting_in(const std::string& schedstat);

// The soft limit of open files (RLIMIT_NOFILE) at the start of the process, before anything raised it.
std::optional<std::uint64_t> initial_open_file_limit();

// Raises the soft limit of open files so that `connections` sockets fit besides the files that are open and this
// program's own; child processes inherit it. Returns "" on success, else what is missing with the remedy, when the hard
// limit is too low. The first rank of a large job needs one connection to each other rank.
std::string raise_open_file_limit(std::uint64_t connections);

inline constexpr std::array<std::pair<int, const char*>, 8> termination_signals{{{SIGHUP, "SIGHUP"},
                                                                                 {SIGINT, "SIGINT"},
                                                                                 {SIGQUIT, "SIGQUIT"},
                                                                                 {SIGALRM, "SIGALRM"},
                                                                                 {SIGTERM, "SIGTERM"},
                                                                                 {SIGUSR1, "SIGUSR1"},
                                                                                 {SIGUSR2, "SIGUSR2"},
                                                                                 {SIGXCPU, "SIGXCPU"}}};

}  // namespace p5
