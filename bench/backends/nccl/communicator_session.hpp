// The steps in the life of a communicator on NCCL, each timed on a communicator of its own; those of joining were timed
// by the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "bench/backends/nccl/engine.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/communicator_steps.hpp"
#include "bench/model/expected.hpp"

namespace p5::nccl {

class CommunicatorSession final : public Session {
 public:
  CommunicatorSession(const Case& c, std::optional<RankInGroup> place, Engine& engine);

  std::string unavailable() const override;
  int slots() const override { return 1; }
  void warm_up(int, const std::string&) override {}
  // Times by the host's clock, from when all members have reached the step until this one is through.
  Times sample(const SampleRequest& request) override;
  Verification verify() override { return {}; }
  std::optional<Selection> selection() override { return selection_; }
  CommunicatorCosts communicator_costs() override { return costs_; }

 private:
  double timed();
  double time_of_joining_again();
  double time_of_growing();
  double time_of_capture(ncclComm_t communicator);
  // The first rank's, on all members.
  ncclUniqueId of_first_rank(ncclUniqueId id);
  Communicator split() const;
  void operate(ncclComm_t communicator);
  // Waits until all members are here.
  void meet();
  double time_of(const std::function<void()>& step);

  const CommunicatorStep& step_;
  std::optional<RankInGroup> place_;
  Engine& engine_;
  std::uint64_t bytes_;  // of an operation
  std::optional<Selection> selection_;
  CommunicatorCosts costs_;
};

}  // namespace p5::nccl
