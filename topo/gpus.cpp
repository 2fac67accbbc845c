// Runs the NVML probe and reads what it prints.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "topo/topology.hpp"

extern char** environ;

namespace p5::topo {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Output {
  std::string text;
  bool late = false;
};

// Until the other side closes, or the deadline.
Output read_until(int descriptor, Clock::time_point deadline) {
  Output output;
  std::array<char, 4096> piece{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
    const int ready = left > 0 ? ::poll(&waiting, 1, static_cast<int>(left)) : 0;
    if (ready == 0) return output.late = true, output;
    const ssize_t got = ready > 0 ? ::read(descriptor, piece.data(), piece.size()) : -1;
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return output;
    output.text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

// Starts the program with both its outputs in one pipe; -1 when it cannot be started.
pid_t start(const std::string& program, int writing_end) {
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writing_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, writing_end, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  std::string name = program;
  std::array<char*, 2> arguments{name.data(), nullptr};
  pid_t pid = -1;
  const int result = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return result == 0 ? pid : -1;
}

std::optional<int> whole(const json& j) { return j.is_null() ? std::nullopt : std::optional(j.get<int>()); }

Gpu gpu_from(const json& j) {
  Gpu gpu;
  gpu.uuid = j.at("uuid");
  gpu.name = j.at("name");
  gpu.architecture = whole(j.at("architecture")).value_or(0);
  gpu.links = whole(j.at("links"));
  if (const json& speed = j.at("link_speed_mb_per_s"); !speed.is_null())
    gpu.link_rate_raw = GBps{speed.get<double>() / 1000};
  gpu.pcie.generation_max = whole(j.at("pcie_generation"));
  gpu.pcie.width_max = whole(j.at("pcie_width"));
  gpu.processes = whole(j.at("processes"));
  return gpu;
}

// What went wrong, "" when nothing did.
std::string ask(Host& host, const std::string& program, Seconds limit) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::strerror(errno);
  const pid_t pid = start(program, ends[1]);
  ::close(ends[1]);
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit.count));
  const Output output = pid > 0 ? read_until(ends[0], deadline) : Output{};
  ::close(ends[0]);
  if (pid < 0) return fmt::format("'{}' cannot be started", program);
  int status = 0;
  if (output.late) {
    // A process that the driver holds does not die at once: it is left to the system, not waited for.
    ::kill(pid, SIGKILL);
    return fmt::format("NVML did not answer within {}", to_text(limit));
  }
  ::waitpid(pid, &status, 0);
  if (status != 0) return output.text.substr(0, output.text.find('\n'));
  try {
    const json j = json::parse(output.text);
    host.gpu_driver = j.at("driver");
    for (const json& gpu : j.at("gpus")) host.gpu_devices.push_back(gpu_from(gpu));
    return "";
  } catch (const json::exception& problem) {
    return fmt::format("the probe's answer is not understood: {}", problem.what());
  }
}

}  // namespace

void probe_gpus(Host& host, const std::string& program, Seconds limit) { host.gpu_problem = ask(host, program, limit); }

}  // namespace p5::topo
