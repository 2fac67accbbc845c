#include "bench/base/thread.hpp"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/base/error.hpp"

namespace p5 {

static constexpr const char* remedy =
    "Raise the limit of processes (ulimit -u, or pids.max of the control group), which counts threads too, or of "
    "memory (ulimit -v)";

std::thread start_thread(std::function<void()> body) try {
  return std::thread(std::move(body));
} catch (const std::system_error& problem) {
  throw EnvironmentError(fmt::format("no thread can be started: {}. {}", problem.code().message(), remedy));
}

void provide_stacks() {
  constexpr std::size_t wanted = 8 << 20, of_thread = 1 << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < wanted) {
    limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
    ::setrlimit(RLIMIT_STACK, &limit);
  }
  pthread_attr_t attributes;
  if (::pthread_getattr_default_np(&attributes) != 0) return;
  std::size_t size = 0;
  if (::pthread_attr_getstacksize(&attributes, &size) == 0 && size < of_thread &&
      ::pthread_attr_setstacksize(&attributes, of_thread) == 0)
    ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

void prove_room_for_threads(int count, std::string_view what) {
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

}  // namespace p5
