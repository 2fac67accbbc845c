// The tuner that ours has taken the place of, because NCCL loads only one (that of aws-ofi-nccl, on AWS): it is asked
// about the calls that nobody here has a wish for. P5BENCH_TUNER_CHAIN names its library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tuner/plugin/abi.hpp"
#include "tuner/plugin/log.hpp"

namespace p5::tuner {

// What NCCL passes to a tuner's start; null where the version in use has none of it.
struct Start {
  int version = 2;
  std::uint64_t communicator = 0;
  std::size_t ranks = 0, nodes = 0;
  abi::NvlinkDomains* domains = nullptr;
  abi::Constants* constants = nullptr;
  abi::ConstantsV7* constants_v7 = nullptr;
};

// One call as NCCL describes it.
struct Call {
  int function = 0;
  std::size_t bytes = 0;
  int pipelined = 1;
  int registered = 0;
  float* costs = nullptr;
  int algorithms = 0, protocols = 0;
  int* channels = nullptr;
};

// The same in version 2, where no costs are seen and the choice is named.
struct UnseenCall {
  int function = 0;
  std::size_t bytes = 0;
  int collnet_support = 0, nvls_support = 0, pipelined = 1;
  int *algorithm = nullptr, *protocol = nullptr, *channels = nullptr;
};

class ChainedTuner {
 public:
  virtual ~ChainedTuner() = default;
  virtual void choose(const Call& call) = 0;
  virtual void choose_unseen(const UnseenCall& call) = 0;
  virtual void chunk(int function, std::size_t bytes, int algorithm, int protocol, int channels,
                     std::size_t* chunk) = 0;
};

// Loads it and starts it for one communicator, in the highest version that it has and that this NCCL speaks: the one
// that NCCL itself would have used. Null when the variable is not set, or with a warning when that fails.
std::unique_ptr<ChainedTuner> start_chained_tuner(const Start& start, const Log& log);

}  // namespace p5::tuner
