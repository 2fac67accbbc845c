// Notes on the shared page how many operations the device has finished, also while the worker's main thread is stuck in
// a call: what tells the rank that is behind from the ranks that wait for it.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/protocol.hpp"

namespace p5::nccl {

class Progress {
 public:
  Progress(int device, protocol::SharedPage& page);

  // `operations` more are finished when all that is queued on the stream by now is.
  void mark(cudaStream_t stream, int operations);
  // Notes what has finished since the last look.
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
  std::deque<Mark> marks_;     // queued, the oldest first
  std::uint64_t carried_ = 0;  // operations that found all events in use; the next mark counts them
  std::jthread thread_;
};

}  // namespace p5::nccl
