// NCCL calls of each collective and pattern, and the memory that device-initiated ones use.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/backends/nccl/engine.hpp"
#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/kernels.hpp"
#include "bench/backends/nccl/peer_kernels.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"
#include "bench/model/collective.hpp"
#include "bench/model/expected.hpp"
#include "bench/model/tokens.hpp"

namespace p5::nccl {

// Rows that a rank copies or adds up in its own memory (collective.hpp), ready for the device.
class LocalRowsOnDevice {
 public:
  LocalRowsOnDevice() = default;
  LocalRowsOnDevice(const Case& c, const Member& self, cudaStream_t stream);

  const DeviceRows& packs() const { return packs_; }
  const DeviceRows& sums() const { return sums_; }

 private:
  DeviceRows upload(const Rows& rows, cudaStream_t stream);

  LocalRows rows_;  // copies to the device read it
  std::vector<DeviceMemory> memory_;
  DeviceRows packs_, sums_;
};

// The memory of a group's GPUs for device-initiated collectives: a symmetric window of NCCL's, whose parts each GPU
// addresses (load/store accessible memory, LSA).
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

struct Operation {
  const Case& of;
  const RankInGroup& place;
  const LocalRowsOnDevice& rows;
  ncclRedOp_t reduction = ncclSum;  // where the case reduces
  const void* input = nullptr;
  void* output = nullptr;
  ncclComm_t communicator = nullptr;  // the group's, ranks ascending; of a pair also a larger group's
  int peer;                           // of a pair: the other one's rank in it
  cudaStream_t stream = nullptr;
  const Peers* peers = nullptr;  // of a device-initiated collective
};

// The other rank of a pair in a communicator of these two alone.
int peer_in_pair(const RankInGroup& place);

// How a device-initiated collective is performed: where NCCL would say its choice.
Selection selection_of(const Case& c);

ncclDataType_t nccl_type(DataType type);

// The reduction of a case at a rank. That of ReduceOp::mulsum is made for the communicator and the rank
// (ncclRedOpCreatePreMulSum); it is destroyed before the communicator, or forgotten after it was aborted.
class Reduction {
 public:
  Reduction() = default;
  Reduction(const Case& c, const Member& self, ncclComm_t communicator);
  ~Reduction();
  Reduction(Reduction&& other) noexcept { *this = std::move(other); }
  Reduction& operator=(Reduction&& other) noexcept;

  ncclRedOp_t get() const { return operation_; }
  void forget() { communicator_ = nullptr; }

 private:
  ncclRedOp_t operation_ = ncclSum;
  ncclComm_t communicator_ = nullptr;  // null: the operation is a built-in one
};

// Queues an operation of a case. Throws CaseError if NCCL has none.
using Enqueue = void (*)(const Operation&);
Enqueue enqueue_for(const Case& c);

}  // namespace p5::nccl
