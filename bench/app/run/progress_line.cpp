#include "bench/app/run/progress_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "bench/base/clock.hpp"
#include "bench/base/console.hpp"

namespace p5 {

namespace {

// Under mpirun stderr is a pipe to it: look at where the launcher's own stderr goes.
bool stderr_is_terminal() {
  if (isatty(STDERR_FILENO)) return true;
  std::error_code problem;
  const auto target = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/2", ::getppid()), problem);
  return !problem && (target.string().starts_with("/dev/pts/") || target.string().starts_with("/dev/tty"));
}

}  // namespace

ProgressLine::ProgressLine(bool wanted) : visible_(wanted && stderr_is_terminal()) {}

void ProgressLine::show(const Case& c, const RunProgress& standing) {
  if (visible_ && since(shown_).count > 0.2)
    print(fmt::format("{:>3} %  {} of {}, {}, about {} left", 100 * standing.index / standing.count, standing.index + 1,
                      standing.count, describe(c), to_text(standing.left)));
}

void ProgressLine::clear() {
  if (visible_) print("");
}

void ProgressLine::print(const std::string& line) {
  tell(fmt::format("\r\033[K{}", line));
  shown_ = Clock::now();
}

}  // namespace p5
