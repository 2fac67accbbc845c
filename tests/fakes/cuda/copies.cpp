// Allocation, copies and fills of the fake CUDA runtime. It checks directions and bounds more strictly than hardware.
// Copies from and to pageable host memory behave as documented: the source is read at once, the target is complete on
// return.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/fakes/cuda/fake.hpp"
#include "tests/fakes/cuda/runtime.hpp"

namespace {

using namespace p5::fake_cuda;

enum class RankInGroup { pageable, pinned, device };

RankInGroup place_of(const void* address) {
  const auto allocation = runtime().memory().find(address);
  if (!allocation) return RankInGroup::pageable;
  return allocation->kind == Allocation::Kind::device ? RankInGroup::device : RankInGroup::pinned;
}

bool fits(const void* address, std::size_t bytes) {
  return place_of(address) == RankInGroup::pageable || runtime().memory().holds(address, bytes);
}

bool direction_holds(RankInGroup target, RankInGroup source, cudaMemcpyKind kind) {
  const bool to_device = target == RankInGroup::device, from_device = source == RankInGroup::device;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

cudaError_t allocate(void** address, Allocation::Kind kind, std::size_t bytes, bool shareable = false) {
  if (const cudaError_t error = enter()) return finish(error);
  if (address == nullptr) return finish(cudaErrorInvalidValue);
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  *address = runtime().memory().allocate(kind, current_device(), bytes, shareable);
  return finish(*address == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

// Synchronizes the device first, as CUDA does, since the memory may be in use.
cudaError_t release(void* address, Allocation::Kind kind) {
  if (const cudaError_t error = enter()) return finish(error);
  if (address == nullptr) return cudaSuccess;
  const auto allocation = runtime().memory().find(address);
  if (!allocation) return finish(cudaErrorInvalidValue);
  runtime().synchronize(allocation->device);
  return finish(runtime().memory().release(kind, address) ? runtime().sticky() : cudaErrorInvalidValue);
}

struct Copy {
  void* target;
  const void* source;
  std::size_t bytes;
  cudaMemcpyKind kind;

  bool valid() const {
    if (bytes == 0) return true;
    if (target == nullptr || source == nullptr || !fits(target, bytes) || !fits(source, bytes)) return false;
    return direction_holds(place_of(target), place_of(source), kind);
  }
};

// P5BENCH_FAKE_COPIES: whether this one from the device to the host gets a wrong bit.
bool falls_to_fault(const Copy& copy) {
  static const char* const variable = std::getenv("P5BENCH_FAKE_COPIES");
  int device = -1;
  unsigned long long bytes = 0;
  return variable != nullptr && copy.kind == cudaMemcpyDeviceToHost &&
         std::sscanf(variable, "wrong:gpu=%d:bytes=%llu", &device, &bytes) == 2 && copy.bytes >= bytes &&
         runtime().memory().find(copy.source)->device == device;
}

// A copy task; it has read pageable sources already.
Task copy_task(const Copy& copy) {
  if (falls_to_fault(copy))
    return [copy] {
      std::memmove(copy.target, copy.source, copy.bytes);
      static_cast<unsigned char*>(copy.target)[copy.bytes / 2] ^= 1;
    };
  if (place_of(copy.source) != RankInGroup::pageable)
    return [copy] { std::memmove(copy.target, copy.source, copy.bytes); };
  const auto* bytes = static_cast<const unsigned char*>(copy.source);
  return [copy, staged = std::make_shared<std::vector<unsigned char>>(bytes, bytes + copy.bytes)] {
    std::memcpy(copy.target, staged->data(), copy.bytes);
  };
}

cudaError_t fill(void* address, int value, std::size_t bytes, cudaStream_t handle, bool wait) {
  if (const cudaError_t error = enter()) return finish(error);
  const std::shared_ptr<Stream> stream = runtime().find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  if (!runtime().memory().holds(address, bytes)) return finish(cudaErrorInvalidValue);
  const auto done = runtime().submit(stream, [=] { std::memset(address, value, bytes); });
  if (wait) done->wait();
  return finish(runtime().sticky());
}

}  // namespace

cudaError_t cudaMalloc(void** address, std::size_t bytes) { return allocate(address, Allocation::Kind::device, bytes); }

int p5bench_fake_malloc_shareable(void** address, std::size_t bytes) {
  return allocate(address, Allocation::Kind::device, bytes, true);
}

int p5bench_fake_file_of(const void* address, std::size_t* offset) {
  const auto allocation = runtime().memory().find(address);
  if (!allocation) return -1;
  *offset = reinterpret_cast<std::uintptr_t>(address) - allocation->address;
  return allocation->file;
}

cudaError_t cudaFree(void* address) { return release(address, Allocation::Kind::device); }

cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned flags) {
  const unsigned known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if ((flags & ~known) != 0) return finish(cudaErrorInvalidValue);
  return allocate(address, Allocation::Kind::pinned, bytes);
}

cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  return allocate(address, Allocation::Kind::pinned, bytes);
}

cudaError_t cudaFreeHost(void* address) { return release(address, Allocation::Kind::pinned); }

cudaError_t cudaHostGetDevicePointer(void** device_address, void* host_address, unsigned flags) {
  if (const cudaError_t error = enter()) return finish(error);
  if (device_address == nullptr || flags != 0 || place_of(host_address) != RankInGroup::pinned)
    return finish(cudaErrorInvalidValue);
  *device_address = host_address;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  if (const cudaError_t error = enter()) return finish(error);
  if (attributes == nullptr) return finish(cudaErrorInvalidValue);
  *attributes = {};
  attributes->device = -1;
  attributes->type = cudaMemoryTypeUnregistered;
  const RankInGroup place = place_of(address);
  if (place == RankInGroup::pageable) {
    attributes->hostPointer = const_cast<void*>(address);
    return cudaSuccess;
  }
  attributes->device = runtime().memory().find(address)->device;
  attributes->type = place == RankInGroup::device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  attributes->devicePointer = const_cast<void*>(address);
  if (place == RankInGroup::pinned) attributes->hostPointer = const_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  if (const cudaError_t error = enter()) return finish(error);
  if (free_bytes == nullptr || total_bytes == nullptr) return finish(cudaErrorInvalidValue);
  *free_bytes = runtime().memory().free_bytes(current_device());
  *total_bytes = runtime().memory().total_bytes();
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = enter()) return finish(error);
  const Copy copy{target, source, bytes, kind};
  if (!copy.valid()) return finish(cudaErrorInvalidValue);
  if (bytes == 0) return cudaSuccess;
  const bool within_device = place_of(target) == RankInGroup::device && place_of(source) == RankInGroup::device;
  const auto done = runtime().submit(runtime().find_stream(nullptr), copy_task(copy));
  if (!within_device) done->wait();
  return finish(runtime().sticky());
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  if (const cudaError_t error = enter()) return finish(error);
  const std::shared_ptr<Stream> stream = runtime().find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  const Copy copy{target, source, bytes, kind};
  if (!copy.valid()) return finish(cudaErrorInvalidValue);
  if (bytes == 0) return cudaSuccess;
  const auto done = runtime().submit(stream, copy_task(copy));
  if (place_of(target) == RankInGroup::pageable) done->wait();
  return finish(runtime().sticky());
}

cudaError_t cudaMemset(void* address, int value, std::size_t bytes) {
  return fill(address, value, bytes, nullptr, place_of(address) != RankInGroup::device);
}

cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, cudaStream_t stream) {
  return fill(address, value, bytes, stream, false);
}
