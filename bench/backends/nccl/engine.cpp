#include "bench/backends/nccl/engine.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "bench/backends/nccl/handles.hpp"
#include "bench/base/error.hpp"
#include "bench/base/units.hpp"
#include "bench/model/communicator_steps.hpp"

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
  wait_until([this] { return has_ended(cudaStreamQuery(stream()), "cudaStreamQuery"); }, waiting);
  progress_.poll();
}

void Queue::wait_until(const std::function<bool()>& holds, Waiting waiting) const {
  const auto start = Clock::now();
  auto checked = start;
  while (!holds()) {
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
}

bool Queue::idle_within(Seconds limit) const {
  const auto start = Clock::now();
  while (cudaStreamQuery(stream()) == cudaErrorNotReady) {
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

std::byte* Arena::reserve(std::uint64_t bytes) {
  if (bytes <= size_) return memory_.get();
  memory_.reset();
  size_ = 0;
  void* memory = nullptr;
  // ncclMemAlloc's memory supports registration and multicast; nccl-tests uses it too.
  const OptionalCalls& calls = optional_calls();
  if (calls.mem_alloc && calls.mem_free) {
    check(calls.mem_alloc(&memory, bytes), fmt::format("ncclMemAlloc of {} bytes", bytes));
    memory_ = {static_cast<std::byte*>(memory), [](std::byte* at) { optional_calls().mem_free(at); }};
  } else {
    check(cudaMalloc(&memory, bytes), fmt::format("cudaMalloc of {} bytes", bytes));
    memory_ = {static_cast<std::byte*>(memory), [](std::byte* at) { cudaFree(at); }};
  }
  size_ = bytes;
  return memory_.get();
}

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
  const CommunicatorCosts at_first = footprint();
  const auto start = Clock::now();
  ncclComm_t control = nullptr;
  check(ncclCommInitRank(&control, ranks, id, rank), "ncclCommInitRank");
  control_.reset(control);
  joining_.seconds = since(start).count;
  const CommunicatorCosts joined = footprint();
  joining_.costs = grown(at_first, joined);
  joining_.costs.merge(log_.init_timings());
  watch_communicators();
  const auto joined_at = Clock::now();
  align();  // opens connections that NCCL makes at first use
  queue_.finish();
  first_operation_ = {since(joined_at).count, grown(joined, footprint())};
}

CommunicatorCosts Engine::footprint() const {
  CommunicatorCosts now = p5::footprint();
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  now["gpu_memory_bytes"] = static_cast<double>(total - free);
  return now;
}

// A group's communicator has its ranks in ascending order. Groups of a round are told apart by their lowest rank.
Communicator Engine::split(const std::optional<Group>& group, const std::string& cta_policy) const {
  ncclComm_t made = nullptr;
  const int color = group ? *std::ranges::min_element(*group) : NCCL_SPLIT_NOCOLOR;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  const bool configures = set_cta_policy(config, cta_policy);
  check(ncclCommSplit(control(), color, rank_, &made, configures ? &config : nullptr), "ncclCommSplit");
  return Communicator(made);
}

void Engine::watch_communicators() {
  std::vector<Queue::Watched> watched{{.communicator = control()}};
  for (const Communicator* each : {&group_, &members_})
    if (*each) watched.push_back({.communicator = each->get()});
  for (const auto& [key, each] : beside_)
    if (each.communicator) watched.push_back({each.communicator.get(), each.work});
  queue_.watch(std::move(watched));
}

void Engine::form(const std::optional<Group>& group, Aligned aligned, const std::string& cta_policy) {
  leave_groups();
  group_ = split(group, cta_policy);
  if (group) members_of_group_ = *group;
  std::ranges::sort(members_of_group_);
  if (aligned == Aligned::members) members_ = split(group ? std::optional(Group{0}) : std::nullopt);
  aligned_ = aligned;
  watch_communicators();
}

std::vector<ncclComm_t> Engine::form_beside(const std::vector<BesideGroup>& groups) {
  std::vector<ncclComm_t> communicators;
  for (const BesideGroup& each : groups) {
    const auto [place, is_new] = beside_.try_emplace(each.key);
    place->second.work = each.work;
    if (is_new) place->second.communicator = split(each.group);
    communicators.push_back(place->second.communicator.get());
  }
  watch_communicators();
  return communicators;
}

int Engine::rank_in_communicator(int rank) const {
  if (!group_) return rank;
  return static_cast<int>(std::ranges::lower_bound(members_of_group_, rank) - members_of_group_.begin());
}

void Engine::leave_groups() {
  constexpr int most_rounds = 4;  // each may hold hundreds of MiB of device memory
  aligned_ = Aligned::job;
  members_of_group_.clear();
  for (Communicator* each : {&group_, &members_})
    if (*each) old_communicators_.push_back(std::move(*each));
  watch_communicators();
  // The count includes ranks without a communicator, so it is equal on all.
  if (++old_rounds_ < most_rounds) return;
  old_rounds_ = 0;
  leave(std::exchange(old_communicators_, {}));
}

ncclComm_t Engine::aligned_communicator() const {
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
  if (ncclComm_t const together = aligned_communicator()) align_over(together);
}

void Engine::align_over(ncclComm_t together) {
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
