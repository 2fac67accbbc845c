#include "bench/backends/nccl/peer_kernels.hpp"

#include <dlfcn.h>
#ifdef P5BENCH_NCCL_DEVICE_API
#include <nccl_device.h>
#else
#include <nccl.h>
#endif
#include <sched.h>

#include <algorithm>
#include <array>
#include <cuda/atomic>
#include <numeric>
#include <type_traits>

#include "bench/backends/nccl/kernel_pieces.cuh"
#include "bench/model/pattern.hpp"

namespace p5::nccl {

namespace {

constexpr unsigned peer_block_threads = 512;
constexpr unsigned most_peer_blocks = 128;  // about one a multiprocessor: with 32 large messages reach 0.8 of the rate
static_assert(most_peer_blocks <= PeerFlags::most_blocks);

// ---- the barrier

using PeerFlag = cuda::atomic_ref<std::uint32_t, cuda::thread_scope_system>;

__host__ __device__ PeerFlags& flags_of(const PeerMemory& peers, int rank) {
  return *reinterpret_cast<PeerFlags*>(peers.at[static_cast<std::size_t>(rank)]);
}

__host__ __device__ bool stopped(const PeerMemory& peers) {
  return cuda::atomic_ref<const unsigned, cuda::thread_scope_system>(*peers.stop).load(cuda::memory_order_relaxed) != 0;
}

// Tells a peer that this rank's block has reached a barrier, and waits until the peer's block has.
__host__ __device__ void meet_peer(const PeerMemory& peers, int peer, unsigned block, std::uint32_t barrier) {
#ifdef __CUDA_ARCH__
  constexpr unsigned between_looks = 1024;  // at the stop flag, because reading host memory takes microseconds
#else
  constexpr unsigned between_looks = 1;  // each look yields the processor
#endif
  if (peer == peers.rank) return;
  PeerFlag(flags_of(peers, peer).reached[block][peers.rank]).store(barrier, cuda::memory_order_release);
  const PeerFlag its(flags_of(peers, peers.rank).reached[block][peer]);
  for (unsigned looks = 1; static_cast<std::int32_t>(its.load(cuda::memory_order_acquire) - barrier) < 0; ++looks) {
    if (looks % between_looks == 0 && stopped(peers)) return;
#ifndef __CUDA_ARCH__
    sched_yield();
#endif
  }
}

__device__ void meet_peers(const PeerMemory& peers) {
  std::uint32_t& own = flags_of(peers, peers.rank).own[blockIdx.x];
  __syncthreads();
  const std::uint32_t barrier = own + 1;
  for (int peer = static_cast<int>(threadIdx.x); peer < peers.ranks; peer += static_cast<int>(blockDim.x))
    meet_peer(peers, peer, blockIdx.x, barrier);
  __syncthreads();
  if (threadIdx.x == 0) own = barrier;
}

void meet_peers_on_host(const PeerMemory& peers, unsigned block) {
  std::uint32_t& own = flags_of(peers, peers.rank).own[block];
  const std::uint32_t barrier = ++own;
  for (int peer = 0; peer < peers.ranks; ++peer) meet_peer(peers, peer, block, barrier);
}

// ---- kernels between two barriers

// Loads that a thread has in flight.
constexpr int batch = 8;

template <class Body>
__global__ void __launch_bounds__(peer_block_threads)
    among_peers(const __grid_constant__ Body body, const __grid_constant__ PeerMemory peers) {
  meet_peers(peers);
  body(peers, std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, std::uint64_t{gridDim.x} * blockDim.x);
  meet_peers(peers);
}

// A block has one thread, and blocks run one after the other, in the same order on all ranks.
template <class Body>
void among_peers_on_host(void** arguments, unsigned blocks, unsigned) {
  const Body& body = *static_cast<const Body*>(arguments[0]);
  const PeerMemory& peers = *static_cast<const PeerMemory*>(arguments[1]);
  for (unsigned block = 0; block < blocks; ++block) {
    meet_peers_on_host(peers, block);
    body(peers, block, blocks);
    meet_peers_on_host(peers, block);
  }
}

template <class Word>
struct StoreToPeers {
  PeerBuffers buffers;
  std::uint64_t words;  // of a block

  // Ranks begin with the block of the next rank, so that no GPU is the first target of all.
  __host__ __device__ void operator()(const PeerMemory& peers, std::uint64_t thread, std::uint64_t threads) const {
    const auto rank = static_cast<std::uint64_t>(peers.rank);
    const std::uint64_t all = words * static_cast<std::uint64_t>(peers.ranks), begin = (rank + 1) * words;
    const auto* const input = reinterpret_cast<const Word*>(peers.at[rank] + buffers.input);
    const auto place = [&](std::uint64_t i) { return begin + i < all ? begin + i : begin + i - all; };
    for (std::uint64_t first = thread; first < all; first += batch * threads) {
      Word got[batch];
#pragma unroll
      for (int k = 0; k < batch; ++k)
        if (first + k * threads < all) got[k] = input[place(first + k * threads)];
#pragma unroll
      for (int k = 0; k < batch; ++k) {
        if (first + k * threads >= all) break;
        const std::uint64_t from = place(first + k * threads), peer = from / words;
        reinterpret_cast<Word*>(peers.at[peer] + buffers.output)[rank * words + from % words] = got[k];
      }
    }
  }
};

template <class T>
__host__ __device__ SumOf<T> multiplied(SumOf<T> a, SumOf<T> b) {
  if constexpr (pattern::is_floating<T>)
    return a * b;
  else
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

// Integers are divided as the expected results are, rounded towards 0; a small type does not hold every number of
// ranks.
template <class T>
__host__ __device__ SumOf<T> averaged(SumOf<T> sum, int ranks) {
  if constexpr (pattern::is_floating<T>)
    return sum / static_cast<SumOf<T>>(ranks);
  else if constexpr (std::is_signed_v<T>)
    return static_cast<T>(std::int64_t{sum} / ranks);
  else
    return static_cast<T>(std::uint64_t{sum} / static_cast<std::uint64_t>(ranks));
}

// The reduction of pieces of several ranks.
template <class T, int width>
struct Reduced {
  SumOf<T> values[width];

  // The input of a rank, `first` for the first one.
  __host__ __device__ void take(ReduceOp op, const Piece<T, width>& piece, int rank, bool first) {
    SumOf<T> more[width];
#pragma unroll
    for (int i = 0; i < width; ++i) more[i] = widened(piece.values[i]);
    if (op == ReduceOp::mulsum)
#pragma unroll
      for (int i = 0; i < width; ++i) more[i] = multiplied<T>(more[i], static_cast<SumOf<T>>(mulsum_factor(rank)));
    if (first)
      for_all([&](int i) { values[i] = more[i]; });
    else if (op == ReduceOp::prod)
      for_all([&](int i) { values[i] = multiplied<T>(values[i], more[i]); });
    else if (op == ReduceOp::min)
      for_all([&](int i) { values[i] = more[i] < values[i] ? more[i] : values[i]; });
    else if (op == ReduceOp::max)
      for_all([&](int i) { values[i] = more[i] > values[i] ? more[i] : values[i]; });
    else
      for_all([&](int i) { values[i] = pattern::added(values[i], more[i]); });
  }

  __host__ __device__ Piece<T, width> piece(ReduceOp op, int ranks) {
    Piece<T, width> result;
    if (op == ReduceOp::avg) for_all([&](int i) { values[i] = averaged<T>(values[i], ranks); });
    for_all([&](int i) { result.values[i] = narrowed<T>(values[i]); });
    return result;
  }

 private:
  template <class Action>
  __host__ __device__ static void for_all(Action action) {
#pragma unroll
    for (int i = 0; i < width; ++i) action(i);
  }
};

// Pieces of the widest kind as far as they go, then single elements.
template <class T>
struct ReduceFromPeers {
  PeerBuffers buffers;
  ReduceOp op;
  std::uint64_t elements;
  bool one_shot;
  bool aligned;

  __host__ __device__ void operator()(const PeerMemory& peers, std::uint64_t thread, std::uint64_t threads) const {
    const std::uint64_t pieces = aligned ? elements / widest<T> : 0;
    reduce<widest<T>>(peers, thread, threads, 0, pieces);
    reduce<1>(peers, thread, threads, pieces * widest<T>, elements - pieces * widest<T>);
  }

 private:
  // Pieces from `begin` on, counted in pieces of this width; all of them, or this rank's share. A share is reduced
  // beginning with the own rank, all of them in the order of the ranks, so that all get the same bits.
  template <int width>
  __host__ __device__ void reduce(const PeerMemory& peers, std::uint64_t thread, std::uint64_t threads,
                                  std::uint64_t begin, std::uint64_t count) const {
    using P = Piece<T, width>;
    const auto n = static_cast<std::uint64_t>(peers.ranks), rank = static_cast<std::uint64_t>(peers.rank);
    const std::uint64_t from = one_shot ? 0 : count * rank / n, behind = one_shot ? count : count * (rank + 1) / n;
    const auto turn = [&](int k) {
      const int member = one_shot ? k : peers.rank + k;
      return member < peers.ranks ? member : member - peers.ranks;
    };
    const auto in = [&](int member) { return reinterpret_cast<const P*>(peers.at[member] + buffers.input) + begin; };
    const auto out = [&](int member) { return reinterpret_cast<P*>(peers.at[member] + buffers.output) + begin; };
    std::uint64_t loaded = from + thread, added = from + thread;  // the pieces that are next
    int load_of = 0, add_of = 0;                                  // and the turn of the rank
    Reduced<T, width> sum;
    while (added < behind) {
      P got[batch];
#pragma unroll
      for (int k = 0; k < batch; ++k) {
        if (loaded >= behind) continue;
        got[k] = in(turn(load_of))[loaded];
        if (++load_of == peers.ranks) load_of = 0, loaded += threads;
      }
#pragma unroll
      for (int k = 0; k < batch; ++k) {
        if (added >= behind) continue;
        sum.take(op, got[k], turn(add_of), add_of == 0);
        if (++add_of < peers.ranks) continue;
        const P result = sum.piece(op, peers.ranks);
        if (one_shot)
          out(peers.rank)[added] = result;
        else
          for (int member = 0; member < peers.ranks; ++member) out(turn(member))[added] = result;
        add_of = 0;
        added += threads;
      }
    }
  }
};

// Pieces are those of one rank.
unsigned peer_blocks(std::uint64_t pieces) {
  return static_cast<unsigned>(
      std::clamp<std::uint64_t>((pieces + peer_block_threads - 1) / peer_block_threads, 1, most_peer_blocks));
}

template <class Body>
void run_among_peers(cudaStream_t stream, Body body, const PeerMemory& peers, std::uint64_t pieces) {
  PeerMemory copy = peers;
  void* arguments[] = {&body, &copy};
  launch(reinterpret_cast<const void*>(&among_peers<Body>), peer_blocks(pieces), peer_block_threads, arguments, stream);
}

#ifdef P5BENCH_NCCL_DEVICE_API

__global__ void find_peers_kernel(ncclWindow_t window, int ranks, std::byte** at) {
  for (int peer = static_cast<int>(threadIdx.x); peer < ranks; peer += static_cast<int>(blockDim.x))
    at[peer] = static_cast<std::byte*>(ncclGetLsaPointer(window, 0, peer));
}

// NCCL's function is for devices only.
void find_peers_on_host(void** arguments, unsigned, unsigned) {
  const ncclWindow_t window = *static_cast<ncclWindow_t*>(arguments[0]);
  std::byte** const at = *static_cast<std::byte***>(arguments[2]);
  for (int peer = 0; peer < *static_cast<int*>(arguments[1]); ++peer)
    at[peer] =
        reinterpret_cast<std::byte*>(window->lsaFlatBase) + (static_cast<std::uint64_t>(peer) * window->stride4G << 32);
}

#endif

template <class Body>
void register_among_peers(RegisterTwin with) {
  const std::array<unsigned, 2> sizes{sizeof(Body), sizeof(PeerMemory)};
  with(reinterpret_cast<const void*>(&among_peers<Body>), &among_peers_on_host<Body>, sizes.data(), 2);
}

}  // namespace

#ifdef P5BENCH_NCCL_DEVICE_API
bool has_device_api() { return true; }

void find_peers(cudaStream_t stream, void* window, int ranks, std::byte** at) {
  void* arguments[] = {&window, &ranks, &at};
  launch(reinterpret_cast<const void*>(&find_peers_kernel), 1, PeerMemory::most, arguments, stream);
}
#else
bool has_device_api() { return false; }
void find_peers(cudaStream_t, void*, int, std::byte**) {}
#endif

void store_to_peers(cudaStream_t stream, const PeerMemory& peers, const PeerBuffers& buffers,
                    std::uint64_t block_bytes) {
  const auto with = [&]<class Word>() {
    const std::uint64_t words = block_bytes / sizeof(Word);
    run_among_peers(stream, StoreToPeers<Word>{buffers, words}, peers, words * static_cast<std::uint64_t>(peers.ranks));
  };
  switch (std::gcd(std::gcd(block_bytes, std::uint64_t{16}), std::gcd(buffers.input, buffers.output))) {
    case 16:
      return with.template operator()<uint4>();
    case 8:
      return with.template operator()<std::uint64_t>();
    case 4:
      return with.template operator()<std::uint32_t>();
    case 2:
      return with.template operator()<std::uint16_t>();
    default:
      return with.template operator()<std::uint8_t>();
  }
}

void reduce_from_peers(cudaStream_t stream, const PeerMemory& peers, const PeerBuffers& buffers, DataType type,
                       ReduceOp op, std::uint64_t elements, bool one_shot) {
  const bool aligned = buffers.input % 16 == 0 && buffers.output % 16 == 0;
  with_type(type, [&]<class T>() {
    const std::uint64_t pieces = aligned ? elements / widest<T> + elements % widest<T> : elements;
    run_among_peers(stream, ReduceFromPeers<T>{buffers, op, elements, one_shot, aligned}, peers,
                    one_shot ? pieces : pieces / static_cast<std::uint64_t>(peers.ranks));
  });
}

void register_peer_twins() {
  const auto with = reinterpret_cast<RegisterTwin>(dlsym(RTLD_DEFAULT, "p5bench_fake_register_twin"));
  if (!with) return;
  register_among_peers<StoreToPeers<uint4>>(with);
  register_among_peers<StoreToPeers<std::uint64_t>>(with);
  register_among_peers<StoreToPeers<std::uint32_t>>(with);
  register_among_peers<StoreToPeers<std::uint16_t>>(with);
  register_among_peers<StoreToPeers<std::uint8_t>>(with);
  for (std::size_t type = 0; type < data_type_names().size(); ++type)
    with_type(static_cast<DataType>(type), [&]<class T>() { register_among_peers<ReduceFromPeers<T>>(with); });
#ifdef P5BENCH_NCCL_DEVICE_API
  const std::array<unsigned, 3> sizes{sizeof(ncclWindow_t), sizeof(int), sizeof(std::byte**)};
  with(reinterpret_cast<const void*>(&find_peers_kernel), &find_peers_on_host, sizes.data(), 3);
#endif
}

}  // namespace p5::nccl
