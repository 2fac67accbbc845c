// Device and pinned memory of the fake: host memory, accounted per device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace p5::fake_cuda {

struct Allocation {
  enum class Kind { device, pinned };
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  int device = 0;
  Kind kind = Kind::device;
  int file = -1;  // whose content it is, where other processes may map it
};

class Memory {
 public:
  Memory(int devices, std::size_t bytes_per_device) : total_(bytes_per_device), used_(devices, 0) {}

  // Null if the device's memory does not suffice. Contents are not zero, so that no code relies on zeros. `shareable`:
  // the content of a file.
  void* allocate(Allocation::Kind kind, int device, std::size_t bytes, bool shareable = false);
  // False if the address is not the start of an allocation of this kind.
  bool release(Allocation::Kind kind, const void* address);
  // The allocation that contains the address.
  std::optional<Allocation> find(const void* address) const;
  bool holds(const void* address, std::size_t bytes) const;
  std::size_t free_bytes(int device) const;
  std::size_t total_bytes() const { return total_; }
  void exhaust();

 private:
  mutable std::mutex mutex_;
  std::size_t total_;
  std::vector<std::size_t> used_;
  std::map<std::uintptr_t, Allocation> allocations_;  // by address
  bool exhausted_ = false;
};

}  // namespace p5::fake_cuda
