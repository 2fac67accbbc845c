#include "bench/base/console.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "bench/base/text.hpp"

namespace p5 {

namespace {

// 0, or why not all of it went out. A descriptor that others made non-blocking is waited for.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd ready{.fd = descriptor, .events = POLLOUT, .revents = 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// A message may quote whatever input there was.
std::string in_short(std::string text) {
  constexpr std::size_t most = 4000, begin = 3000, end = 500;
  if (text.size() <= most) return text;
  const std::string middle = fmt::format(" [{} bytes left out] ", text.size() - begin - end);
  return printable_lines(text.replace(begin, text.size() - begin - end, middle));
}

}  // namespace

void prepare_console() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    // The lowest free one is this one. Not for writing, so that what is printed is known to be lost.
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) (void)!::open("/dev/null", O_RDONLY);
  std::signal(SIGPIPE, SIG_IGN);
}

bool say(std::string_view text) {
  const int problem = write_all(STDOUT_FILENO, text);
  if (problem == 0 || problem == EPIPE) return true;
  complain(fmt::format("the result could not be printed: {}", std::strerror(problem)));
  return false;
}

ExitCode said(ExitCode code, std::string_view text) {
  const bool lost = !say(text);
  return lost ? worse(code, ExitCode::environment) : code;
}

namespace {

constexpr const char* variable_of_ranks = "PMIX_RANK";

std::string text_of_process(int process, const char* file) {
  std::ifstream in(fmt::format("/proc/{}/{}", process, file));
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The nearest ancestor that is no process of the job; 0 where it cannot be found.
int launcher_of_job() {
  int process = ::getppid();
  while (process > 1 && text_of_process(process, "environ").find(variable_of_ranks) != std::string::npos) {
    // "PID (NAME) STATE PARENT ...", where the name may hold anything.
    const std::string status = text_of_process(process, "stat");
    std::istringstream rest(status.substr(std::min(status.rfind(')') + 1, status.size())));
    std::string state;
    if (!(rest >> state >> process)) return 0;
  }
  return process > 1 ? process : 0;
}

}  // namespace

// A launcher gives its ranks pseudo-terminals or pipes, whatever it writes to itself.
bool leads_to_terminal(int descriptor) {
  if (!std::getenv(variable_of_ranks)) return ::isatty(descriptor) == 1;
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || S_ISREG(status.st_mode)) return false;
  std::error_code problem;
  const auto target =
      std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", launcher_of_job(), descriptor), problem);
  return !problem && (target.string().starts_with("/dev/pts/") || target.string().starts_with("/dev/tty"));
}

bool stdout_takes_colours() {
  const char* const refused = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  if ((refused && *refused) || !terminal || !*terminal || std::string_view(terminal) == "dumb") return false;
  return leads_to_terminal(STDOUT_FILENO);
}

void complain(std::string_view text) { tell(fmt::format("p5bench: {}\n", in_short(printable_lines(text)))); }

void tell(std::string_view text) { write_all(STDERR_FILENO, text); }

}  // namespace p5
