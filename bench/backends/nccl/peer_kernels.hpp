// Kernels of device-initiated collectives: GPUs that load from and store into each other's memory. Each has a barrier
// of all ranks before and after it, and ends early when `stop` is set, so that a rank that hangs holds no other one.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "bench/backends/nccl/kernels.hpp"
#include "bench/model/data_type.hpp"

namespace p5::nccl {

// The memory of the ranks of a group, as this rank's device addresses it. All have the same layout, at whose beginning
// PeerFlags lie.
struct PeerMemory {
  static constexpr int most = 128;
  int rank = 0, ranks = 1;
  std::array<std::byte*, most> at{};
  const unsigned* stop = nullptr;  // in host memory that the device can address
};

// How many barriers each block of each rank has reached. A rank's flags are zero before its first kernel.
struct PeerFlags {
  static constexpr unsigned most_blocks = 128;
  std::uint32_t reached[most_blocks][PeerMemory::most];  // by this rank's blocks, told by the peers
  std::uint32_t own[most_blocks];
};
// With what keeps the buffers behind it aligned.
inline constexpr std::uint64_t peer_flags_bytes = 128 << 10;
static_assert(sizeof(PeerFlags) <= peer_flags_bytes);

// Where the buffers of an operation begin, in bytes from the beginning of each rank's memory.
struct PeerBuffers {
  std::uint64_t input = 0, output = 0;
};

// False if the worker was built without NCCL's device API.
bool has_device_api();
// Writes where each rank's part of a window lies into `at`, in device memory.
void find_peers(cudaStream_t stream, void* window, int ranks, std::byte** at);

// Stores the i-th of `ranks` blocks of the input into rank i's output, as the block of this rank's number.
void store_to_peers(cudaStream_t stream, const PeerMemory& peers, const PeerBuffers& buffers,
                    std::uint64_t block_bytes);

// Up to this many bytes each rank reduces all elements for itself, if that is not in place: then no store to a peer has
// to arrive before the second barrier. Above, it reduces a share of them and stores that into the outputs of all ranks.
inline constexpr std::uint64_t most_one_shot_bytes = 256 << 10;
void reduce_from_peers(cudaStream_t stream, const PeerMemory& peers, const PeerBuffers& buffers, DataType type,
                       ReduceOp op, std::uint64_t elements, bool one_shot);

// As register_twins(), which calls it.
void register_peer_twins();

}  // namespace p5::nccl
