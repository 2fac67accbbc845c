// One rank's end of a communicator, and the operations that run on it.
#pragma once

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/fakes/nccl/faults.hpp"
#include "tests/fakes/nccl/segment.hpp"
#include "tests/fakes/nccl/tuning.hpp"

namespace p5::fake_nccl {

struct Operation {
  enum class Kind : std::uint32_t { all_reduce, all_gather, reduce_scatter, broadcast, reduce, send, receive };
  Kind kind = Kind::all_reduce;
  const unsigned char* input = nullptr;
  unsigned char* output = nullptr;
  std::uint64_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t reduction = ncclSum;
  int peer = 0;              // or the root
  std::uint64_t number = 0;  // among the process' operations, from 1; 0 for those that are not counted
  std::string setting = "";  // "ring/ll128", of collectives
  std::uint64_t choice = 0;  // all of it as a number, to be compared between ranks

  bool pairwise() const { return kind == Kind::send || kind == Kind::receive; }
};

// What a call is, as far as calls differ.
struct Form {
  int function = -1;      // as ncclFunc_t counts; -1: no tuner is asked
  const char* name = "";  // in the log
  bool reduces = false;
  bool wide_input = false, wide_output = false;  // as many times the count as there are ranks
};
const Form& form_of(Operation::Kind kind);

struct Launch;

class Communicator {
 public:
  Communicator(int rank_, int ranks_, int device_, bool blocking_)
      : rank(rank_), ranks(ranks_), device(device_), blocking(blocking_) {}

  const int rank, ranks, device;
  const bool blocking;

  // Opens the segment and waits for the others. What comes out is also what state() says from now on.
  ncclResult_t join(const std::string& name);
  // ncclInProgress while joining or finalizing, an error, or ncclSuccess.
  ncclResult_t state();
  std::string name();
  // All ranks' votes, in the order of ranks; nothing when aborted.
  std::optional<std::vector<Vote>> vote(Vote own);
  // The splits so far, this one included.
  std::uint64_t splits() const { return splits_; }

  // Puts operations, which run at the same time where they are pairwise, behind the stream's work and this
  // communicator's earlier operations.
  ncclResult_t enqueue(std::shared_ptr<Communicator> self, std::vector<Operation> operations, cudaStream_t stream);
  void finalize();
  // Waits until all that was enqueued has run; not when aborted.
  void drain();
  void abort();
  // Gives back what only a thread may give back that is not a stream's; the last act before the handle goes.
  void close();
  bool aborted() const { return aborted_; }

  // Buffers that are known beforehand. Null: the device cannot reach them.
  void* register_buffer(const void* memory, std::uint64_t bytes);
  bool deregister_buffer(void* handle);
  bool holds_buffers();

  // The first error stays, with words that live as long as this.
  void fail(ncclResult_t error, const std::string& words);
  const char* words();

 private:
  friend struct Launch;
  struct Transfer;

  bool all_reachable();
  int nodes();
  // A rank of the same node and device, as NCCL refuses them; -1: none.
  int twin_of(int rank_);
  // What a collective is to run with; tells it to the log.
  void tune(Operation& operation);
  void run(const std::vector<Operation>& operations);
  // Faults that come before an operation. False: do nothing more.
  bool survive_faults(const Operation& operation);
  void wait_for_abort();
  void run_collective(const Operation& operation);
  void run_pairwise(const std::vector<Operation>& operations);
  bool perform(const Operation& operation);
  bool all_reduce(const Operation& operation);
  bool all_gather(const Operation& operation);
  bool reduce_scatter(const Operation& operation);
  bool broadcast(const Operation& operation);
  bool reduce(const Operation& operation);
  // Elements that lie one after the other, one run for each rank, to their reduction in this rank's run.
  void combine(unsigned char* runs, std::uint64_t count, const Operation& operation) const;
  bool move(std::vector<Transfer> transfers);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Segment> segment_;
  std::unique_ptr<Tuning> tuning_;
  bool joined_ = false;
  bool finalized_ = false;
  int outstanding_ = 0;
  ncclResult_t error_ = ncclSuccess;
  std::string words_;
  std::atomic<bool> aborted_ = false;
  std::uint64_t splits_ = 0;
  cudaEvent_t order_ = nullptr;                 // after the operations enqueued last
  std::vector<unsigned char> previous_result_;  // what a stale result consists of
  std::vector<unsigned char> previous_sent_;
  std::vector<std::shared_ptr<Launch>> captured_;  // in graphs, for as long as this lives
  std::map<void*, std::uint64_t> registered_;      // bytes, by handle
  std::uintptr_t next_handle_ = 1;
};

// Sets what ncclGetLastError says in this thread, and prints it.
ncclResult_t refuse(ncclResult_t result, const std::string& words);

}  // namespace p5::fake_nccl
