// The stream that all of a worker's work goes through, and waiting for it with an eye on what NCCL reports meanwhile.
#pragma once

#include <vector>

#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/progress.hpp"
#include "bench/backends/worker_program.hpp"
#include "bench/base/units.hpp"

namespace p5::nccl {

// alert: never sleeps, so that all ranks go on within microseconds. relaxed: leaves the core to others after a while.
enum class Waiting { alert, relaxed };

class Queue {
 public:
  Queue(int device, protocol::SharedPage& page);

  cudaStream_t stream() const { return stream_.get(); }
  // Communicators whose errors end a wait.
  void watch(std::vector<ncclComm_t> communicators) { watched_ = std::move(communicators); }
  void mark(int operations) { progress_.mark(stream(), operations); }
  // Returns when all that is queued is done. Throws CaseError on an error of the device or of NCCL, AbortRequested when
  // told so.
  void finish(Waiting waiting = Waiting::relaxed);
  // Whether all that is queued is done within that time, whatever NCCL says.
  bool rests_within(Seconds limit) const;

 private:
  void check_communicators() const;

  protocol::SharedPage& page_;
  Stream stream_;
  Progress progress_;
  std::vector<ncclComm_t> watched_;
};

}  // namespace p5::nccl
