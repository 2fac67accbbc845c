// A worker program as a child of this process: started, spoken to, and ended for good. One of these is one epoch.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/backends/protocol.hpp"
#include "bench/backends/worker_log.hpp"
#include "bench/base/error.hpp"
#include "bench/base/units.hpp"

namespace p5 {

class WorkerProcess {
 public:
  // `environment`: variables over those of this process; an empty value removes one. Throws CaseError when the program
  // cannot be started.
  WorkerProcess(const std::string& program, const Environment& environment, std::uint32_t epoch);
  // Kills it when it still runs, and waits a moment for it to be gone.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Paths of the libraries that decide how fast it is: NCCL, its plugins and what those use, CUDA's runtime.
  std::vector<std::string> loaded_libraries() const;

  // Sends an order. That the worker is gone shows when its reply is waited for.
  void send(const nlohmann::json& order);
  // Waits for the reply to the last order. `interrupted` is asked now and then; when it says so, or when `limit` has
  // passed, the worker is told to give up and StalledError is thrown with its progress; in the second case
  // `before_giving_up` is called first. A worker that ended, that answers with an error or that floods its log is a
  // CaseError that says how.
  nlohmann::json wait(Seconds limit, const std::function<bool()>& interrupted,
                      const std::function<void()>& before_giving_up);

  // Tells it to end by itself and waits for that; one that takes longer than `limit` is killed.
  void dismiss(Seconds limit);

  // What it writes to its standard output; wait() passes on what the operator asked for.
  const WorkerLog& log() const { return log_; }

  // SIGKILL; does not wait.
  void kill();

  // SIGKILL, then waits for it to be gone. False when it is not within `limit`: the driver holds it.
  bool kill_and_reap(Seconds limit);

 private:
  bool reap_within(Seconds limit);
  nlohmann::json reply_of(protocol::Message message) const;
  std::string how_it_ended();
  StalledError stalled(Seconds waited);
  bool is_idle_after_abort();
  double progress(bool at_rest) const;

  std::string program_;
  WorkerLog log_;
  ErrorLog errors_;
  std::string waits_for_;  // when it was told to give up
  std::uint32_t epoch_ = 0;
  pid_t pid_ = -1;
  int socket_ = -1;
  protocol::Inbox inbox_;
  bool unasked_ = false;  // it spoke before it was asked
  int exit_status_ = -1;
  bool reaped_ = false;
  protocol::SharedPage* page_ = nullptr;
  std::uint64_t orders_ = 0;
  std::vector<std::string> shared_memory_;  // what it left in /dev/shm
};

// NCCL's own segments in /dev/shm that a process has mapped: a killed one cannot remove them.
std::vector<std::string> shared_memory_of(pid_t pid);

// What the kernel tells: 'T' for a stopped process, 'Z' for one that has ended, '?' where there is none.
struct ProcessState {
  char letter = '?';
  pid_t parent = 0;
};
ProcessState state_of(pid_t pid);

}  // namespace p5
