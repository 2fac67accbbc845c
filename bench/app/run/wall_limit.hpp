// The time that a command has as a whole. When it is over the process ends, whatever blocks, and says what it waited
// for.
#pragma once

#include <functional>
#include <mutex>

#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"

namespace p5 {

class WallLimit {
 public:
  // The process is gone by `start` and `limit`. One that does not speak leaves it to others to say why, and gives them
  // a moment more.
  WallLimit(Clock::time_point start, Seconds limit, bool speaks);

  // Says what has not answered, on a thread of its own and in a second: then the process ends, with `unfinished`.
  using Action = std::function<void()>;
  void on_end(Action action);

 private:
  void end();

  const Seconds limit_;
  const bool speaks_;
  std::mutex mutex_;
  Action action_;
  Watchdog watchdog_;  // the last: its thread looks at all of this
};

// Until when waiting for a device makes sense under such a limit: what it ends with has to be told too.
Clock::time_point last_wait(Clock::time_point start, Seconds limit);

}  // namespace p5
