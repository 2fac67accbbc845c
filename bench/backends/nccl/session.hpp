// One case on NCCL: its communicator, buffers and operations in the round at hand, and timing them with CUDA events.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bench/backend.hpp"
#include "bench/backends/nccl/buffers.hpp"
#include "bench/backends/nccl/engine.hpp"
#include "bench/backends/nccl/operations.hpp"
#include "bench/backends/nccl/registration.hpp"

namespace p5::nccl {

class NcclSession final : public Session {
 public:
  // The rounds of `c` hold this rank's own group each, or none. `usable_memory` is the same on all ranks.
  NcclSession(Case c, Engine& engine, std::uint64_t usable_memory);

  int slots() const override { return buffers_.slots(); }
  void warm_up(int round, int operations, const std::string& setting) override;
  Times sample(const SampleRequest& request) override;
  Verification verify(int round) override;
  // Of the group's first rank: only there NCCL tells.
  std::optional<Selection> selection() override { return selection_; }
  std::vector<Offer> offers() override;
  // Leaves the round's communicator together with its other members. Without it, it is aborted.
  void close() { leave_round(); }
  void abort();

 private:
  void enter(int round);
  void leave_round();
  void make_communicator();
  ncclComm_t communicator() const { return group_ ? group_.get() : engine_.world(); }
  cudaStream_t stream() const { return engine_.stream(); }

  void operate(int slot);
  // With the setting at hand.
  void operate_as_set(int slot);
  // On `count` slots from `first` on, wrapping round.
  void operate_on(int first, int count);
  // The same, as a CUDA graph where the case wants that, which get_ready() has made with the setting at hand.
  void launch(int first, int count);
  void get_ready(int first, int count);
  void operate_first();
  void check_granted(std::uint64_t calls_before) const;
  void start_clock();
  void stop_clock();
  double elapsed_s() const;
  double burst(int operations);
  double queued_ahead(int operations);
  double seconds_per_operation(const SampleRequest& request);

  Case case_;
  Engine& engine_;
  Enqueue enqueue_;
  Buffers buffers_;
  Event start_, stop_;

  int round_ = -1;
  std::optional<Place> place_;
  Communicator group_;  // none where the whole job is the group
  Registration registration_;
  std::map<std::tuple<int, int, std::string>, GraphLaunch> graphs_;  // by first slot, count, setting
  std::uint64_t fills_ = 0, fill_checked_ = 0;
  int cursor_ = 0, last_slot_ = 0, last_count_ = 0;
  std::string setting_;  // of the latest warm-up or samples
  std::optional<Selection> selection_;
  std::string selected_with_;  // the setting that it tells of
};

}  // namespace p5::nccl
