#include "bench/backends/nccl/arena.hpp"

#include <fmt/format.h>

#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/library.hpp"

namespace p5::nccl {

std::byte* Arena::reserve(std::uint64_t bytes) {
  if (bytes <= size_) return memory_.get();
  memory_.reset();
  size_ = 0;
  void* memory = nullptr;
  // NCCL's own allocation is what its registration and multicast can use, and what nccl-tests measures with.
  const OptionalCalls& calls = optional_calls();
  if (calls.mem_alloc && calls.mem_free) {
    check(calls.mem_alloc(&memory, bytes), fmt::format("ncclMemAlloc of {} bytes", bytes));
    memory_ = {static_cast<std::byte*>(memory), [](std::byte* at) { optional_calls().mem_free(at); }};
  } else {
    check(cudaMalloc(&memory, bytes), fmt::format("cudaMalloc of {} bytes", bytes));
    memory_ = {static_cast<std::byte*>(memory), [](std::byte* at) { cudaFree(at); }};
  }
  size_ = bytes;
  return memory_.get();
}

}  // namespace p5::nccl
