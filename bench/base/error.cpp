#include "bench/base/error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
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

std::string describe_errno(int number) {
  const std::string message = std::strerror(number);
  if (number == EMFILE) return message + "; raise the limit of open files (ulimit -n)";
  if (number == ENFILE) return message + "; raise the limit of open files of the host (sysctl fs.file-max)";
  return message;
}

}  // namespace p5
