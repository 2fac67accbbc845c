// Memory that the process has registered with the stand-in, by key: host memory, or memory of a simulated GPU, which
// only the NIC may access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace standin {

struct Region {
  std::byte* begin = nullptr;  // the caller's address
  std::byte* real = nullptr;   // the host address of the bytes
  std::size_t bytes = 0;
  std::optional<int> gpu{};  // the GPU that holds it, null: the host

  // Null if the range is outside of the region.
  std::byte* at(std::uint64_t address, std::size_t count) const;
};

// Keys encode the place of the memory, so that the peer can account for its transfer rate.
constexpr std::uint64_t key_of_gpu = 1u << 31;
std::uint64_t add_region(const Region& region);
void remove_region(std::uint64_t key);
const Region* find_region(std::uint64_t key);  // null: none
std::size_t count_regions();

// True if the CUDA driver, which is loaded if necessary, has a GPU.
bool has_gpu();
// Host address of simulated GPU memory, whose number `gpu` receives; null: not GPU memory.
std::byte* real_gpu_memory(const void* address, std::size_t bytes, int& gpu);

}  // namespace standin
