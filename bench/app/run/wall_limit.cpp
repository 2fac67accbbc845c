#include "bench/app/run/wall_limit.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "bench/backends/descendants.hpp"
#include "bench/base/console.hpp"
#include "bench/base/error.hpp"
#include "bench/base/thread.hpp"

namespace p5 {

namespace {

// Of the limit: to say what has not answered, and to end all that was started.
constexpr Seconds to_tell{0.7}, to_end{1.3};
// Of the limit, at least: to find out which device did not answer, and to write of it.
constexpr Seconds to_find_out{5};
constexpr double share_to_find_out = 0.25;

}  // namespace

WallLimit::WallLimit(Clock::time_point start, Seconds limit, bool speaks)
    : limit_(limit), speaks_(speaks), watchdog_([this](const Watchdog::Hang&) { end(); }) {
  const double left = limit.count - to_end.count - since(start).count;
  watchdog_.arm("all of it", {std::max(left, 0.0) + (speaks ? 0 : to_end.count)});
}

void WallLimit::on_end(Action action) {
  const std::lock_guard lock(mutex_);
  action_ = std::move(action);
}

// What tells may hang like anything else.
void WallLimit::end() {
  Action action;
  {
    const std::lock_guard lock(mutex_);
    action = action_;
  }
  const auto told = std::make_shared<std::atomic<bool>>(!action);
  if (action)
    start_thread([action, told] {
      action();
      told->store(true);
    }).detach();
  else if (speaks_)
    print_error(fmt::format("nothing began within {}: the ranks do not come together", to_text(limit_)));
  const auto start = Clock::now();
  while (!told->load() && since(start).count < to_tell.count)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (!told->load() && speaks_) print_error(fmt::format("not finished within {}", to_text(limit_)));
  end_descendants();
  std::_Exit(static_cast<int>(ExitCode::unfinished));
}

Clock::time_point last_wait(Clock::time_point start, Seconds limit) {
  const double waiting = limit.count - std::max(to_find_out.count, share_to_find_out * limit.count);
  return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(waiting));
}

}  // namespace p5
