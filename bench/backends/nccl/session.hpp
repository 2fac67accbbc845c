// One round of a case on NCCL: its buffers and operations, and timing them with CUDA events.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bench/backends/nccl/buffers.hpp"
#include "bench/backends/nccl/engine.hpp"
#include "bench/backends/nccl/operations.hpp"
#include "bench/backends/nccl/registration.hpp"
#include "bench/model/backend.hpp"

namespace p5::nccl {

class NcclSession final : public Session {
 public:
  // On the communicators that the engine has. `usable_memory` is the same on all ranks.
  NcclSession(Case c, int round, std::optional<RankInGroup> place, Engine& engine, std::uint64_t usable_memory);

  int slots() const override { return buffers_.slots(); }
  void warm_up(int operations, const std::string& setting) override;
  Times sample(const SampleRequest& request) override;
  Verification verify() override;
  // Of the group's first rank: only there NCCL tells.
  std::optional<Selection> selection() override { return selection_; }
  std::vector<Offer> cost_table() override;
  // Gives back what belongs to its communicator, together with the other members.
  void close();
  void abort();

 private:
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
  int round_ = 0;
  std::optional<RankInGroup> place_;
  Engine& engine_;
  Enqueue enqueue_;
  Buffers buffers_;
  Event start_, stop_;

  Registration registration_;
  std::map<std::tuple<int, int, std::string>, GraphLaunch> graphs_;  // by first slot, count, setting
  std::uint64_t fills_ = 1, fill_checked_ = 1;
  int cursor_ = 0, last_slot_ = 0, last_count_ = 0;
  std::string setting_;  // of the latest warm-up or samples
  std::optional<Selection> selection_;
  std::string selected_with_;  // the setting that it tells of
};

}  // namespace p5::nccl
