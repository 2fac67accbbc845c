// The tuner of one communicator, behind all versions of NCCL's interface.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tuner/plugin/chained_tuner.hpp"
#include "tuner/plugin/log.hpp"
#include "tuner/plugin/policy.hpp"

namespace p5::tuner {

class CommunicatorTuner {
 public:
  CommunicatorTuner(const Start& start, abi::Logger logger);

  // Changes costs and channels of a call that somebody has a wish for and that NCCL offers so; leaves others to the
  // chained tuner, or as they are.
  void choose(const Call& call);
  void choose_unseen(const UnseenCall& call);
  void chunk(int function, std::size_t bytes, int algorithm, int protocol, int channels, std::size_t* chunk);

 private:
  std::optional<Override> override_for(int function, std::size_t bytes) const;
  void remember_chunk(int function, const Setting& chosen);
  std::atomic<std::uint64_t>* chunk_of(int function, int algorithm, int protocol);

  Start start_;
  Log log_;
  bool constrained_;  // the operator has said which algorithms or protocols NCCL may use
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<ChainedTuner> chained_tuner_;
  // NCCL asks for chunk sizes after it has asked for choices, and does not say for which call. What was decided last
  // for the same function, algorithm and protocol is alike on all ranks, since all make the same calls. 0: not by us.
  std::array<std::atomic<std::uint64_t>, std::size_t{abi::functions} * abi::algorithms * abi::protocols> chunks_{};
};

// Whether this is one of the structures that this program or library exports.
bool is_ours(const void* tuner);

}  // namespace p5::tuner
