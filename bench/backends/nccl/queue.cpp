#include "bench/backends/nccl/queue.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <chrono>
#include <thread>

#include "bench/base/units.hpp"

namespace p5::nccl {

namespace {
// Well below the supervisor's timeout; rare enough not to disturb the main thread.
constexpr std::chrono::milliseconds poll_interval{50};
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
  // An error counts as not finished; the main thread sees and reports it.
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
  // New threads use device 0, where the first call would create an unwanted context.
  if (cudaSetDevice(device) != cudaSuccess) return;
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake_.wait(lock, stop, [&] { return !marks_.empty(); });
    wake_.wait_for(lock, stop, poll_interval, [] { return false; });
    poll_locked();
  }
}

namespace {
constexpr std::chrono::milliseconds between_checks{1};
constexpr std::chrono::milliseconds before_sleep{2};
constexpr std::chrono::microseconds sleep{50};
}  // namespace

Queue::Queue(int device, protocol::SharedPage& page) : page_(page), stream_(make_stream()), progress_(device, page) {}

void Queue::finish(Waiting waiting) {
  const auto start = Clock::now();
  auto checked = start;
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream());
    if (state == cudaSuccess) break;
    if (state != cudaErrorNotReady) check(state, "cudaStreamQuery");
    const auto now = Clock::now();
    if (now - checked > between_checks) {
      if (page_.give_up.load()) throw AbortRequested{};
      check_communicators();
      checked = now;
    }
    if (waiting == Waiting::relaxed && now - start > before_sleep)
      std::this_thread::sleep_for(sleep);
    else
      sched_yield();
  }
  progress_.poll();
}

bool Queue::idle_within(Seconds limit) const {
  const auto start = Clock::now();
  while (cudaStreamQuery(stream()) != cudaSuccess) {
    if (since(start).count > limit.count) return false;
    std::this_thread::sleep_for(between_checks);
  }
  return true;
}

void Queue::check_communicators() const {
  for (const auto& [communicator, operation] : watched_) {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError");
    if (state != ncclInProgress && state != ncclSuccess) check(state, fmt::format("NCCL, while {} ran", operation));
  }
}

}  // namespace p5::nccl
