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
#include "tests/fakes/nccl/reduce.hpp"
#include "tests/fakes/nccl/segment.hpp"
#include "tests/fakes/nccl/tuning.hpp"
#include "tests/fakes/nccl/window.hpp"

namespace p5::fake_nccl {

struct Operation {
  enum class Kind : std::uint32_t { all_reduce, all_gather, reduce_scatter, broadcast, reduce, send, receive };
  Kind kind = Kind::all_reduce;
  const unsigned char* input = nullptr;
  unsigned char* output = nullptr;
  std::uint64_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t reduction = ncclSum;
  int peer = 0;                       // peer or root
  std::uint64_t number = 0;           // among this process's operations, from 1; 0: not counted
  std::string setting = "";           // collectives only: "ring/ll128"
  int channels = 0;                   // collectives only
  std::uint64_t choice = 0;           // hash of the complete choice, compared between ranks
  std::optional<Scalar> factor = {};  // this rank's of a pre-multiplied sum

  bool pairwise() const { return kind == Kind::send || kind == Kind::receive; }
};

// Properties in which calls differ.
struct Form {
  int function = -1;      // number in ncclFunc_t; -1: the tuner is not queried
  const char* name = "";  // in the log
  bool reduces = false;
  bool wide_input = false, wide_output = false;  // buffer of count elements for each rank
};
const Form& form_of(Operation::Kind kind);

struct Launch;

// Operations of this process that wait or run, on all communicators, but for those of graphs.
std::atomic<int>& operations_under_way();
// Channels of the collectives of this process that run, on all communicators, but for those of graphs.
std::atomic<int>& channels_under_way();

class Communicator {
 public:
  Communicator(int rank_, int ranks_, int device_, bool blocking_)
      : rank(rank_), ranks(ranks_), device(device_), blocking(blocking_) {}

  const int rank, ranks, device;
  const bool blocking;

  // Opens the segment and waits for the other ranks. state() returns the same result from then on.
  ncclResult_t join(const std::string& name);
  // ncclInProgress while joining or finalizing, else an error or ncclSuccess.
  ncclResult_t state();
  std::string name();
  // Votes of all ranks, in rank order; nothing if aborted.
  std::optional<std::vector<Vote>> vote(Vote own);
  // Number of splits so far, including the present one.
  std::uint64_t splits() const { return splits_; }

  // Enqueues operations after the stream's work and this communicator's earlier operations; pairwise ones run
  // concurrently.
  ncclResult_t enqueue(std::shared_ptr<Communicator> self, std::vector<Operation> operations, cudaStream_t stream);
  void finalize();
  // Waits as long as the model of communicators says, or until aborted: P5BENCH_FAKE_COMMUNICATOR.
  void take_time_to(const char* step);
  // Waits until all enqueued operations have run; returns early if aborted.
  void drain();
  void abort();
  // Frees resources that a stream's thread may not free; last call before the handle is removed.
  void close();
  bool aborted() const { return aborted_; }

  // Registers a buffer. Null: the device cannot access it.
  void* register_buffer(const void* memory, std::uint64_t bytes);
  bool deregister_buffer(void* handle);
  bool holds_buffers();

  // Collective: maps the windows of all ranks one behind the other. Null: the memory is not ncclMemAlloc's, or a rank
  // is gone. Only where the ranks are of one node.
  void* add_window(const void* memory, std::uint64_t bytes);
  // Nothing if there is no such window.
  bool remove_window(void* window);
  // Ranks that load from and store into each other's memory: consecutive ones of a node, as many everywhere.
  int lsa_ranks();

  // Pre-multiplied sums, by their number beyond the built-in operations.
  ncclRedOp_t add_factor(const Scalar& factor);
  std::optional<Scalar> factor_of(ncclRedOp_t operation);
  bool remove_factor(ncclRedOp_t operation);

  // Records an error unless there is one already; the text lives as long as this object.
  void fail(ncclResult_t error, const std::string& words);
  const char* words();

 private:
  friend struct Launch;
  struct Transfer;

  bool all_reachable();
  int nodes();
  // A rank on the same node and device, which NCCL rejects; -1: none.
  int twin_of(int rank_);
  // Chooses algorithm and protocol of a collective, and logs them.
  void tune(Operation& operation, bool captured);
  // NCCL's argument regBuff to tuners: both buffers are registered, or the call is captured in a graph that registers.
  bool has_registered_buffers(const Operation& operation, bool captured);
  void run(const std::vector<Operation>& operations);
  // Applies faults that precede an operation. False: skip the operation.
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
  // Reduces consecutive runs of elements, one per rank, into this rank's run.
  void combine(unsigned char* runs, std::uint64_t count, const Operation& operation) const;
  bool move(std::vector<Transfer> transfers);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Segment> segment_;
  std::unique_ptr<Tuning> tuning_;
  bool joined_ = false;
  bool connected_ = false;      // an operation has run
  void* own_memory_ = nullptr;  // of the device
  bool finalized_ = false;
  int outstanding_ = 0;
  ncclResult_t error_ = ncclSuccess;
  std::string words_;
  std::atomic<bool> aborted_ = false;
  std::uint64_t splits_ = 0;
  cudaEvent_t order_ = nullptr;                 // recorded after the latest operations
  std::vector<unsigned char> previous_result_;  // result that a stale-data fault repeats
  std::vector<unsigned char> previous_sent_;
  std::vector<std::shared_ptr<Launch>> captured_;  // launches in graphs, kept until destruction
  struct Buffer {
    std::uintptr_t begin = 0;
    std::uint64_t bytes = 0;
  };
  std::map<void*, Buffer> registered_;  // by handle; those of windows too
  std::uintptr_t next_handle_ = 1;
  std::map<void*, std::unique_ptr<Window>> windows_;  // by handle; those of an aborted communicator stay mapped
  std::map<int, Scalar> factors_;                     // by number of the operation
  int next_factor_ = ncclNumOps;
};

// Sets the text of ncclGetLastError in this thread, and prints it.
ncclResult_t refuse(ncclResult_t result, const std::string& words);

}  // namespace p5::fake_nccl
