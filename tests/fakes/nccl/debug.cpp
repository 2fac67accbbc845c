#include "tests/fakes/nccl/debug.hpp"

#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace p5::fake_nccl {

namespace {

// Settings from the environment, read at the first line and at the first one after a reset.
struct Settings {
  int level = 0;
  unsigned long subsystems = log_init | log_env;
  int file = STDOUT_FILENO;
};

Settings read_settings() {
  Settings settings;
  const char* level = std::getenv("NCCL_DEBUG");
  const std::map<std::string, int> levels{{"VERSION", 1}, {"WARN", 2}, {"INFO", 3}, {"TRACE", 5}};
  if (const auto found = levels.find(level ? level : ""); found != levels.end()) settings.level = found->second;
  if (const char* subsystems = std::getenv("NCCL_DEBUG_SUBSYS")) {
    const std::map<std::string, unsigned long> known{
        {"INIT", log_init}, {"TUNING", log_tuning}, {"ENV", log_env}, {"ALL", ~0ul}};
    settings.subsystems = 0;
    std::istringstream list(subsystems);
    for (std::string name; std::getline(list, name, ',');)
      if (const auto found = known.find(name); found != known.end()) settings.subsystems |= found->second;
  }
  const char* file = std::getenv("NCCL_DEBUG_FILE");
  if (settings.level > 1 && file && *file) settings.file = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (settings.file < 0) settings.file = STDOUT_FILENO;
  return settings;
}

struct State {
  std::mutex mutex;
  std::optional<Settings> settings;
};

// Never destroyed, since streams' threads outlast main().
State& state() {
  static State& the = *new State;
  return the;
}

}  // namespace

void debug_log(int level, unsigned long subsystems, const char*, int, const char* format, ...) {
  const std::scoped_lock lock(state().mutex);
  if (!state().settings) state().settings = read_settings();
  const Settings& settings = *state().settings;
  if (level > settings.level) return;
  if (level > static_cast<int>(Level::warn) && (subsystems & settings.subsystems) == 0) return;
  std::array<char, 2048> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  dprintf(settings.file, "fake:%d NCCL %s %s\n", static_cast<int>(getpid()),
          level == static_cast<int>(Level::warn) ? "WARN" : "INFO", text.data());
}

void log_of_network_plugin() {
  const char* const path = std::getenv("P5BENCH_FAKE_PLUGIN_LOG");
  std::ifstream file(path ? path : "");
  constexpr std::string_view warning = "WARN ";
  for (std::string line; std::getline(file, line);) {
    const bool warns = line.starts_with(warning);
    debug_log(static_cast<int>(warns ? Level::warn : Level::info), log_init, __FILE__, __LINE__, "%s",
              line.c_str() + (warns ? warning.size() : 0));
  }
}

}  // namespace p5::fake_nccl

// NCCL exports this function without declaring it in a header.
extern "C" void ncclResetDebugInit();
void ncclResetDebugInit() {
  using p5::fake_nccl::state;
  const std::scoped_lock lock(state().mutex);
  if (state().settings && state().settings->file != STDOUT_FILENO) close(state().settings->file);
  state().settings.reset();
}
