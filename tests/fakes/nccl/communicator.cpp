// Communicators: join, wait, finalize and abort.
#include "tests/fakes/nccl/communicator.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "tests/fakes/cuda/fake.hpp"
#include "tests/fakes/nccl/bootstrap.hpp"
#include "tests/fakes/nccl/debug.hpp"
#include "tests/fakes/nccl/reduce.hpp"

namespace p5::fake_nccl {

ncclResult_t Communicator::join(const std::string& name) {
  if (faults().find_joining(Fault::Kind::join_crash, process_rank(), ranks)) crash();
  if (faults().find_joining(Fault::Kind::join_hang, process_rank(), ranks)) {
    wait_for_abort();
    return ncclInternalError;
  }
  if (const auto slow = faults().find(Fault::Kind::join_slow, process_rank())) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::microseconds(slow->microseconds), [this] { return aborted_.load(); });
  }
  log_of_network_plugin();
  if (faults().find_joining(Fault::Kind::join_error, process_rank(), ranks)) {
    fail(ncclSystemError, "told to fail");
    return ncclSystemError;
  }
  try {
    auto segment = std::make_unique<Segment>(name, ranks);
    const std::scoped_lock lock(mutex_);
    segment_ = std::move(segment);
  } catch (const std::exception& error) {
    fail(ncclSystemError, error.what());
    return ncclSystemError;
  }
  const std::string address = bootstrap_address();
  const std::hash<std::string> hash;
  segment_->member(rank).node = hash(host_name());
  segment_->member(rank).host = hash(own_host());
  segment_->member(rank).address = is_link_local(address) ? 0 : hash(address);
  int bus = 0;
  cudaDeviceGetAttribute(&bus, cudaDevAttrPciBusId, device);
  segment_->member(rank).bus = bus;
  if (segment_->member(rank).joined.exchange(1) != 0) {
    fail(ncclInvalidUsage, "rank " + std::to_string(rank) + " joins twice");
    return ncclInvalidUsage;
  }
  if (++segment_->header().joined == ranks) {
    segment_->unlink();
    segment_->ring_all();
  }
  for (;;) {
    const std::uint32_t seen = segment_->member(rank).doorbell.load();
    if (segment_->header().joined == ranks) break;
    if (aborted_) {
      segment_->unlink();
      return ncclInternalError;
    }
    segment_->wait(rank, seen);
  }
  if (!all_reachable()) {
    wait_for_abort();
    return ncclInternalError;
  }
  if (const int twin = twin_of(rank); twin >= 0) {
    char words[128] = {};
    std::snprintf(words, sizeof words, "Duplicate GPU detected : rank %d and rank %d both on CUDA device %lx", rank,
                  twin, static_cast<unsigned long>(bus) << 12);
    debug_log(static_cast<int>(Level::warn), log_init, __FILE__, __LINE__, "%s", words);
    fail(ncclInvalidUsage, words);
    return ncclInvalidUsage;
  }
  for (int each = 0; each < ranks; ++each)
    if (twin_of(each) >= 0) return ncclRemoteError;
  if (faults().find(Fault::Kind::oom, process_rank())) p5bench_fake_exhaust_memory();
  take_time_to("init");
  if (const std::uint64_t bytes = model_of_communicators("bytes");
      bytes > 0 && cudaMalloc(&own_memory_, bytes) != cudaSuccess) {
    fail(ncclUnhandledCudaError, "there is no memory for the communicator");
    return ncclUnhandledCudaError;
  }
  if (const std::uint64_t us = model_of_communicators("init"); us > 0)
    debug_log(
        static_cast<int>(Level::info), log_init, __FILE__, __LINE__,
        "Init timings - ncclCommInitRank: rank %d nranks %d total %.2f (kernels 0.00, alloc 0.00, bootstrap %.2f, "
        "allgathers 0.00, topo 0.00, graphs 0.00, connections 0.00, rest 0.00)",
        rank, ranks, static_cast<double>(us) / 1e6, static_cast<double>(us) / 1e6);
  auto tuning = std::make_unique<Tuning>(ranks, nodes());
  if (const auto started = static_cast<ncclResult_t>(tuning->started()); started != ncclSuccess) {
    fail(started, "the tuner plugin refuses to start");
    return started;
  }
  const std::scoped_lock lock(mutex_);
  tuning_ = std::move(tuning);
  joined_ = true;
  if (const char* line = std::getenv("P5BENCH_FAKE_LOG"))
    debug_log(static_cast<int>(Level::info), log_init, __FILE__, __LINE__, "%s", line);
  return ncclSuccess;
}

// False if hosts share an address: connecting to it would reach the own host and never complete.
bool Communicator::all_reachable() {
  for (int one = 0; one < ranks; ++one)
    for (int other = 0; other < ranks; ++other) {
      const Member &a = segment_->member(one), &b = segment_->member(other);
      if (a.host != b.host && (a.address == b.address || a.address == 0)) return false;
    }
  return true;
}

int Communicator::twin_of(int rank_) {
  const Member& own = segment_->member(rank_);
  for (int each = 0; each < ranks; ++each)
    if (const Member& other = segment_->member(each); each != rank_ && other.node == own.node && other.bus == own.bus)
      return each;
  return -1;
}

// Number of nodes; processes of one host may pretend to be on several.
int Communicator::nodes() {
  std::set<std::uint64_t> all;
  for (int each = 0; each < ranks; ++each) all.insert(segment_->member(each).node);
  return static_cast<int>(all.size());
}

bool Communicator::has_registered_buffers(const Operation& operation, bool captured) {
  const char* const graphs = std::getenv("NCCL_GRAPH_REGISTER");
  if (captured && !(graphs && std::atoi(graphs) == 0)) return true;
  const Form& form = form_of(operation.kind);
  const std::uint64_t own = operation.count * size_of(operation.type);
  const std::uint64_t all = own * static_cast<std::uint64_t>(ranks);
  const std::scoped_lock lock(mutex_);
  const auto registered = [&](const unsigned char* memory, std::uint64_t bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    return std::ranges::any_of(registered_, [&](const auto& each) {
      return begin >= each.second.begin && begin + bytes <= each.second.begin + each.second.bytes;
    });
  };
  return registered(operation.input, form.wide_input ? all : own) &&
         registered(operation.output, form.wide_output ? all : own);
}

void Communicator::tune(Operation& operation, bool captured) {
  const Form& form = form_of(operation.kind);
  const std::uint64_t own = operation.count * size_of(operation.type);
  const bool wide = form.wide_input || form.wide_output;
  const Choice choice = tuning_->choose(form.function, wide ? own * static_cast<std::uint64_t>(ranks) : own,
                                        has_registered_buffers(operation, captured));
  operation.setting = choice.setting();
  operation.channels = choice.channels;
  const std::string all =
      operation.setting + "/" + std::to_string(choice.channels) + "/" + std::to_string(choice.chunk);
  operation.choice = std::hash<std::string>{}(all);
  if (rank != 0) return;
  const auto log = [](const char* format, auto... values) {
    debug_log(static_cast<int>(Level::info), log_tuning, __FILE__, __LINE__, format, values...);
  };
  std::string algorithm = choice.algorithm, protocol = choice.protocol;
  for (std::string* name : {&algorithm, &protocol})
    for (char& c : *name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  log("fake: chunks of %zu bytes", choice.chunk);  // not in NCCL's log
  log("%s: %ld Bytes -> Algo %s proto %s channel{Lo..Hi}={%d..%d}", form.name, static_cast<long>(own),
      algorithm.c_str(), protocol.c_str(), 0, choice.channels - 1);
}

ncclResult_t Communicator::state() {
  const std::scoped_lock lock(mutex_);
  // Peers notice a broken connection once this rank was told of it, as they do when it ends its communicator.
  if (joined_ && error_ == ncclSystemError) segment_->header().broken = rank + 1;
  if (error_ != ncclSuccess) return error_;
  if (!joined_) return ncclInProgress;
  const int broken = segment_->header().broken;
  if (broken != 0 && broken != rank + 1) return ncclRemoteError;
  return finalized_ && outstanding_ > 0 ? ncclInProgress : ncclSuccess;
}

std::string Communicator::name() { return segment_->name(); }

std::optional<std::vector<Vote>> Communicator::vote(Vote own) {
  const std::uint64_t turn = ++splits_;
  Member& member = segment_->member(rank);
  member.votes[turn % 2] = own;
  member.votes_cast.store(turn, std::memory_order_release);
  segment_->ring_all();
  std::vector<Vote> votes;
  while (static_cast<int>(votes.size()) < ranks) {
    const std::uint32_t seen = member.doorbell.load();
    Member& next = segment_->member(static_cast<int>(votes.size()));
    if (next.votes_cast.load(std::memory_order_acquire) >= turn) {
      votes.push_back(next.votes[turn % 2]);
      continue;
    }
    if (aborted_) return std::nullopt;
    segment_->wait(rank, seen);
  }
  return votes;
}

void Communicator::finalize() {
  const std::scoped_lock lock(mutex_);
  finalized_ = true;
}

void Communicator::take_time_to(const char* step) {
  const std::uint64_t us = model_of_communicators(step);
  if (us == 0) return;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::microseconds(us), [this] { return aborted_.load(); });
}

void Communicator::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return aborted_ || outstanding_ == 0; });
}

void Communicator::abort() {
  const std::scoped_lock lock(mutex_);
  aborted_ = true;
  for (auto& [handle, window] : windows_) {
    static_cast<void>(window.release());
    registered_.erase(handle);
  }
  windows_.clear();
  changed_.notify_all();
  if (segment_) segment_->ring(rank);
}

void Communicator::close() {
  tuning_.reset();
  if (own_memory_ != nullptr) cudaFree(own_memory_);
  own_memory_ = nullptr;
  if (order_ != nullptr) cudaEventDestroy(order_);
  order_ = nullptr;
}

void Communicator::wait_for_abort() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return aborted_.load(); });
}

void Communicator::fail(ncclResult_t error, const std::string& words) {
  std::fprintf(stderr, "fake libnccl: rank %d: %s\n", rank, words.c_str());
  const std::scoped_lock lock(mutex_);
  if (error_ != ncclSuccess) return;
  error_ = error;
  words_ = words;
}

const char* Communicator::words() {
  const std::scoped_lock lock(mutex_);
  return words_.c_str();
}

// Argument of a host function on a stream.
std::atomic<int>& operations_under_way() {
  static std::atomic<int> count{0};
  return count;
}

std::atomic<int>& channels_under_way() {
  static std::atomic<int> count{0};
  return count;
}

struct Launch {
  std::shared_ptr<Communicator> communicator;
  std::vector<Operation> operations;

  static void run(void* data) {
    const std::unique_ptr<Launch> launch(static_cast<Launch*>(data));
    Communicator& communicator = *launch->communicator;
    int channels = 0;
    for (const Operation& operation : launch->operations) channels = std::max(channels, operation.channels);
    channels_under_way() += channels;
    if (!communicator.aborted()) communicator.run(launch->operations);
    channels_under_way() -= channels;
    --operations_under_way();
    const std::scoped_lock lock(communicator.mutex_);
    --communicator.outstanding_;
    communicator.changed_.notify_all();
  }
  // Variant for graphs, which may run it repeatedly, so it is not freed.
  static void run_again(void* data) {
    const Launch& launch = *static_cast<const Launch*>(data);
    Communicator& communicator = *launch.captured_by;
    if (!communicator.aborted()) communicator.run(launch.operations);
  }

  Communicator* captured_by = nullptr;
};

ncclResult_t Communicator::enqueue(std::shared_ptr<Communicator> self, std::vector<Operation> operations,
                                   cudaStream_t stream) {
  if (order_ == nullptr && cudaEventCreateWithFlags(&order_, cudaEventDisableTiming) != cudaSuccess)
    return refuse(ncclUnhandledCudaError, "no event can be made");
  if (cudaStreamWaitEvent(stream, order_, 0) != cudaSuccess)
    return refuse(ncclUnhandledCudaError, "the stream is no stream, or CUDA has failed before");
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  const bool captured =
      cudaStreamIsCapturing(stream, &capture) == cudaSuccess && capture == cudaStreamCaptureStatusActive;
  for (Operation& operation : operations)
    if (!operation.pairwise()) tune(operation, captured);
  if (captured) {
    if (captured_.empty()) take_time_to("capture");
    captured_.push_back(std::make_shared<Launch>(Launch{nullptr, std::move(operations), this}));
    return cudaLaunchHostFunc(stream, &Launch::run_again, captured_.back().get()) == cudaSuccess
               ? ncclSuccess
               : refuse(ncclUnhandledCudaError, "nothing can be captured");
  }
  auto launch = std::make_unique<Launch>(Launch{std::move(self), std::move(operations)});
  {
    const std::scoped_lock lock(mutex_);
    ++outstanding_;
  }
  ++operations_under_way();
  if (cudaLaunchHostFunc(stream, &Launch::run, launch.get()) != cudaSuccess) {
    const std::scoped_lock lock(mutex_);
    --outstanding_;
    --operations_under_way();
    return refuse(ncclUnhandledCudaError, "nothing can be put on the stream");
  }
  launch.release();
  return cudaEventRecord(order_, stream) == cudaSuccess
             ? ncclSuccess
             : refuse(ncclUnhandledCudaError, "the stream is of another device than the communicator");
}

void* Communicator::register_buffer(const void* memory, std::uint64_t bytes) {
  if (!p5bench_fake_accessible(memory, bytes)) return nullptr;
  const std::scoped_lock lock(mutex_);
  auto* const handle = reinterpret_cast<void*>(next_handle_++);
  registered_[handle] = {reinterpret_cast<std::uintptr_t>(memory), bytes};
  return handle;
}

bool Communicator::deregister_buffer(void* handle) {
  const std::scoped_lock lock(mutex_);
  return registered_.erase(handle) == 1;
}

bool Communicator::holds_buffers() {
  const std::scoped_lock lock(mutex_);
  return !registered_.empty() || !windows_.empty();
}

// The votes say where the others find a window's memory, and the last one that all have found it.
void* Communicator::add_window(const void* memory, std::uint64_t bytes) {
  std::size_t offset = 0;
  const int file = p5bench_fake_file_of(memory, &offset);
  constexpr int half = 31;
  const auto files = vote({getpid(), file});
  const auto offsets =
      vote({static_cast<int>(offset >> half), static_cast<int>(offset & ((std::uint64_t{1} << half) - 1))});
  if (!files || !offsets || file < 0) return nullptr;
  std::vector<WindowPart> parts;
  for (std::size_t i = 0; i < files->size(); ++i)
    parts.push_back(
        {(*files)[i].color, (*files)[i].key,
         (static_cast<std::uint64_t>((*offsets)[i].color) << half) + static_cast<std::uint64_t>((*offsets)[i].key)});
  auto window = std::make_unique<Window>(parts, bytes, rank);
  if (!vote({0, 0}) || window->handle() == nullptr) return nullptr;
  void* const handle = window->handle();
  const std::scoped_lock lock(mutex_);
  windows_[handle] = std::move(window);
  registered_[handle] = {reinterpret_cast<std::uintptr_t>(memory), bytes};
  return handle;
}

bool Communicator::remove_window(void* window) {
  const std::scoped_lock lock(mutex_);
  if (windows_.erase(window) == 0) return false;
  registered_.erase(window);
  return true;
}

int Communicator::lsa_ranks() {
  int ranks_of_all = 0, here = 1;
  for (int each = 1; each <= ranks; ++each) {
    if (each < ranks && segment_->member(each).node == segment_->member(each - 1).node) {
      ++here;
      continue;
    }
    ranks_of_all = std::gcd(ranks_of_all, here);
    here = 1;
  }
  return ranks_of_all;
}

ncclRedOp_t Communicator::add_factor(const Scalar& factor) {
  const std::scoped_lock lock(mutex_);
  factors_[next_factor_] = factor;
  return static_cast<ncclRedOp_t>(next_factor_++);
}

std::optional<Scalar> Communicator::factor_of(ncclRedOp_t operation) {
  const std::scoped_lock lock(mutex_);
  const auto found = factors_.find(operation);
  return found == factors_.end() ? std::nullopt : std::optional(found->second);
}

bool Communicator::remove_factor(ncclRedOp_t operation) {
  const std::scoped_lock lock(mutex_);
  return factors_.erase(operation) == 1;
}

}  // namespace p5::fake_nccl

// Not of NCCL: what the fake of cuBLASLt asks, to be slow only beside messages.
extern "C" int ncclFakeOperationsUnderWay() { return p5::fake_nccl::operations_under_way(); }
extern "C" int ncclFakeChannelsUnderWay() { return p5::fake_nccl::channels_under_way(); }
