// How communicators come together, wait, and end.
#include "tests/fakes/nccl/communicator.hpp"

#include <csignal>
#include <cstdio>
#include <exception>
#include <utility>

#include "tests/fakes/cuda/fake.hpp"

namespace p5::fake_nccl {

ncclResult_t Communicator::join(const std::string& name) {
  if (faults().find(Fault::Kind::join_crash, process_rank())) raise(SIGSEGV);
  if (faults().find(Fault::Kind::join_hang, process_rank())) {
    wait_for_abort();
    return ncclInternalError;
  }
  try {
    auto segment = std::make_unique<Segment>(name, ranks);
    const std::scoped_lock lock(mutex_);
    segment_ = std::move(segment);
  } catch (const std::exception& error) {
    fail(ncclSystemError, error.what());
    return ncclSystemError;
  }
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
  if (faults().find(Fault::Kind::oom, process_rank())) p5bench_fake_exhaust_memory();
  const std::scoped_lock lock(mutex_);
  joined_ = true;
  return ncclSuccess;
}

ncclResult_t Communicator::state() {
  const std::scoped_lock lock(mutex_);
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

void Communicator::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return aborted_ || outstanding_ == 0; });
}

void Communicator::abort() {
  const std::scoped_lock lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
  if (segment_) segment_->ring(rank);
}

void Communicator::close() {
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

// What a stream's thread is handed.
struct Launch {
  std::shared_ptr<Communicator> communicator;
  std::vector<Operation> operations;

  static void run(void* data) {
    const std::unique_ptr<Launch> launch(static_cast<Launch*>(data));
    Communicator& communicator = *launch->communicator;
    if (!communicator.aborted()) communicator.run(launch->operations);
    const std::scoped_lock lock(communicator.mutex_);
    --communicator.outstanding_;
    communicator.changed_.notify_all();
  }
};

ncclResult_t Communicator::enqueue(std::shared_ptr<Communicator> self, std::vector<Operation> operations,
                                   cudaStream_t stream) {
  if (order_ == nullptr && cudaEventCreateWithFlags(&order_, cudaEventDisableTiming) != cudaSuccess)
    return refuse(ncclUnhandledCudaError, "no event can be made");
  if (cudaStreamWaitEvent(stream, order_, 0) != cudaSuccess)
    return refuse(ncclUnhandledCudaError, "the stream is no stream, or CUDA has failed before");
  auto launch = std::make_unique<Launch>(Launch{std::move(self), std::move(operations)});
  {
    const std::scoped_lock lock(mutex_);
    ++outstanding_;
  }
  if (cudaLaunchHostFunc(stream, &Launch::run, launch.get()) != cudaSuccess) {
    const std::scoped_lock lock(mutex_);
    --outstanding_;
    return refuse(ncclUnhandledCudaError, "nothing can be put on the stream");
  }
  launch.release();
  return cudaEventRecord(order_, stream) == cudaSuccess
             ? ncclSuccess
             : refuse(ncclUnhandledCudaError, "the stream is of another device than the communicator");
}

}  // namespace p5::fake_nccl
