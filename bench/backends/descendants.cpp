#include "bench/backends/descendants.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bench/backends/worker_process.hpp"
#include "bench/base/units.hpp"

namespace p5 {

namespace {

constexpr Seconds exit_timeout{0.4};

// Running descendants, without zombies.
std::vector<pid_t> descendants() {
  std::map<pid_t, std::vector<pid_t>> children;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", problem)) {
    const std::string name = entry.path().filename().string();
    pid_t process = 0;
    const auto [end, unread] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (unread != std::errc() || end != name.data() + name.size()) continue;
    if (const ProcessState state = state_of(process); state.letter != 'Z' && state.letter != '?')
      children[state.parent].push_back(process);
  }
  std::vector<pid_t> found = children[::getpid()];
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::vector<pid_t> more = children[found[i]];
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

}  // namespace

void end_descendants() {
  std::set<std::string> shared_memory;
  const auto start = Clock::now();
  for (std::vector<pid_t> left = descendants(); !left.empty(); left = descendants()) {
    for (const pid_t each : left) {
      const std::vector<std::string> its = shared_memory_of(each);
      shared_memory.insert(its.begin(), its.end());
    }
    for (const pid_t each : left) ::kill(each, SIGKILL);
    if (since(start).count > exit_timeout.count) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (const std::string& path : shared_memory) ::unlink(path.c_str());
}

}  // namespace p5
