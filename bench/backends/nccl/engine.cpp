#include "bench/backends/nccl/engine.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>
#include <vector>

#include "bench/base/error.hpp"

namespace p5::nccl {

Engine::Engine(int device, protocol::SharedPage& page, TuningLog& log, const ncclUniqueId& id, int rank, int ranks)
    : rank_(rank),
      ranks_(ranks),
      log_(log),
      queue_(device, page),
      one_element_(make_device_memory(sizeof(float))),
      gate_memory_(make_pinned_memory(sizeof(Gate))) {
  new (gate_memory_.get()) Gate;
  void* on_device = nullptr;
  check(cudaHostGetDevicePointer(&on_device, gate_memory_.get(), 0), "cudaHostGetDevicePointer");
  gate_on_device_ = static_cast<Gate*>(on_device);
  check(cudaMemsetAsync(one_element_.get(), 0, sizeof(float), stream()), "cudaMemsetAsync");
  ncclComm_t control = nullptr;
  check(ncclCommInitRank(&control, ranks, id, rank), "ncclCommInitRank");
  control_.reset(control);
  queue_.watch({control});
  align();  // connects what is connected at first use
  queue_.finish();
}

// Ranks of a group are in ascending order in it.
void Engine::form(const std::optional<Group>& group, Aligned aligned) {
  leave_groups();
  const auto split = [&](int color) {
    ncclComm_t made = nullptr;
    check(ncclCommSplit(control(), color, rank_, &made, nullptr), "ncclCommSplit");
    return made;
  };
  group_.reset(split(group ? *std::ranges::min_element(*group) : NCCL_SPLIT_NOCOLOR));
  if (aligned == Aligned::members) members_.reset(split(group ? 0 : NCCL_SPLIT_NOCOLOR));
  aligned_ = aligned;
  std::vector<ncclComm_t> watched{control()};
  for (const Communicator* each : {&group_, &members_})
    if (*each) watched.push_back(each->get());
  queue_.watch(std::move(watched));
}

void Engine::leave_groups() {
  constexpr int most_rounds = 4;  // each may hold hundreds of MiB of the device
  queue_.watch({control()});
  aligned_ = Aligned::job;
  for (Communicator* each : {&group_, &members_})
    if (*each) left_behind_.push_back(std::move(*each));
  // Counted alike on ranks that had none.
  if (++rounds_behind_ < most_rounds) return;
  rounds_behind_ = 0;
  leave(std::exchange(left_behind_, {}));
}

ncclComm_t Engine::aligning() const {
  switch (aligned_) {
    case Aligned::group:
      return group_.get();
    case Aligned::members:
      return members_.get();
    case Aligned::job:
      break;
  }
  return control();
}

void Engine::align() {
  ncclComm_t const together = aligning();
  if (!together) return;
  void* const element = one_element_.get();
  check(ncclAllReduce(element, element, 1, ncclFloat32, ncclSum, together, stream()), "ncclAllReduce to align");
}

void Engine::close_gate() {
  std::atomic_ref(gate().gave_up).store(0);
  std::atomic_ref(gate().open).store(0);
  hold_at(stream(), gate_on_device_);
}

void Engine::open_gate() { std::atomic_ref(gate().open).store(1); }

void Engine::check_gate() const {
  if (std::atomic_ref(gate().gave_up).load())
    throw CaseError("queueing the operations took longer than the device waits at the gate");
}

}  // namespace p5::nccl
