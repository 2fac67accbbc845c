#include "bench/app/run/termination.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <thread>
#include <utility>

#include "bench/backends/descendants.hpp"
#include "bench/base/console.hpp"
#include "bench/base/error.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"

namespace p5 {

namespace {

// nohup ignores SIGHUP so that a process outlives its terminal.
bool ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

sigset_t ending_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const auto& [signal, name] : termination_signals)
    if (signal != SIGHUP || !ignored(signal)) sigaddset(&set, signal);
  return set;
}

// Time to exit for a process that is finishing when a signal arrives.
constexpr Seconds longest_end{2};

}  // namespace

TerminationSignals::TerminationSignals() {
  const sigset_t set = ending_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = start_thread([this] { wait(); });
}

TerminationSignals::~TerminationSignals() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  thread_.join();
}

void TerminationSignals::on_end(Action action) {
  const std::lock_guard lock(mutex_);
  action_ = std::move(action);
}

void TerminationSignals::set_final_exit_code(ExitCode code) {
  const std::lock_guard lock(mutex_);
  code_ = code;
}

void TerminationSignals::wait() {
  const sigset_t set = ending_set();
  std::optional<Clock::time_point> first_signal;  // time of the first signal to a process that is finishing
  for (;;) {
    const timespec look_again{.tv_sec = 0, .tv_nsec = 50'000'000};
    const int signal = sigtimedwait(&set, nullptr, &look_again);
    const std::lock_guard lock(mutex_);
    if (done_) return;
    if (first_signal && since(*first_signal).count > longest_end.count)
      std::_Exit(static_cast<int>(code_.value_or(ExitCode::unfinished)));
    const auto known = std::ranges::find(termination_signals, signal, [](const auto& each) { return each.first; });
    if (known == termination_signals.end()) continue;
    const bool at_end = code_.has_value();
    const auto code = action_ ? action_(known->second) : std::optional<ExitCode>();
    if (code || (!action_ && !at_end)) std::_Exit(static_cast<int>(code.value_or(ExitCode::unfinished)));
    if (!first_signal) first_signal = Clock::now();
  }
}

namespace {

// Parts of the limit: to report what has not answered, and to end all processes that were started.
constexpr Seconds report_time{0.7}, cleanup_time{1.3};
// Minimum part of the limit for finding the device that did not answer, and for the report.
constexpr Seconds diagnosis_time{5};
constexpr double diagnosis_share = 0.25;

}  // namespace

WallLimit::WallLimit(Clock::time_point start, Seconds limit, bool prints_reason)
    : limit_(limit), prints_reason_(prints_reason), watchdog_([this](const Watchdog::Hang&) { end(); }) {
  const double left = limit.count - cleanup_time.count - since(start).count;
  watchdog_.arm("all of it", {std::max(left, 0.0) + (prints_reason ? 0 : cleanup_time.count)});
}

void WallLimit::on_end(Action action) {
  const std::lock_guard lock(mutex_);
  action_ = std::move(action);
}

// The action may hang too, so it has a thread of its own.
void WallLimit::end() {
  Action action;
  {
    const std::lock_guard lock(mutex_);
    action = action_;
  }
  const auto reported = std::make_shared<std::atomic<bool>>(!action);
  if (action)
    start_thread([action, reported] {
      action();
      reported->store(true);
    }).detach();
  else if (prints_reason_)
    print_error(fmt::format("nothing began within {}: the ranks do not come together", to_text(limit_)));
  const auto start = Clock::now();
  while (!reported->load() && since(start).count < report_time.count)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (!reported->load() && prints_reason_) print_error(fmt::format("not finished within {}", to_text(limit_)));
  end_descendants();
  std::_Exit(static_cast<int>(ExitCode::unfinished));
}

Clock::time_point last_wait_deadline(Clock::time_point start, Seconds limit) {
  const double waiting = limit.count - std::max(diagnosis_time.count, diagnosis_share * limit.count);
  return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(waiting));
}

}  // namespace p5
