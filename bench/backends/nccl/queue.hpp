// The stream of a worker: waiting for it while checking NCCL's errors, and counting completed operations.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/protocol.hpp"
#include "bench/backends/worker_program.hpp"
#include "bench/base/units.hpp"

namespace p5::nccl {

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
  // True if all queued work completes within the limit, regardless of NCCL's state.
  bool idle_within(Seconds limit) const;

 private:
  void check_communicators() const;

  protocol::SharedPage& page_;
  Stream stream_;
  Progress progress_;
  std::vector<Watched> watched_;
};

}  // namespace p5::nccl
