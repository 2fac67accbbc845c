// The memory of a group's GPUs for device-initiated collectives: a symmetric window of NCCL's, whose parts each GPU
// addresses (load/store accessible memory, LSA).
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/backends/nccl/engine.hpp"
#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/peer_kernels.hpp"
#include "bench/model/collective.hpp"

namespace p5::nccl {

class Peers {
 public:
  // Why the ranks of a communicator have no such memory; "" if they have. Collective over them.
  static std::string unavailable(ncclComm_t communicator);

  // Collective. `memory` is ncclMemAlloc's, as long on all ranks, and begins with the space of PeerFlags.
  Peers(ncclComm_t communicator, const Member& self, std::byte* memory, std::uint64_t bytes, Queue& queue);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  const PeerMemory& memory() const { return peers_; }
  PeerBuffers buffers(const void* input, const void* output) const;
  // Ends kernels that wait for peers, and leaves the window to the communicator, which is aborted.
  void abandon();

 private:
  ncclComm_t communicator_;
  std::byte* memory_;
  void* window_ = nullptr;
  PinnedMemory stop_;
  PeerMemory peers_;
};

}  // namespace p5::nccl
