// Runs the watching program and keeps its lines.
#include "topo/watch.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/thread.hpp"

extern char** environ;

namespace p5::topo {

using Clock = std::chrono::steady_clock;

// Shared with the thread that reads, which a driver that holds the program may outlive.
struct Watch::Reader {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Tick> ticks;
  bool closed = false;
  pid_t pid = -1;
  int input = -1, output = -1;
  Clock::time_point start;

  ~Reader() {
    if (output >= 0) ::close(output);
  }
  void keep(const std::string& line) {
    const Seconds at{std::chrono::duration<double>(Clock::now() - start).count()};
    try {
      Tick tick = tick_from(line, at);
      const std::lock_guard lock(mutex);
      ticks.push_back(std::move(tick));
    } catch (const UsageError&) {  // a library may print something too
    }
  }
  void read_all() {
    std::string text;
    std::array<char, 4096> piece{};
    for (;;) {
      const ssize_t got = ::read(output, piece.data(), piece.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      text.append(piece.data(), static_cast<std::size_t>(got));
      for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
        keep(text.substr(0, end));
    }
    const std::lock_guard lock(mutex);
    closed = true;
    changed.notify_all();
  }
};

namespace {

pid_t start(const std::string& program, int input, int output) {
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  std::string name = program, watch = "--watch";
  std::array<char*, 3> arguments{name.data(), watch.data(), nullptr};
  pid_t pid = -1;
  const int result = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return result == 0 ? pid : -1;
}

}  // namespace

Watch::Watch(const std::string& program) : start_(Clock::now()), reader_(std::make_shared<Reader>()) {
  reader_->start = start_;
  reader_->closed = true;
  std::array<int, 2> down{-1, -1}, up{-1, -1};
  if (::pipe2(down.data(), O_CLOEXEC) != 0) return;
  if (::pipe2(up.data(), O_CLOEXEC) == 0) {
    reader_->pid = start(program, down[0], up[1]);
    reader_->output = up[0];
    ::close(up[1]);
  }
  ::close(down[0]);
  if (reader_->pid < 0) {
    ::close(down[1]);
    return;
  }
  reader_->input = down[1];
  reader_->closed = false;
  start_thread([reader = reader_] { reader->read_all(); }).detach();
}

Watch::~Watch() { finish(); }

Seconds Watch::now() const { return {std::chrono::duration<double>(Clock::now() - start_).count()}; }

std::vector<Tick> Watch::finish() {
  constexpr auto patience = std::chrono::milliseconds(1500);
  if (reader_->input >= 0) ::close(std::exchange(reader_->input, -1));
  std::unique_lock lock(reader_->mutex);
  const bool ended = reader_->changed.wait_for(lock, patience, [&] { return reader_->closed; });
  if (const pid_t pid = std::exchange(reader_->pid, -1); pid > 0) {
    ::kill(pid, SIGKILL);  // without effect on one that has ended and not been reaped
    ::waitpid(pid, nullptr, ended ? 0 : WNOHANG);
  }
  return std::exchange(reader_->ticks, {});  // hours of samples are hundreds of megabytes
}

}  // namespace p5::topo
