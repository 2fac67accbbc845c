#include "bench/backends/worker_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"

namespace p5 {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;

// Poll interval for abort notices. Most replies arrive within microseconds or when the samples are done.
constexpr int look_ms = 5;

// Timeout for sending an order to a worker that does not read; the wait for its reply then reports the failure.
constexpr timeval send_limit{.tv_sec = 10, .tv_usec = 0};

// Timeout for aborting the library and checking whether the device becomes idle.
constexpr Seconds give_up_limit{3};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

bool has_input(int descriptor) {
  pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 0) == 1 && (waiting.revents & POLLIN) != 0;
}

CaseError failed(const std::string& what) { return CaseError(fmt::format("{}: {}", what, describe_errno(errno))); }

Environment merged_environment(const Environment& changes) {
  Environment variables = current_environment();
  for (const auto& [name, value] : changes)
    if (value.empty())
      variables.erase(name);
    else
      variables[name] = value;
  return variables;
}

std::vector<std::string> as_texts(const Environment& environment) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : environment) texts.push_back(name + "=" + value);
  return texts;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// Spawn attributes: the worker's descriptors and default signal handling; no other descriptors are inherited.
class SpawnSettings {
 public:
  SpawnSettings(int log, int errors, int socket, int page) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, log, protocol::log_descriptor);
    posix_spawn_file_actions_adddup2(&actions_, socket, protocol::socket_descriptor);
    posix_spawn_file_actions_adddup2(&actions_, page, protocol::page_descriptor);
    posix_spawn_file_actions_addclosefrom_np(&actions_, protocol::page_descriptor + 1);
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

// Paths of mapped files that `wanted` accepts, without repetition.
std::vector<std::string> mapped_files(pid_t pid, const std::function<bool(const std::string&)>& wanted) {
  std::vector<std::string> found;
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find('/');
    if (at == std::string::npos) continue;
    std::string path = line.substr(at);
    if (path.ends_with(" (deleted)")) path.erase(path.rfind(" ("));
    if (wanted(path) && std::ranges::find(found, path) == found.end()) found.push_back(path);
  }
  return found;
}

}  // namespace

std::vector<std::string> shared_memory_of(pid_t pid) {
  return mapped_files(pid, [](const std::string& path) { return path.starts_with("/dev/shm/nccl-"); });
}

ProcessState state_of(pid_t pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(stat, text);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  ProcessState state;
  std::istringstream(text.substr(name_end + 1)) >> state.letter >> state.parent;
  return state;
}

WorkerProcess::WorkerProcess(const std::string& program, const Environment& environment, std::uint32_t epoch)
    : program_(program), log_(merged_environment(environment)), epoch_(epoch) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw failed("socketpair");
  Descriptor mine(ends[0]);
  // Descriptors from 10 on, so that dup2() to a low number does not overwrite the other one.
  const Descriptor low(ends[1]);
  const Descriptor theirs(::fcntl(low.get(), F_DUPFD_CLOEXEC, 10));
  const Descriptor memory(::memfd_create("p5bench-page", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const Descriptor page(::fcntl(memory.get(), F_DUPFD_CLOEXEC, 10));
  const Descriptor log(::fcntl(log_.descriptor(), F_DUPFD_CLOEXEC, 10));
  const Descriptor errors(::fcntl(errors_.descriptor(), F_DUPFD_CLOEXEC, 10));
  if (theirs.get() < 0 || page.get() < 0 || log.get() < 0 || errors.get() < 0 ||
      ::ftruncate(page.get(), sizeof(protocol::SharedPage)) != 0 ||
      ::fcntl(page.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw failed("the worker's shared page");
  void* const mapped = ::mmap(nullptr, sizeof(protocol::SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED, page.get(), 0);
  if (mapped == MAP_FAILED) throw failed("mmap of the worker's shared page");
  page_ = static_cast<protocol::SharedPage*>(mapped);

  const SpawnSettings settings(log.get(), errors.get(), theirs.get(), page.get());
  std::vector<std::string> variables = as_texts(merged_environment(environment)), arguments{program};
  const int result = ::posix_spawn(&pid_, program.c_str(), settings.actions(), settings.attributes(),
                                   pointers(arguments).data(), pointers(variables).data());
  if (result != 0) {
    ::munmap(page_, sizeof(protocol::SharedPage));
    throw CaseError(fmt::format("the worker '{}' cannot be started: {}", program, describe_errno(result)));
  }
  socket_ = mine.release();
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &send_limit, sizeof send_limit);
}

std::vector<std::string> WorkerProcess::loaded_libraries() const {
  constexpr std::array names{"libnccl", "libcudart", "libfabric", "libibverbs", "libefa", "libmlx5"};
  return mapped_files(pid_, [&](const std::string& path) {
    const std::string file = path.substr(path.rfind('/') + 1);
    return std::ranges::any_of(names, [&](const char* name) { return file.starts_with(name); });
  });
}

WorkerProcess::~WorkerProcess() {
  kill_and_reap({1});
  log_.pass_on(pid_, true);
  errors_.pass_on(true);
  ::close(socket_);
  ::munmap(page_, sizeof(protocol::SharedPage));
}

void WorkerProcess::send(const json& order) {
  ++orders_;
  // Input that arrived early would be taken for the reply to this order.
  while (!unasked_ && has_input(socket_)) try {
      const protocol::Received early = inbox_.receive(socket_, 0);
      if (!early.message) break;  // wait() reads the rest or finds the socket closed
      unasked_ = early.message->epoch == epoch_;
    } catch (const CaseError&) {
      unasked_ = true;
    }
  try {
    protocol::send(socket_, {epoch_, order});
  } catch (const CaseError&) {
    // wait() finds the socket closed.
  }
}

json WorkerProcess::wait(Seconds limit, const std::function<bool()>& interrupted,
                         const std::function<void()>& before_giving_up) {
  auto start = Clock::now();
  if (unasked_) throw CaseError(fmt::format("its worker (process {}) sent a reply without an order", pid_));
  bool ended = false;
  std::optional<Clock::time_point> stopped;  // seen so since then
  Pauses pauses;
  int prolonged = 0;
  for (;;) {
    protocol::Received received = inbox_.receive(socket_, look_ms);
    log_.pass_on(pid_, false);
    errors_.pass_on(false);
    if (received.closed) throw LostError(how_it_ended());
    if (log_.flooded() || errors_.flooded()) {
      kill();
      throw LostError(fmt::format("its worker (process {}) wrote to its log faster than it could be read", pid_));
    }
    if (received.message && received.message->epoch == epoch_) return reply_of(std::move(*received.message));
    if (ended) throw LostError(how_it_ended());
    // A worker of a job that was suspended as a whole may go on a moment later.
    if (const Clock::duration paused = pauses.look(); paused.count() > 0 && prolonged++ < most_pauses) {
      start += paused;
      stopped.reset();
    }
    const char state = state_of(pid_).letter;
    ended = state == 'Z';  // its children may hold the socket open; pending replies are read first
    if (state != 'T')
      stopped.reset();
    else if (!stopped)
      stopped = Clock::now();
    const bool late = since(start).count > limit.count;
    if (stopped && (since(*stopped).count > 1 || (late && since(start).count > 1)))
      throw LostError(fmt::format("its worker (process {}) is stopped by a signal", pid_));
    if (late) before_giving_up();
    if (late || interrupted()) throw stalled(since(start), late);
  }
}

json WorkerProcess::reply_of(protocol::Message message) const {
  if (!message.body.is_object()) throw CaseError("its worker's reply is not understood: it is no object");
  if (const auto error = message.body.find("error"); error != message.body.end()) {
    const std::string what = printable(error->is_string() ? error->get<std::string>() : error->dump());
    const auto elsewhere = message.body.find("elsewhere");
    if (elsewhere != message.body.end() && *elsewhere == true) throw StalledError(what, std::nullopt, progress(true));
    throw CaseError(what);
  }
  if (const auto ok = message.body.find("ok"); ok == message.body.end() || *ok != true)
    throw CaseError("its worker's reply is not understood: it has neither \"ok\" nor \"error\"");
  return std::move(message.body);
}

// Score by which the least advanced worker is found. A worker that never took its order is still busy with an earlier
// one, so it scores lowest. Then completed operations count; among equal counts, an idle device waited for a busy one.
double WorkerProcess::progress(bool at_rest) const {
  return (page_->orders.load() < orders_ ? 0 : 1e12) + static_cast<double>(page_->completed.load()) +
         (at_rest ? 0.5 : 0);
}

bool WorkerProcess::is_idle_after_abort() {
  const auto start = Clock::now();
  page_->give_up.store(1);
  while (since(start).count < give_up_limit.count) {
    protocol::Received received;
    try {
      received = inbox_.receive(socket_, look_ms);
    } catch (const CaseError&) {
      return false;  // not a reply to our order
    }
    if (received.closed) return false;
    if (!received.message || received.message->epoch != epoch_) continue;
    const json& reply = received.message->body;
    if (reply.is_object())
      if (const auto told = reply.find("waits_for"); told != reply.end() && told->is_string())
        waits_for_ = printable(told->get<std::string>());
    return !reply.is_object() || !reply.contains("at_rest") || reply.at("at_rest") == true;
  }
  return false;
}

StalledError WorkerProcess::stalled(Seconds waited, bool late) {
  silent_ = true;
  if (page_->orders.load() < orders_)
    return StalledError(fmt::format("its worker received no order for {}", to_text(waited)), std::nullopt,
                        progress(false));
  const std::uint32_t order = page_->order.load();
  // A worker that identifies itself waits for no other rank, so that an abort changes nothing.
  const bool alone = late && order == protocol::order_number("identify");
  const bool at_rest = !alone && is_idle_after_abort();
  silent_ = !at_rest;
  if (order == protocol::order_number("identify") || order == protocol::order_number("join"))
    return StalledError(fmt::format("no answer for {} to \"{}\"{}", to_text(waited), protocol::order_names.at(order),
                                    at_rest ? "; it waited for other ranks" : ""),
                        std::nullopt, progress(at_rest));
  StalledError problem(
      fmt::format("no answer for {}; it had completed {} operations, and after the abort its device {}{}",
                  to_text(waited), page_->completed.load(), at_rest ? "became idle" : "did not become idle",
                  waits_for_.empty() ? "" : "; " + waits_for_),
      std::nullopt, progress(at_rest));
  // Ranks that make communicators wait for each other in a call of the library, which no abort ends.
  problem.hangs = !at_rest && order != protocol::order_number("open");
  return problem;
}

std::string WorkerProcess::how_it_ended() {
  const bool by_itself = reaped_ || reap_within({1});
  if (!by_itself) kill_and_reap({1});
  constexpr std::size_t most_lines = 3;
  const std::vector<std::string> words = errors_.last_lines(most_lines);
  const std::string said =
      words.empty() ? "" : fmt::format("; its last lines of output: \"{}\"", join(words, "\", \""));
  if (!by_itself) return fmt::format("its worker (process {}) closed its connection, but has not ended{}", pid_, said);
  if (WIFSIGNALED(exit_status_))
    return fmt::format("its worker (process {}) was ended by signal {} ({}){}", pid_, WTERMSIG(exit_status_),
                       strsignal(WTERMSIG(exit_status_)), said);
  return fmt::format("its worker (process {}) ended with status {}{}", pid_, WEXITSTATUS(exit_status_), said);
}

bool WorkerProcess::reap_within(Seconds limit) {
  const auto start = Clock::now();
  do {
    reaped_ = ::waitpid(pid_, &exit_status_, WNOHANG) == pid_;
    if (!reaped_) std::this_thread::sleep_for(milliseconds(1));
  } while (!reaped_ && since(start).count < limit.count);
  if (reaped_)
    for (const std::string& path : shared_memory_) ::unlink(path.c_str());
  return reaped_;
}

void WorkerProcess::dismiss(Seconds limit) {
  if (reaped_) return;
  shared_memory_ = shared_memory_of(pid_);
  try {
    protocol::send(socket_, {epoch_, {{"order", "quit"}}});
  } catch (const CaseError&) {
    // The worker has already ended, as intended.
  }
  reap_within(silent_ ? Seconds{0} : limit);
}

void WorkerProcess::kill() {
  if (reaped_ || reap_within({0})) return;
  if (shared_memory_.empty()) shared_memory_ = shared_memory_of(pid_);
  ::kill(pid_, SIGKILL);
}

bool WorkerProcess::kill_and_reap(Seconds limit) {
  kill();
  return reaped_ || reap_within(limit);
}

namespace {

constexpr Seconds exit_timeout{0.4};

// Running descendants, without zombies.
std::vector<pid_t> descendants() {
  std::map<pid_t, std::vector<pid_t>> children;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", problem)) {
    const std::string name = entry.path().filename().string();
    const std::optional<pid_t> process = as_number<pid_t>(name);
    if (!process) continue;
    if (const ProcessState state = state_of(*process); state.letter != 'Z' && state.letter != '?')
      children[state.parent].push_back(*process);
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
