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

// Returns 0 or errno. Waits on a descriptor that another process made non-blocking.
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

// Limits the length of a message that may quote any input.
std::string abbreviated(std::string text) {
  constexpr std::size_t most = 4000, begin = 3000, end = 500;
  if (text.size() <= most) return text;
  const std::string middle = fmt::format(" [{} bytes left out] ", text.size() - begin - end);
  return printable_lines(text.replace(begin, text.size() - begin - end, middle));
}

}  // namespace

void prepare_console() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    // open() returns the lowest free descriptor, which is this one. It is read-only, so that writing fails and is
    // noticed.
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) (void)!::open("/dev/null", O_RDONLY);
  std::signal(SIGPIPE, SIG_IGN);
}

bool print_result(std::string_view text) {
  const int problem = write_all(STDOUT_FILENO, text);
  if (problem == 0 || problem == EPIPE) return true;
  print_error(fmt::format("the result could not be printed: {}", std::strerror(problem)));
  return false;
}

ExitCode print_result_for(ExitCode code, std::string_view text) {
  const bool lost = !print_result(text);
  return lost ? worse(code, ExitCode::environment) : code;
}

namespace {

constexpr const char* rank_variable = "PMIX_RANK";

std::string process_file(int process, const char* file) {
  std::ifstream in(fmt::format("/proc/{}/{}", process, file));
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The nearest ancestor process outside the job; 0 where it cannot be found.
int launcher_of_job() {
  int process = ::getppid();
  while (process > 1 && process_file(process, "environ").find(rank_variable) != std::string::npos) {
    // The form is "PID (NAME) STATE PARENT ..."; NAME may contain any character.
    const std::string status = process_file(process, "stat");
    std::istringstream rest(status.substr(std::min(status.rfind(')') + 1, status.size())));
    std::string state;
    if (!(rest >> state >> process)) return 0;
  }
  return process > 1 ? process : 0;
}

}  // namespace

// A launcher gives its ranks pseudo-terminals or pipes, independent of its own output.
bool leads_to_terminal(int descriptor) {
  if (!std::getenv(rank_variable)) return ::isatty(descriptor) == 1;
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

void print_error(std::string_view text) {
  print_stderr(fmt::format("p5bench: {}\n", abbreviated(printable_lines(text))));
}

void print_stderr(std::string_view text) { write_all(STDERR_FILENO, text); }

}  // namespace p5
