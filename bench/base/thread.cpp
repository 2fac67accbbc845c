#include "bench/base/thread.hpp"

#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"

namespace p5 {

std::thread start_thread(std::function<void()> body) try {
  return std::thread(std::move(body));
} catch (const std::system_error& problem) {
  throw EnvironmentError(
      fmt::format("no thread can be started: {}. Raise the limit of processes (ulimit -u), which counts threads too, "
                  "or of memory (ulimit -v)",
                  problem.code().message()));
}

}  // namespace p5
