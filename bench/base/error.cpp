#include "bench/base/error.hpp"

#include <algorithm>
#include <array>
#include <new>

namespace p5 {

ExitCode worse(ExitCode a, ExitCode b) {
  constexpr std::array order{ExitCode::usage, ExitCode::wrong_data,   ExitCode::unfinished, ExitCode::environment,
                             ExitCode::slow,  ExitCode::inconclusive, ExitCode::ok};
  return std::min(a, b,
                  [&](ExitCode x, ExitCode y) { return std::ranges::find(order, x) < std::ranges::find(order, y); });
}

std::string describe(const std::exception& problem) {
  if (!dynamic_cast<const std::bad_alloc*>(&problem)) return problem.what();
  return "there is no memory left. Raise the limit of a process (ulimit -v) or of the job, lower --max, or start fewer "
         "ranks per host";
}

}  // namespace p5
