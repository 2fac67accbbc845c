// State of a worker after joining, shared by its cases: communicators, stream, memory, gate.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/kernels.hpp"
#include "bench/backends/nccl/tuning_log.hpp"
#include "bench/backends/protocol.hpp"
#include "bench/backends/worker_program.hpp"
#include "bench/base/units.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"

namespace p5::nccl {

// ---- The stream of a worker: waiting for it while checking NCCL's errors, and counting completed operations.

// Counts operations that the device has completed on the shared page, also while the main thread is blocked in a call:
// this distinguishes the hung rank from those waiting for it.
class Progress {
 public:
  Progress(int device, protocol::SharedPage& page);

  // Records that `operations` are complete when the work queued so far is.
  void mark(cudaStream_t stream, int operations);
  // Updates the count.
  void poll();

 private:
  struct Mark {
    std::size_t event = 0;
    std::uint64_t operations = 0;
  };
  static constexpr std::size_t most_marks = 256;

  void poll_periodically(const std::stop_token& stop, int device);
  void poll_locked();

  protocol::SharedPage& page_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::array<Event, most_marks> events_;
  std::size_t next_event_ = 0;
  std::deque<Mark> marks_;     // oldest first
  std::uint64_t carried_ = 0;  // operations without a free event; added to the next mark
  std::jthread thread_;
};

// alert: spins, so that all ranks resume within microseconds. relaxed: sleeps after 2 ms.
enum class Waiting { alert, relaxed };

class Queue {
 public:
  Queue(int device, protocol::SharedPage& page);

  cudaStream_t stream() const { return stream_.get(); }
  // Communicators whose asynchronous errors end a wait.
  struct Watched {
    ncclComm_t communicator = nullptr;
    std::string operation = "an operation";  // for messages: what runs on it
  };
  void watch(std::vector<Watched> communicators) { watched_ = std::move(communicators); }
  void mark(int operations) { progress_.mark(stream(), operations); }
  // Waits for all queued work. Throws CaseError on an error of the device or NCCL, AbortRequested if the supervisor
  // requests it.
  void finish(Waiting waiting = Waiting::relaxed);
  // Waits until a condition holds on the device, with the same errors.
  void wait_until(const std::function<bool()>& holds, Waiting waiting) const;
  // True if the device has no work left within the limit, regardless of NCCL's state; work that failed is none.
  bool idle_within(Seconds limit) const;

 private:
  void check_communicators() const;

  protocol::SharedPage& page_;
  Stream stream_;
  Progress progress_;
  std::vector<Watched> watched_;
};

// Device memory shared by the successive cases of a worker.
class Arena {
 public:
  // Returns at least `bytes`. Frees the previous memory first, which must not be in use.
  std::byte* reserve(std::uint64_t bytes);

 private:
  std::unique_ptr<std::byte, void (*)(std::byte*)> memory_{nullptr, nullptr};
  std::uint64_t size_ = 0;
};

class Engine {
 public:
  // Joins the job; collective.
  Engine(int device, protocol::SharedPage& page, TuningLog& log, const ncclUniqueId& id, int rank, int ranks);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  ncclComm_t control() const { return control_.get(); }
  // The communicator of this rank's group, or the job's.
  ncclComm_t communicator() const { return group_ ? group_.get() : control(); }
  // The rank in it of one of its members, by that one's rank in the job.
  int rank_in_communicator(int rank) const;
  Queue& queue() { return queue_; }
  cudaStream_t stream() const { return queue_.stream(); }
  Arena& arena() { return arena_; }
  TuningLog& log() { return log_; }

  // A step of joining, and what it took.
  struct Step {
    double seconds = 0;
    CommunicatorCosts costs = {};
  };
  const Step& joining() const { return joining_; }
  const Step& first_operation() const { return first_operation_; }
  // What this process uses now, with "gpu_memory_bytes" of its whole device.
  CommunicatorCosts footprint() const;

  // Ranks that start a sample together: the job, this rank's group, or the members of all groups.
  enum class Aligned { job, group, members };
  // Collective, also for ranks in no group: gives each group a communicator of its own.
  // `cta_policy`: of that communicator, as in CallOptions; the default where this NCCL has no other.
  void form(const std::optional<Group>& group, Aligned aligned, const std::string& cta_policy);
  // Collective. Communicators are destroyed several at a time.
  void leave_groups();
  // Collective, also for ranks in no group: the communicators that works run on, for each work the group of this rank,
  // if any, and its name. Those of an equal `key` are formed once, for which the groups must be the same on all ranks.
  struct BesideGroup {
    std::string key, work;
    std::optional<Group> group;
  };
  // Null for a work of whose groups this rank is in none.
  std::vector<ncclComm_t> form_beside(const std::vector<BesideGroup>& groups);

  // Communicators of earlier rounds are idle and end with the process.
  void abort() {
    for (Communicator& each : old_communicators_) static_cast<void>(each.release());
    old_communicators_.clear();
    beside_.clear();
    members_.reset();
    group_.reset();
    control_.reset();
  }

  // Queues an all-reduce of one element over the aligned ranks, which ends when all have reached it. Does nothing on a
  // rank that pauses.
  void align();
  // The same over all ranks of the job, also those that pause.
  void align_all() { align_over(control()); }
  // Work queued after this waits until the gate opens.
  void close_gate();
  void open_gate();
  // Throws if the device timed out at the gate: then not all timed work had been queued.
  void check_gate() const;

 private:
  ncclComm_t aligned_communicator() const;
  void align_over(ncclComm_t communicator);
  Communicator split(const std::optional<Group>& group, const std::string& cta_policy = "default") const;
  void watch_communicators();
  Gate& gate() const { return *static_cast<Gate*>(gate_memory_.get()); }

  int rank_ = 0, ranks_ = 1;
  TuningLog& log_;
  Queue queue_;
  Arena arena_;
  DeviceMemory one_element_;
  PinnedMemory gate_memory_;
  Gate* gate_on_device_ = nullptr;
  Communicator control_, group_, members_;  // members_: the members of all groups, if some ranks pause
  Group members_of_group_;                  // ranks in the job, ascending, of group_
  Aligned aligned_ = Aligned::job;
  struct Beside {
    Communicator communicator;
    std::string work;  // the last one that ran on it
  };
  std::map<std::string, Beside> beside_;
  std::vector<Communicator> old_communicators_;  // earlier rounds' communicators, not yet destroyed
  int old_rounds_ = 0;
  Step joining_, first_operation_;
};

}  // namespace p5::nccl
