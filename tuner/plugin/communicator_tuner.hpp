// The tuner of one communicator, behind all versions of NCCL's interface, and the chained tuner behind it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "tuner/plugin/policy.hpp"

namespace p5::tuner {

// NCCL's arguments to a tuner's initialization; null where the version has no such argument.
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

// One call in version 2, which has no cost table; the tuner names its choice.
struct CallV2 {
  int function = 0;
  std::size_t bytes = 0;
  int collnet_support = 0, nvls_support = 0, pipelined = 1;
  int *algorithm = nullptr, *protocol = nullptr, *channels = nullptr;
};

// The tuner that NCCL would have loaded without ours, because NCCL loads only one (on AWS, aws-ofi-nccl's). It gets the
// calls without an override. Its errors count as no answer: NCCL would fail the user's call.
class ChainedTuner {
 public:
  virtual ~ChainedTuner() = default;
  virtual void choose(const Call& call) = 0;
  virtual void choose_v2(const CallV2& call) = 0;
  virtual void chunk(int function, std::size_t bytes, int algorithm, int protocol, int channels,
                     std::size_t* chunk) = 0;
};

// Loads the library that P5BENCH_TUNER_CHAIN names and starts its tuner for one communicator, in the highest version
// that both it and this NCCL have, which NCCL itself would have used. Null when the variable is not set, or with a
// warning when the start fails.
std::unique_ptr<ChainedTuner> start_chained_tuner(const Start& start, const Log& log);

class CommunicatorTuner {
 public:
  CommunicatorTuner(const Start& start, abi::Logger logger);

  // Changes costs and channels of a call that has an override which NCCL offers. Other calls go to the chained tuner,
  // or stay as they are.
  void choose(const Call& call);
  void choose_v2(const CallV2& call);
  void chunk(int function, std::size_t bytes, int algorithm, int protocol, int channels, std::size_t* chunk);

 private:
  std::optional<Override> override_for(int function, std::size_t bytes) const;
  void remember_chunk(int function, const Setting& chosen);
  std::atomic<std::uint64_t>* chunk_of(int function, int algorithm, int protocol);

  Start start_;
  Log log_;
  bool constrained_;  // the operator has set NCCL_ALGO or NCCL_PROTO
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<ChainedTuner> chained_tuner_;
  // Chunk sizes of the last decisions for each function, algorithm and protocol; 0: none by us. NCCL queries chunk
  // sizes after choices, without naming the call. The last decision is the same on all ranks, since all make the same
  // calls.
  std::array<std::atomic<std::uint64_t>, std::size_t{abi::functions} * abi::algorithms * abi::protocols> chunks_{};
};

// True for the structures that this program or library exports.
bool is_own_tuner(const void* tuner);

}  // namespace p5::tuner
