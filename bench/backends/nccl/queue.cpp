#include "bench/backends/nccl/queue.hpp"
#include "bench/base/units.hpp"

#include <sched.h>

#include <chrono>
#include <thread>

namespace p5::nccl {

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

bool Queue::rests_within(Seconds limit) const {
  const auto start = Clock::now();
  while (cudaStreamQuery(stream()) != cudaSuccess) {
    if (since(start).count > limit.count) return false;
    std::this_thread::sleep_for(between_checks);
  }
  return true;
}

void Queue::check_communicators() const {
  for (ncclComm_t communicator : watched_) {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError");
    if (state != ncclInProgress) check(state, "NCCL, while an operation ran");
  }
}

}  // namespace p5::nccl
