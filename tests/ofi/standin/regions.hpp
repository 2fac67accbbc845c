// Memory that the process has registered with the stand-in, by key: of the host, or of a simulated GPU, which only the
// NIC may touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace standin {

struct Region {
  std::byte* begin = nullptr;  // as the caller knows it
  std::byte* real = nullptr;   // where the bytes lie
  std::size_t bytes = 0;
  std::optional<int> gpu{};  // whose memory it is, null: the host's

  // Null: outside.
  std::byte* at(std::uint64_t address, std::size_t count) const;
};

// Keys tell where memory lies, so that the other side knows what it costs.
constexpr std::uint64_t key_of_gpu = 1u << 31;
std::uint64_t add_region(const Region& region);
void remove_region(std::uint64_t key);
const Region* find_region(std::uint64_t key);  // null: none
std::size_t count_regions();

// The CUDA driver that the process has loaded, or could: whether there is a GPU.
bool has_gpu();
// Where the bytes lie; null: no memory of a GPU. `gpu`: whose.
std::byte* real_gpu_memory(const void* address, std::size_t bytes, int& gpu);

}  // namespace standin
