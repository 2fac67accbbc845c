// The part of CUDA's driver library (libcuda.so.1) that p5bench-worker-ofi calls: SIMULATED GPUs, whose memory is host
// memory. As on a real machine, processors may not access their addresses: SIGSEGV ends a process that does.
//   P5BENCH_FAKE_CUDA_GPUS  number of GPUs (8); with 0, or an empty CUDA_VISIBLE_DEVICES, cuInit finds none
// Simulated NICs access the memory through p5bench_fake_gpu_memory().
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace {

constexpr int success = 0, invalid_value = 1, out_of_memory = 2, no_device = 100, invalid_device = 101,
              invalid_context = 201;
constexpr int driver_version = 13000;

struct Allocation {
  std::byte* real = nullptr;
  std::size_t bytes = 0;
  int gpu = 0;
};

struct State {
  std::mutex mutex;
  std::map<std::uint64_t, Allocation> all;  // by the device address
};

State& state() {
  static State* const all = new State;  // never destroyed, since memory may be freed late
  return *all;
}

thread_local int current = -1;

int gpus() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible && !*visible) return 0;
  const char* const set = std::getenv("P5BENCH_FAKE_CUDA_GPUS");
  return set ? std::atoi(set) : 8;
}

const Allocation* find(std::uint64_t address, std::uint64_t& offset) {
  auto after = state().all.upper_bound(address);
  if (after == state().all.begin()) return nullptr;
  --after;
  offset = address - after->first;
  return offset < after->second.bytes ? &after->second : nullptr;
}

std::byte* real_memory(std::uint64_t address, std::size_t bytes, int* gpu) {
  const std::scoped_lock lock(state().mutex);
  std::uint64_t offset = 0;
  const Allocation* const found = find(address, offset);
  if (!found || offset + bytes > found->bytes) return nullptr;
  if (gpu) *gpu = found->gpu;
  return found->real + offset;
}

}  // namespace

extern "C" {

// Host address of the bytes; null: not GPU memory.
void* p5bench_fake_gpu_memory(const void* address, std::size_t bytes, int* gpu) {
  return real_memory(reinterpret_cast<std::uint64_t>(address), bytes, gpu);
}

int cuInit(unsigned flags) { return flags != 0 ? invalid_value : gpus() > 0 ? success : no_device; }

int cuDriverGetVersion(int* version) {
  *version = driver_version;
  return success;
}

int cuDeviceGetCount(int* count) {
  *count = gpus();
  return success;
}

int cuDeviceGet(int* device, int number) {
  if (number < 0 || number >= gpus()) return invalid_device;
  *device = number;
  return success;
}

// PCI addresses as on a p5.48xlarge.
int cuDeviceGetPCIBusId(char* text, int length, int device) {
  if (device < 0 || device >= gpus()) return invalid_device;
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", 0x53 + 0x11 * device);
  return success;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (device < 0 || device >= gpus()) return invalid_device;
  *context = reinterpret_cast<void*>(static_cast<std::uintptr_t>(device) + 1);  // NOLINT(performance-no-int-to-ptr)
  return success;
}

int cuCtxSetCurrent(void* context) {
  current = static_cast<int>(reinterpret_cast<std::uintptr_t>(context)) - 1;
  return success;
}

int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  if (current < 0) return invalid_context;
  if (bytes == 0) return invalid_value;
  const int file = ::memfd_create("gpu", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) return out_of_memory;
  void* const seen = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
  void* const real = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (seen == MAP_FAILED || real == MAP_FAILED) return out_of_memory;
  *address = reinterpret_cast<std::uint64_t>(seen);
  const std::scoped_lock lock(state().mutex);
  state().all[*address] = {static_cast<std::byte*>(real), bytes, current};
  return success;
}

int cuMemFree_v2(std::uint64_t address) {
  const std::scoped_lock lock(state().mutex);
  const auto found = state().all.find(address);
  if (found == state().all.end()) return invalid_value;
  ::munmap(found->second.real, found->second.bytes);
  ::munmap(reinterpret_cast<void*>(address), found->second.bytes);  // NOLINT(performance-no-int-to-ptr)
  state().all.erase(found);
  return success;
}

int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
  std::byte* const real = real_memory(to, bytes, nullptr);
  if (!real) return invalid_value;
  std::memcpy(real, from, bytes);
  return success;
}

int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  const std::byte* const real = real_memory(from, bytes, nullptr);
  if (!real) return invalid_value;
  std::memcpy(to, real, bytes);
  return success;
}

int cuPointerSetAttribute(const void* value, int attribute, std::uint64_t address) {
  constexpr int sync_memops = 6;
  return value && attribute == sync_memops && real_memory(address, 1, nullptr) ? success : invalid_value;
}

int cuGetErrorName(int error, const char** name) {
  *name = error == no_device        ? "CUDA_ERROR_NO_DEVICE"
          : error == out_of_memory  ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == invalid_device ? "CUDA_ERROR_INVALID_DEVICE"
                                    : "CUDA_ERROR_INVALID_VALUE";
  return success;
}

}  // extern "C"
