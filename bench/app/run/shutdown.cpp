#include "bench/app/run/shutdown.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "bench/backends/worker_process.hpp"
#include "bench/base/console.hpp"
#include "reports/atomic_file.hpp"

namespace p5 {

void TemporaryFolders::add(const std::filesystem::path& folder) {
  const std::lock_guard lock(mutex_);
  folders_.insert(folder);
}

void TemporaryFolders::remove(const std::filesystem::path& folder) {
  const std::lock_guard lock(mutex_);
  std::error_code problem;
  std::filesystem::remove_all(folder, problem);
  folders_.erase(folder);
}

void TemporaryFolders::remove_all() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;  // a removal that does not return must not keep the process
  std::error_code problem;
  for (const std::filesystem::path& folder : folders_) std::filesystem::remove_all(folder, problem);
}

namespace {

// The longest time that a process that is about to end by itself may take after a signal.
constexpr Seconds longest_end{2};
// Parts of the time limit: for the report of what has not answered, and for ending all processes that were started.
constexpr Seconds report_time{0.7}, cleanup_time{1.3};
// At the start of the job, ranks that do not print the reason wait this much longer, so that the one that does ends
// first.
constexpr Seconds start_grace{15};
// The part of the limit for finding the device that did not answer and for the report: at least this time, and this
// share.
constexpr Seconds diagnosis_time{5};
constexpr double diagnosis_share = 0.25;

// True if SIGHUP was ignored when the process started: nohup does that, so that a process outlives its terminal. The
// question is asked before the constructors of libraries run, because that of UCX, which Open MPI 5 loads, sets a
// handler of its own.
bool hangup_was_ignored = false;

void note_hangup() {
  struct sigaction at_start {};
  hangup_was_ignored = sigaction(SIGHUP, nullptr, &at_start) == 0 && at_start.sa_handler == SIG_IGN;
}

[[gnu::used, gnu::section(".preinit_array")]] void (*const before_libraries)() = note_hangup;

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const auto& [signal, name] : termination_signals) sigaddset(&set, signal);
  return set;
}

}  // namespace

Shutdown::~Shutdown() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  if (signals_.joinable()) signals_.join();
}

void Shutdown::handle_signals() {
  const sigset_t set = handled_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = start_thread([this] { wait_for_signals(); });
}

void Shutdown::limit_time(Clock::time_point start, Seconds limit, bool prints_reason) {
  limit_ = limit;
  prints_reason_ = prints_reason;
  const double left = std::max(limit.count - cleanup_time.count - since(start).count, 0.0);
  end_within("the command", {left + (prints_reason ? 0 : cleanup_time.count)});
}

void Shutdown::limit_start(Seconds limit, bool prints_reason) {
  prints_reason_ = prints_reason;
  start_.emplace([this](const Watchdog::Hang& hang) { end_start(hang); });
  start_->arm("the start of the job", {limit.count + (prints_reason ? 0 : start_grace.count)});
}

void Shutdown::has_started() {
  if (!start_) return;
  start_.reset();
  prints_reason_ = true;
}

void Shutdown::end_start(const Watchdog::Hang& hang) {
  print_reason(fmt::format(
      "the ranks did not start the job within {} (MPI_Init): one of them is stopped or did not start, or the "
      "launcher's connections between the hosts do not work. Look at p5bench's processes on all hosts (ps), "
      "and let mpirun use the network by which all hosts reach each other: --mca oob_tcp_if_include eth0",
      to_text(hang.limit)));
  exit(ExitCode::environment);
}

void Shutdown::limit_teardown(const std::string& step, Seconds limit) {
  const double left = limit_.load().count > 0 ? -since(deadline_).count : limit.count;
  end_within(step, {std::clamp(left, 0.0, limit.count)});
}

void Shutdown::end_within(const std::string& step, Seconds limit) {
  deadline_ = deadline_in(limit);
  if (!watchdog_) watchdog_.emplace([this](const Watchdog::Hang& hang) { end_in_time(hang); });
  watchdog_->arm(step, limit);
}

void Shutdown::set_actions(Actions actions) {
  const std::lock_guard lock(mutex_);
  actions_ = std::move(actions);
}

void Shutdown::exit(ExitCode code) {
  temporary_.remove_all();
  reports::remove_unfinished_files();
  if (limit_.load().count > 0) end_descendants();
  std::_Exit(static_cast<int>(code));
}

void Shutdown::wait_for_signals() {
  const sigset_t set = handled_signals();
  std::optional<Clock::time_point> first_signal;  // time of the first signal to a process that is finishing
  for (;;) {
    const timespec look_again{.tv_sec = 0, .tv_nsec = 50'000'000};
    const int signal = sigtimedwait(&set, nullptr, &look_again);
    const std::lock_guard lock(mutex_);
    if (done_) return;
    const std::optional<ExitCode> final_code = code_;
    if (first_signal && since(*first_signal).count > longest_end.count) exit(final_code.value_or(ExitCode::unfinished));
    const auto known = std::ranges::find(termination_signals, signal, [](const auto& each) { return each.first; });
    if (known == termination_signals.end() || (signal == SIGHUP && hangup_was_ignored)) continue;
    const auto code = actions_.on_signal ? actions_.on_signal(known->second) : std::nullopt;
    if (code || (!actions_.on_signal && !final_code)) exit(code.value_or(ExitCode::unfinished));
    if (!first_signal) first_signal = Clock::now();
  }
}

// The command's action may hang too, so it runs on a thread of its own.
void Shutdown::end_in_time(const Watchdog::Hang& hang) {
  struct Reported {
    std::atomic<std::optional<ExitCode>> code;
    std::atomic<bool> done{false};
  };
  const auto reported = std::make_shared<Reported>();
  const Seconds of_command = limit_;
  const std::string limit = to_text(of_command.count > 0 ? of_command : hang.limit);
  start_thread([this, hang, reported, limit] {
    const std::lock_guard lock(mutex_);
    if (code_.load())
      print_reason(fmt::format("no progress in {} within {}", hang.step, to_text(hang.limit)));
    else if (actions_.on_limit)
      reported->code = actions_.on_limit();
    else
      print_reason(fmt::format("the ranks did not start the job within {}", limit));
    reported->done = true;
  }).detach();
  const auto start = Clock::now();
  while (!reported->done && since(start).count < report_time.count)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (!reported->done) print_reason(fmt::format("not finished within {}", limit));
  exit(code_.load().value_or(reported->code.load().value_or(ExitCode::unfinished)));
}

void Shutdown::print_reason(const std::string& reason) const {
  if (prints_reason_) print_error(reason);
}

Seconds time_to_report(Seconds limit) { return {std::max(diagnosis_time.count, diagnosis_share * limit.count)}; }

Seconds last_wait(Seconds limit) { return {limit.count - time_to_report(limit).count}; }

Clock::time_point last_wait_deadline(Clock::time_point start, Seconds limit) { return later(start, last_wait(limit)); }

}  // namespace p5
