#include "bench/backends/nccl/progress.hpp"

#include <chrono>

namespace p5::nccl {

namespace {
// Well below what a supervisor waits for; rare enough to leave the main thread's calls alone.
constexpr std::chrono::milliseconds between_looks{50};
}  // namespace

Progress::Progress(int device, protocol::SharedPage& page) : page_(page) {
  for (Event& event : events_) event = make_marker_event();
  thread_ = std::jthread([this, device](const std::stop_token& stop) { poll_periodically(stop, device); });
}

void Progress::mark(cudaStream_t stream, int operations) {
  {
    const std::lock_guard lock(mutex_);
    carried_ += static_cast<std::uint64_t>(operations);
    if (marks_.size() == most_marks) poll_locked();
    if (marks_.size() == most_marks) return;
    check(cudaEventRecord(events_[next_event_].get(), stream), "cudaEventRecord");
    marks_.push_back({next_event_, carried_});
    carried_ = 0;
    next_event_ = (next_event_ + 1) % most_marks;
  }
  wake_.notify_one();
}

void Progress::poll() {
  const std::lock_guard lock(mutex_);
  poll_locked();
}

void Progress::poll_locked() {
  bool any = false;
  // An error counts as not finished: the main thread meets it too and reports it.
  while (!marks_.empty() && cudaEventQuery(events_[marks_.front().event].get()) == cudaSuccess) {
    page_.completed.fetch_add(marks_.front().operations);
    marks_.pop_front();
    any = true;
  }
  if (any)
    page_.last_completion_ns.store(static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count()));
}

void Progress::poll_periodically(const std::stop_token& stop, int device) {
  // A thread starts on device 0, where its first call would make a context that nobody wants.
  if (cudaSetDevice(device) != cudaSuccess) return;
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake_.wait(lock, stop, [&] { return !marks_.empty(); });
    wake_.wait_for(lock, stop, between_looks, [] { return false; });
    poll_locked();
  }
}

}  // namespace p5::nccl
