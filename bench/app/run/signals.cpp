#include "bench/app/run/signals.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"

namespace p5 {

namespace {

// nohup has a process outlive its terminal.
bool ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

sigset_t ending() {
  sigset_t set;
  sigemptyset(&set);
  for (const auto& [signal, name] : termination_signals)
    if (signal != SIGHUP || !ignored(signal)) sigaddset(&set, signal);
  return set;
}

// For a process that is at its end, when a signal says that it hurries.
constexpr Seconds longest_end{2};

}  // namespace

TerminationSignals::TerminationSignals() {
  const sigset_t set = ending();
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

void TerminationSignals::ends_with(ExitCode code) {
  const std::lock_guard lock(mutex_);
  code_ = code;
}

void TerminationSignals::wait() {
  const sigset_t set = ending();
  std::optional<Clock::time_point> told;  // when the process was at its end
  for (;;) {
    const timespec look_again{.tv_sec = 0, .tv_nsec = 50'000'000};
    const int signal = sigtimedwait(&set, nullptr, &look_again);
    const std::lock_guard lock(mutex_);
    if (done_) return;
    if (told && since(*told).count > longest_end.count)
      std::_Exit(static_cast<int>(code_.value_or(ExitCode::unfinished)));
    const auto known = std::ranges::find(termination_signals, signal, [](const auto& each) { return each.first; });
    if (known == termination_signals.end()) continue;
    const bool at_end = code_.has_value();
    const auto code = action_ ? action_(known->second) : std::optional<ExitCode>();
    if (code || (!action_ && !at_end)) std::_Exit(static_cast<int>(code.value_or(ExitCode::unfinished)));
    if (!told) told = Clock::now();
  }
}

}  // namespace p5
