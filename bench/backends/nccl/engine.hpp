// What a worker has once it has joined the others, and all of its cases use: communicator, stream, memory, the gate.
#pragma once

#include <optional>
#include <vector>

#include "bench/backends/nccl/arena.hpp"
#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/kernels.hpp"
#include "bench/backends/nccl/queue.hpp"
#include "bench/backends/nccl/tuning_log.hpp"
#include "bench/model/case.hpp"

namespace p5::nccl {

class Engine {
 public:
  // Joins the job: all ranks construct theirs at the same time.
  Engine(int device, protocol::SharedPage& page, TuningLog& log, const ncclUniqueId& id, int rank, int ranks);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  ncclComm_t control() const { return control_.get(); }
  // The one that this rank's group has, else the job's.
  ncclComm_t communicator() const { return group_ ? group_.get() : control(); }
  Queue& queue() { return queue_; }
  cudaStream_t stream() const { return queue_.stream(); }
  Arena& arena() { return arena_; }
  TuningLog& log() { return log_; }

  // Who begins a sample together: all ranks, those of this rank's group, or those of all groups.
  enum class Aligned { job, group, members };
  // All ranks take part, those in no group with none: from here on groups have communicators of their own.
  void form(const std::optional<Group>& group, Aligned aligned);
  // On all ranks. Communicators are left several at a time.
  void leave_groups();

  // Those left behind have nothing more to do, and go with the process.
  void abort() {
    for (Communicator& each : left_behind_) static_cast<void>(each.release());
    left_behind_.clear();
    members_.reset();
    group_.reset();
    control_.reset();
  }

  // Queues an all-reduce of one element over the ranks that are aligned: when it ends, all are there. Nothing on a rank
  // that pauses.
  void align();
  // Holds back what is queued from now on until the gate is opened.
  void close_gate();
  void open_gate();
  // Throws when the device stopped waiting before the gate was opened: what was timed was not all queued.
  void check_gate() const;

 private:
  ncclComm_t aligning() const;
  Gate& gate() const { return *static_cast<Gate*>(gate_memory_.get()); }

  int rank_ = 0, ranks_ = 1;
  TuningLog& log_;
  Queue queue_;
  Arena arena_;
  DeviceMemory one_element_;
  PinnedMemory gate_memory_;
  Gate* gate_on_device_ = nullptr;
  Communicator control_, group_, members_;  // members_: the ranks of all groups, where some pause
  Aligned aligned_ = Aligned::job;
  std::vector<Communicator> left_behind_;  // of earlier rounds, of which there were so many since the last were left
  int rounds_behind_ = 0;
};

}  // namespace p5::nccl
