// The probe programs: each queries a library in a separate process, with a time limit.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/base/error.hpp"
#include "topo/discover.hpp"
#include "topo/system_files.hpp"

extern char** environ;

namespace p5::topo {

namespace {

using Clock = std::chrono::steady_clock;

// The line that is the answer, once it is there as a whole.
std::string answer_in(const std::string& text) {
  const std::size_t start = text.starts_with('{') ? 0 : text.find("\n{") + 1;
  if (start == 0 && !text.starts_with('{')) return "";
  const std::size_t end = text.find('\n', start);
  return end == std::string::npos ? "" : text.substr(start, end - start);
}

struct Output {
  std::string text;
  bool late = false;
};

// Until the answer is there, the other side closes, or the deadline: a process that a driver holds keeps its pipe open.
Output read_until(int descriptor, Clock::time_point deadline) {
  Output output;
  std::array<char, 4096> piece{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
    const int ready = left > 0 ? ::poll(&waiting, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return output.late = true, output;
    const ssize_t got = ready > 0 ? ::read(descriptor, piece.data(), piece.size()) : -1;
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return output;
    output.text.append(piece.data(), static_cast<std::size_t>(got));
    if (!answer_in(output.text).empty()) return output;
  }
}

// Starts the program with stdout and stderr in one pipe; returns minus the error number if it cannot be started.
pid_t start(const std::vector<std::string>& command, int writing_end, const std::optional<Environment>& environment) {
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, writing_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, writing_end, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  std::vector<std::string> texts = command;
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment.value_or(Environment())) variables.push_back(name + "=" + value);
  std::vector<char*> pointers;
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  pid_t pid = -1;
  const int result = ::posix_spawn(&pid, command[0].c_str(), &actions, nullptr, arguments.data(),
                                   environment ? pointers.data() : environ);
  posix_spawn_file_actions_destroy(&actions);
  return result == 0 ? pid : -result;
}

// Reaps a program that has answered or closed its outputs. It exits soon unless a driver blocks it: killed after 200
// ms.
void reap(pid_t pid) {
  constexpr auto patience = std::chrono::milliseconds(200);
  const auto deadline = Clock::now() + patience;
  while (Clock::now() < deadline) {
    if (::waitpid(pid, nullptr, WNOHANG) != 0) return;
    ::usleep(1000);
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, WNOHANG);
}

}  // namespace

ProbeAnswer ask_probe(const std::vector<std::string>& command, Seconds limit,
                      const std::optional<Environment>& environment) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {"", std::strerror(errno)};
  const pid_t pid = start(command, ends[1], environment);
  ::close(ends[1]);
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit.count));
  const Output output = pid > 0 ? read_until(ends[0], deadline) : Output{};
  ::close(ends[0]);
  if (pid < 0)
    return {"",
            fmt::format("'{}' cannot be started ({}); {}", command[0], std::strerror(-pid),
                        pid == -EAGAIN || pid == -ENOMEM
                            ? "raise the limit of processes (ulimit -u, pids.max) or of memory (ulimit -v)"
                            : beside_each_other),
            false};
  if (output.late) ::kill(pid, SIGKILL);
  reap(pid);
  if (output.late) return {"", fmt::format("no answer within {}", to_text(limit))};
  const std::string answer = answer_in(output.text);
  if (!answer.empty()) return {answer, ""};
  const std::string said = output.text.substr(0, output.text.find('\n'));
  return {"", said.empty() ? fmt::format("'{}' ended without an answer", command[0]) : said};
}

// ---- Merges the NVML probe's report with the GPUs on PCI.

NvmlAnswer ask_nvml(const std::string& program, Seconds limit) {
  // The program enforces the limit itself, extends it up to twice as long while one GPU after the other answers, and
  // then prints its partial results; only an overloaded machine delays it.
  constexpr double to_tell = 1, most_extended = 2;
  const ProbeAnswer answer =
      ask_probe({program, fmt::format("{}", limit.count)}, {most_extended * limit.count + to_tell});
  NvmlAnswer told;
  told.problem = answer.problem;
  told.asked = answer.started;
  if (answer.json.empty()) return told;
  try {
    return nvml_answer_from_json(parse_output("the answer of NVML's probe", answer.json));
  } catch (const UsageError& problem) {
    told.problem = problem.what();
    told.asked = false;
    return told;
  }
}

void merge_gpus(Host& host, NvmlAnswer told, std::vector<Gpu> on_pci) {
  host.gpu_driver = told.driver;
  // A missing driver is no problem on a host that shows no sign of a GPU.
  const bool expected = !told.answered || !on_pci.empty() || !told.gpus.empty() || has_driver("/dev/nvidiactl");
  host.gpu_problem = expected ? told.problem : "";
  if (!told.driver.empty()) host.versions["nvidia driver"] = told.driver;
  if (!told.cuda.empty()) host.versions["cuda driver"] = told.cuda;
  host.gpu_devices = std::move(told.gpus);
  const auto take = [&](Gpu& gpu, std::vector<Gpu>::iterator at) {
    gpu.pci = at->pci;
    gpu.numa_node = at->numa_node;
    if (!gpu.pcie.generation && !gpu.pcie.width) gpu.pcie = at->pcie;
    on_pci.erase(at);
  };
  const auto has_no_address = [](const Gpu& gpu) { return !gpu.problem.empty() && gpu.pci.address.empty(); };
  for (Gpu& gpu : host.gpu_devices) {
    const auto at =
        std::ranges::find_if(on_pci, [&](const Gpu& other) { return other.pci.address == gpu.pci.address; });
    if (at != on_pci.end()) take(gpu, at);
  }
  // GPUs of which NVML has but the number, as those that it calls lost, are those that are left on PCI, in order.
  if (std::cmp_equal(on_pci.size(), std::ranges::count_if(host.gpu_devices, has_no_address)))
    for (Gpu& gpu : host.gpu_devices)
      if (has_no_address(gpu)) take(gpu, on_pci.begin());
  std::ranges::move(on_pci, std::back_inserter(host.gpu_devices));
}

// ---- Reads what the libfabric probe prints.

Libfabric ask_libfabric(const std::string& program, Seconds limit, const std::optional<Environment>& environment) {
  const ProbeAnswer answer = ask_probe({program}, limit, environment);
  Libfabric told;
  told.problem = answer.problem;
  told.answered = false;
  if (answer.json.empty()) return told;
  try {
    return libfabric_from_json(parse_output("the answer of libfabric's probe", answer.json));
  } catch (const UsageError& problem) {
    told.problem = problem.what();
    return told;
  }
}

}  // namespace p5::topo
