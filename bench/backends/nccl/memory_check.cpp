#include "bench/backends/nccl/memory_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/kernels.hpp"
#include "bench/base/error.hpp"
#include "bench/base/statistics.hpp"

namespace p5::nccl {

namespace {

constexpr int slices = 64;
// Each slice is written and read that often, every other time with all bits inverted. The fastest read counts: what
// else runs on the device can only slow one down.
constexpr int rounds = 4;
// Left to others that use the device at the same time; on a device without that much a share is tested.
constexpr std::size_t spared = std::size_t{2} << 30;

DeviceMemory most_of_free_memory(std::size_t& bytes) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  bytes = free > 2 * spared ? free - spared : free / 64;
  for (;; bytes /= 2) {
    void* memory = nullptr;
    const cudaError_t result = cudaMalloc(&memory, bytes);
    if (result == cudaSuccess) return DeviceMemory(memory);
    if (result != cudaErrorMemoryAllocation || bytes < (std::size_t{1} << 20)) check(result, "cudaMalloc");
    cudaGetLastError();  // fragmented, or somebody took it meanwhile
  }
}

}  // namespace

MemoryCheck check_memory(Queue& queue) {
  std::size_t bytes = 0;
  const DeviceMemory memory = most_of_free_memory(bytes);
  const DeviceMemory found = make_device_memory(sizeof(Mismatches));
  const std::uint64_t words = bytes / sizeof(std::uint64_t) / slices;
  const Event start = make_timing_event(), stop = make_timing_event();
  const auto slice = [&](int i) {
    return static_cast<std::uint64_t*>(memory.get()) + static_cast<std::uint64_t>(i) * words;
  };
  MemoryCheck result;
  std::vector<double> rates(slices, 0);
  for (int round = 0; round < rounds && result.corruption.empty(); ++round) {
    const auto seed_of = [&](int i) {
      const auto seed = static_cast<std::uint64_t>(i + 1) << 48;
      return round % 2 == 0 ? seed : ~seed;
    };
    for (int i = 0; i < slices; ++i) fill_memory_pattern(queue.stream(), slice(i), words, seed_of(i));
    for (int i = 0; i < slices && result.corruption.empty(); ++i) {
      Mismatches seen;
      check(cudaMemcpyAsync(found.get(), &seen, sizeof seen, cudaMemcpyHostToDevice, queue.stream()),
            "cudaMemcpyAsync");
      check(cudaEventRecord(start.get(), queue.stream()), "cudaEventRecord");
      check_memory_pattern(queue.stream(), slice(i), words, seed_of(i), static_cast<Mismatches*>(found.get()));
      check(cudaEventRecord(stop.get(), queue.stream()), "cudaEventRecord");
      check(cudaMemcpyAsync(&seen, found.get(), sizeof seen, cudaMemcpyDeviceToHost, queue.stream()),
            "cudaMemcpyAsync");
      queue.finish();
      float elapsed_ms = 0;
      check(cudaEventElapsedTime(&elapsed_ms, start.get(), stop.get()), "cudaEventElapsedTime");
      if (elapsed_ms > 0)
        rates[static_cast<std::size_t>(i)] =
            std::max(rates[static_cast<std::size_t>(i)], static_cast<double>(words) * 8 / (elapsed_ms / 1e3) / 1e9);
      if (seen.wrong == 0) continue;
      std::uint64_t got = 0;
      check(cudaMemcpyAsync(&got, slice(i) + seen.lowest, sizeof got, cudaMemcpyDeviceToHost, queue.stream()),
            "cudaMemcpyAsync");
      queue.finish();
      result.corruption = fmt::format(
          "memory at {:.2f} of {:.2f} GiB of the free memory held {:#018x} instead of {:#018x}, {} words in the slice",
          static_cast<double>((static_cast<std::uint64_t>(i) * words + seen.lowest) * 8) / (1 << 30),
          static_cast<double>(bytes) / (1 << 30), got, memory_pattern(seed_of(i), seen.lowest), seen.wrong);
    }
  }
  result.read_gb_per_s = median(rates);
  result.slowest_slice_share = result.read_gb_per_s > 0 ? std::ranges::min(rates) / result.read_gb_per_s : 0;
  return result;
}

}  // namespace p5::nccl
