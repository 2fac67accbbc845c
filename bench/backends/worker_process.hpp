// A worker program as a child process: start, orders and replies, termination. Each object is one epoch.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/backends/protocol.hpp"
#include "bench/backends/worker_log.hpp"
#include "bench/base/error.hpp"
#include "bench/base/units.hpp"

namespace p5 {

class WorkerProcess {
 public:
  // `environment`: variables added to those of this process; an empty value removes one. Throws CaseError if the
  // program cannot be started.
  WorkerProcess(const std::string& program, const Environment& environment, std::uint32_t epoch);
  // Kills the worker if it still runs, and waits briefly for its end.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Paths of the loaded libraries that affect performance: NCCL, its plugins and their dependencies, the CUDA runtime.
  std::vector<std::string> loaded_libraries() const;

  // Sends an order. If the worker has died, waiting for the reply reports it.
  void send(const nlohmann::json& order);
  // Waits for the reply to the last order. Polls `interrupted`; when it returns true or `limit` has passed, requests an
  // abort of the worker and throws StalledError with its progress; after `limit`, first calls `before_giving_up`.
  // Throws CaseError with the reason if the worker ended, replied with an error or flooded its log.
  nlohmann::json wait(Seconds limit, const std::function<bool()>& interrupted,
                      const std::function<void()>& before_giving_up);

  // Orders the worker to quit and waits; kills it after `limit`, or at once where it did not answer in time before.
  void dismiss(Seconds limit);

  // Its standard output; wait() passes on the lines that the operator requested.
  const WorkerLog& log() const { return log_; }

  // Sends SIGKILL without waiting.
  void kill();

  // Sends SIGKILL, then waits for the worker's end. False if it still exists after `limit`: the driver holds it.
  bool kill_and_reap(Seconds limit);

 private:
  bool reap_within(Seconds limit);
  nlohmann::json reply_of(protocol::Message message) const;
  std::string how_it_ended();
  StalledError stalled(Seconds waited, bool late);
  bool is_idle_after_abort();
  double progress(bool at_rest) const;

  std::string program_;
  WorkerLog log_;
  ErrorLog errors_;
  std::string waits_for_;  // operations unfinished at an abort
  std::uint32_t epoch_ = 0;
  pid_t pid_ = -1;
  int socket_ = -1;
  protocol::Inbox inbox_;
  bool silent_ = false;   // it did not answer in time, nor the abort after that
  bool unasked_ = false;  // a message arrived before an order was sent
  int exit_status_ = -1;
  bool reaped_ = false;
  protocol::SharedPage* page_ = nullptr;
  std::uint64_t orders_ = 0;
  std::vector<std::string> shared_memory_;  // its segments left in /dev/shm
};

// NCCL's segments in /dev/shm that a process has mapped, since a killed one cannot remove them.
std::vector<std::string> shared_memory_of(pid_t pid);

// Process state from the kernel: 'T' stopped, 'Z' ended, '?' no such process.
struct ProcessState {
  char letter = '?';
  pid_t parent = 0;
};
ProcessState state_of(pid_t pid);

// ---- Ends all descendants of this process.

// Sends SIGKILL to all descendants, including stopped ones, waits up to 0.4 s for their end, and removes NCCL's files
// of theirs in /dev/shm.
void end_descendants();

}  // namespace p5
