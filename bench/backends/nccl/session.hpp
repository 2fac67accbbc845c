// One round of a case on NCCL: buffers and their registration, operations, timing.
#pragma once

#include <nccl.h>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bench/backends/nccl/beside.hpp"
#include "bench/backends/nccl/buffers.hpp"
#include "bench/backends/nccl/engine.hpp"
#include "bench/backends/nccl/launch_order.hpp"
#include "bench/backends/nccl/operations.hpp"
#include "bench/backends/nccl/replay.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/progress.hpp"

namespace p5::nccl {

// Counts the operations launched on a stream that have finished, by marks between them.
class Backlog {
 public:
  static constexpr int every = 16;  // operations between marks
  void begin();                     // of a sample: nothing is launched
  void mark(cudaStream_t stream, int launched);
  int finished();

 private:
  struct Mark {
    Event event;
    int launched;
  };
  std::list<Mark> marks_;  // oldest first
  std::vector<Event> unused_;
  int finished_ = 0;
};

// Registration of a case's buffers with NCCL, which enables zero-copy transfers.
class Registration {
 public:
  Registration() = default;
  // kind: "none", "local" (ncclCommRegister, NCCL 2.19) or "symmetric" (ncclCommWindowRegister, NCCL 2.27; collective,
  // with equal buffer layouts). Throws CaseError if the library lacks it.
  Registration(const std::string& kind, ncclComm_t communicator, std::byte* memory, std::uint64_t bytes);
  ~Registration();
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;

  // Drops the handle after its communicator was aborted.
  void forget() { handle_ = nullptr; }

 private:
  ncclComm_t communicator_ = nullptr;
  void* handle_ = nullptr;
  bool window_ = false;
};

class NcclSession final : public Session {
 public:
  // Uses the engine's communicators. `usable_memory` is the same on all ranks.
  NcclSession(Case c, int round, std::optional<RankInGroup> place, Engine& engine, std::uint64_t usable_memory);

  std::string unavailable() const override;
  int slots() const override { return turn_.slots; }
  void warm_up(int operations, const std::string& setting) override;
  Times sample(const SampleRequest& request) override;
  ConcurrentTimes sample_concurrently(const ConcurrentRequest& request) override;
  Verification verify() override;
  // Set at the group's first rank only, whose NCCL logs it.
  std::optional<Selection> selection() override { return selection_; }
  std::optional<double> host_time() override;
  std::vector<Offer> cost_table() override;
  // Releases resources of the communicator; collective over its members.
  void close() override;
  void abort();
  // The works that have not ended in the sample with works beside the case that runs, as text; "" if none runs.
  std::string unfinished() const;

 private:
  cudaStream_t stream() const { return engine_.stream(); }

  void open_works();
  Verification verify_own();
  int operations_of(const SampleRequest& request) const;
  void operate(int slot);
  // Operates on `count` slots from `first`, wrapping round, in groups as the case wants them.
  void operate_on(int first, int count);
  // One group of operations with `setting_` forced.
  void operate_with_setting(int first);
  // The same, with the CUDA graph that prepare_graph() captured if the case uses graphs.
  void launch(int first, int count);
  void prepare_graph(int first, int count);
  void with_selection(const std::function<void()>& operate);
  void operate_first();
  void require_forced_setting(std::uint64_t calls_before) const;
  void start_clock();
  void stop_clock();
  static double seconds_between(const Event& start, const Event& end);
  double burst(int operations);
  double sample_device_time(int operations);
  double seconds_per_operation(const SampleRequest& request);

  // Parts of a sample with works beside the case: 0 is the case's own operation, the others are works_.
  std::size_t parts() const { return works_.size() + 1; }
  cudaStream_t stream_of(std::size_t part) const { return part == 0 ? stream() : works_[part - 1]->stream(); }
  bool runs(std::size_t part, const ConcurrentRequest& request) const;
  // Queues the operations of all parts in proportion, those of communicators in the same order on all ranks, and marks
  // each part's end. Opens the gate on the way, when many are queued. `slot`: of the case's first operation.
  void operate_together(const ConcurrentRequest& request, int slot);
  LaunchOrder launch_order(const ConcurrentRequest& request) const;
  std::vector<double> run_together(const ConcurrentRequest& request, bool poison);
  void mark(std::size_t part);
  std::vector<double> ends_of_parts() const;
  std::vector<WorkProgress> progress_of_parts(const ConcurrentRequest& request) const;

  Case case_;
  int round_ = 0;
  std::optional<RankInGroup> place_;
  int peer_ = 0;  // of a pair: the other one's rank in the communicator
  Engine& engine_;
  Enqueue enqueue_;
  std::vector<Layout> layouts_;            // of the case and of each collective beside it
  std::vector<ncclComm_t> communicators_;  // of each collective beside it
  std::byte* memory_;                      // for all of the layouts, one behind the other
  Buffers buffers_;
  std::vector<std::unique_ptr<WorkBeside>> works_;
  Event start_, stop_;
  // Ends of some operations of a part in the last steady sample: of each `every`th before the last one.
  struct Marks {
    int every = 1, used = 0;
    std::vector<Event> events;
  };
  std::vector<Marks> marks_;            // of each part
  std::vector<Event> ends_;             // of each part
  std::vector<Backlog> backlogs_;       // of each part
  std::unique_ptr<StepOnDevice> step_;  // that is replayed, of works_
  std::vector<bool> ran_together_;      // parts that ran in the last sample of several; empty: none has run

  std::unique_ptr<Peers> peers_;  // of a device-initiated collective
  std::string no_peers_;          // why there are none, where there should be
  Registration registration_;
  Reduction reduction_;
  LocalRowsOnDevice rows_;
  std::vector<double> host_times_;  // of bursts of host_operations_
  int host_operations_ = 0;
  std::map<std::tuple<int, int, std::string>, GraphLaunch> graphs_;  // key: first slot, count, setting
  std::uint64_t fills_ = 1, fill_checked_ = 1;
  SlotsInTurn turn_;
  std::string setting_;  // setting of the last warm-up or sample
  std::optional<Selection> selection_;
  std::string selected_with_;  // setting of `selection_`
};

}  // namespace p5::nccl
