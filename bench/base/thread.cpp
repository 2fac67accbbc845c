#include "bench/base/thread.hpp"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/units.hpp"

namespace p5 {

static constexpr const char* remedy =
    "Raise the limit of processes (ulimit -u, or pids.max of the control group), which counts threads too, or of "
    "memory (ulimit -v)";

std::thread start_thread(std::function<void()> body) try {
  return std::thread(std::move(body));
} catch (const std::system_error& problem) {
  throw EnvironmentError(fmt::format("no thread can be started: {}. {}", problem.code().message(), remedy));
}

void raise_stack_limits() {
  constexpr std::size_t wanted = 8 << 20, thread_stack = 1 << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < wanted) {
    limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
    ::setrlimit(RLIMIT_STACK, &limit);
  }
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) != 0) return;
  std::size_t size = 0;
  if (::pthread_attr_getstacksize(&attributes, &size) == 0 && size < thread_stack &&
      ::pthread_attr_setstacksize(&attributes, thread_stack) == 0)
    ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

void check_thread_limit(int count, std::string_view what) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::vector<std::thread> threads;
  std::string problem;
  try {
    for (int i = 0; i < count; ++i)
      threads.emplace_back([&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return done; });
      });
  } catch (const std::system_error& failure) {
    problem = failure.code().message();
  }
  {
    const std::lock_guard lock(mutex);
    done = true;
  }
  changed.notify_all();
  for (std::thread& each : threads) each.join();
  if (!problem.empty())
    throw EnvironmentError(fmt::format("{} takes {} threads and processes, of which {} can be started here: {}. {}",
                                       what, count, threads.size(), problem, remedy));
}

Clock::duration Pauses::look(Clock::time_point now) {
  constexpr auto least = std::chrono::seconds(2);
  const Clock::duration between = now - std::exchange(looked_, now);
  return between > least ? between : Clock::duration::zero();
}

Watchdog::Watchdog(OnHang on_hang) : on_hang_(std::move(on_hang)), thread_(start_thread([this] { watch(); })) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::arm(std::string step, Seconds limit) {
  const std::lock_guard lock(mutex_);
  step_ = std::move(step);
  limit_ = limit;
  ++steps_;
  pauses_ = 0;
  deadline_ = deadline_in(limit);
}

void Watchdog::disarm() {
  const std::lock_guard lock(mutex_);
  deadline_ = Clock::time_point::max();
  ++steps_;
}

bool Watchdog::disarmed() const {
  const std::lock_guard lock(mutex_);
  return deadline_ == Clock::time_point::max();
}

// The watchdog polls five times a second: a notification for each step would be too slow for steps of microseconds.
void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  Pauses pauses;
  while (!done_) {
    const Clock::duration paused = pauses.look();
    if (paused.count() > 0 && deadline_ != Clock::time_point::max() && pauses_++ < most_pauses)
      deadline_ = std::min(deadline_ + paused, deadline_in(limit_));
    if (Clock::now() > deadline_) {
      const Hang hang{step_, limit_, [this, late = steps_] {
                        const std::lock_guard again(mutex_);
                        return steps_ == late && !done_;
                      }};
      lock.unlock();
      on_hang_(hang);
      lock.lock();
      pauses.look();
      continue;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(200));
  }
}

namespace {

// Files for logs, journals, libraries and the pipes to a worker, with a margin.
constexpr std::uint64_t reserved_files = 64;

std::optional<rlimit> open_file_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? std::optional(limit) : std::nullopt;
}

std::uint64_t count_open_files() {
  std::error_code problem;
  const std::filesystem::directory_iterator files("/proc/self/fd", problem);
  return problem ? 0 : static_cast<std::uint64_t>(std::distance(begin(files), end(files)));
}

}  // namespace

std::optional<std::uint64_t> initial_open_file_limit() {
  static const std::optional<rlimit> limit = open_file_limit();
  return limit ? std::optional<std::uint64_t>(limit->rlim_cur) : std::nullopt;
}

std::string raise_open_file_limit(std::uint64_t connections) {
  initial_open_file_limit();  // remembers the limit before it changes
  std::optional<rlimit> limit = open_file_limit();
  const std::uint64_t needed = count_open_files() + reserved_files + connections;
  if (!limit || limit->rlim_cur >= needed) return "";
  if (limit->rlim_max < needed)
    return fmt::format(
        "a process may open {} files (ulimit -Hn), and the connections to {} ranks of other hosts need {}. Raise it, "
        "for "
        "instance to 65536: /etc/security/limits.d for logins, LimitNOFILE of slurmd or the kubelet, --ulimit "
        "nofile=65536 for docker",
        limit->rlim_max, connections, needed);
  limit->rlim_cur = needed;
  ::setrlimit(RLIMIT_NOFILE, &*limit);
  return "";
}

std::optional<double> share_of_waiting_in(const std::string& schedstat) {
  double running = 0, waiting = 0;  // ns
  if (!(std::istringstream(schedstat) >> running >> waiting) || !(running + waiting > 0)) return std::nullopt;
  return waiting / (running + waiting);
}

std::optional<double> share_of_waiting(pid_t process) {
  std::string text;
  std::ifstream file(fmt::format("/proc/{}/schedstat", process));
  std::getline(file, text);
  return share_of_waiting_in(text);
}

}  // namespace p5
