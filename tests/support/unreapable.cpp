// Preloaded into supervisors by tests: for the rank P5BENCH_UNREAPABLE_RANK, killed workers never end, as when a driver
// blocks them: waitpid() never returns them.
#include <dlfcn.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace {

bool holds_workers() {
  const char *const wanted = std::getenv("P5BENCH_UNREAPABLE_RANK"), *const own = std::getenv("OMPI_COMM_WORLD_RANK");
  return wanted && own && std::strcmp(wanted, own) == 0;
}

pid_t held = 0;

}  // namespace

extern "C" int kill(pid_t pid, int signal) noexcept {
  static const auto next = reinterpret_cast<int (*)(pid_t, int)>(dlsym(RTLD_NEXT, "kill"));
  if (signal == SIGKILL && holds_workers()) held = pid;
  return next(pid, signal);
}

extern "C" pid_t waitpid(pid_t pid, int* status, int options) {
  static const auto next = reinterpret_cast<pid_t (*)(pid_t, int*, int)>(dlsym(RTLD_NEXT, "waitpid"));
  if (held != 0 && pid == held) return 0;
  return next(pid, status, options);
}
