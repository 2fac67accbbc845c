// Allocations by address, and the memory in use on each device.
#include "tests/fakes/cuda/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace p5::fake_cuda {

namespace {

constexpr std::size_t granularity = 512;  // cudaMalloc aligns to at least 256
// Bytes to fill at most; larger allocations stay untouched, hence zero, since filling gibibytes would take too long.
constexpr std::size_t filled = 1 << 20;

std::size_t rounded(std::size_t bytes) { return (bytes + granularity - 1) / granularity * granularity; }

// Null if there is none.
void* map_new_file(std::size_t bytes, int& file) {
  file = memfd_create("p5bench-fake-gpu", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  void* const address = ftruncate(file, static_cast<off_t>(bytes)) == 0
                            ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                            : MAP_FAILED;
  if (address != MAP_FAILED) return address;
  close(file);
  return nullptr;
}

}  // namespace

void* Memory::allocate(Allocation::Kind kind, int device, std::size_t bytes, bool shareable) {
  const std::scoped_lock lock(mutex_);
  const bool on_device = kind == Allocation::Kind::device;
  std::size_t& used = used_.at(static_cast<std::size_t>(device));
  if (bytes > SIZE_MAX - granularity) return nullptr;
  const std::size_t taken = rounded(bytes);
  if (on_device && (exhausted_ || taken > total_ - used)) return nullptr;
  int file = -1;
  void* address = shareable ? map_new_file(taken, file) : std::aligned_alloc(granularity, taken);
  if (address == nullptr) return nullptr;
  std::memset(address, 0xfa, std::min(taken, filled));
  if (on_device) used += taken;
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  allocations_[number] = {number, bytes, device, kind, file};
  return address;
}

bool Memory::release(Allocation::Kind kind, const void* address) {
  const std::scoped_lock lock(mutex_);
  const auto found = allocations_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == allocations_.end() || found->second.kind != kind) return false;
  if (kind == Allocation::Kind::device)
    used_.at(static_cast<std::size_t>(found->second.device)) -= rounded(found->second.bytes);
  if (const int file = found->second.file; file >= 0)
    munmap(const_cast<void*>(address), rounded(found->second.bytes)), close(file);
  else
    std::free(const_cast<void*>(address));
  allocations_.erase(found);
  return true;
}

std::optional<Allocation> Memory::find(const void* address) const {
  const std::scoped_lock lock(mutex_);
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  auto next = allocations_.upper_bound(number);
  if (next == allocations_.begin()) return std::nullopt;
  const Allocation& candidate = std::prev(next)->second;
  if (number - candidate.address >= candidate.bytes) return std::nullopt;
  return candidate;
}

bool Memory::holds(const void* address, std::size_t bytes) const {
  if (bytes == 0) return true;
  const std::optional<Allocation> allocation = find(address);
  if (!allocation) return false;
  return bytes <= allocation->bytes - (reinterpret_cast<std::uintptr_t>(address) - allocation->address);
}

std::size_t Memory::free_bytes(int device) const {
  const std::scoped_lock lock(mutex_);
  return exhausted_ ? 0 : total_ - used_.at(static_cast<std::size_t>(device));
}

void Memory::exhaust() {
  const std::scoped_lock lock(mutex_);
  exhausted_ = true;
}

}  // namespace p5::fake_cuda
