#include "bench/backends/ofi/gpus.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"

namespace p5::ofi {

// The ABI of libcuda.so.1 since CUDA 3.2: results and devices are int, device pointers are 64 bits wide. cuda.h maps
// names without a suffix to those that end in _v2.
struct Driver {
  using Pointer = std::uint64_t;
  using Context = void*;

  Driver();
  ~Driver() { dlclose(library); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  void check(int result, std::string_view call) const;

  void* library = nullptr;
  int (*init)(unsigned) = nullptr;
  int (*version)(int*) = nullptr;
  int (*count)(int*) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*pci)(char*, int, int) = nullptr;
  int (*retain)(Context*, int) = nullptr;
  int (*use)(Context) = nullptr;
  int (*allocate)(Pointer*, std::size_t) = nullptr;
  int (*free)(Pointer) = nullptr;
  int (*upload)(Pointer, const void*, std::size_t) = nullptr;
  int (*download)(void*, Pointer, std::size_t) = nullptr;
  int (*set_attribute)(const void*, int, Pointer) = nullptr;
  int (*name_of_error)(int, const char**) = nullptr;

 private:
  template <class Call>
  void find(Call& call, const char* name) {
    call = reinterpret_cast<Call>(dlsym(library, name));
    if (!call) throw CaseError(fmt::format("libcuda.so.1 has no {}", name));
  }
};

Driver::Driver() : library(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
  if (!library) throw CaseError("there is no libcuda.so.1, CUDA's driver");
  find(init, "cuInit");
  find(version, "cuDriverGetVersion");
  find(count, "cuDeviceGetCount");
  find(device, "cuDeviceGet");
  find(pci, "cuDeviceGetPCIBusId");
  find(retain, "cuDevicePrimaryCtxRetain");
  find(use, "cuCtxSetCurrent");
  find(allocate, "cuMemAlloc_v2");
  find(free, "cuMemFree_v2");
  find(upload, "cuMemcpyHtoD_v2");
  find(download, "cuMemcpyDtoH_v2");
  find(set_attribute, "cuPointerSetAttribute");
  find(name_of_error, "cuGetErrorName");
  check(init(0), "cuInit");
}

void Driver::check(int result, std::string_view call) const {
  if (result == 0) return;
  const char* name = nullptr;
  if (name_of_error(result, &name) != 0 || !name) name = "unknown";
  throw CaseError(fmt::format("{}: {} (CUDA error {})", call, name, result));
}

Gpu::Gpu(const Driver& driver, int number) : driver_(&driver), number_(number) {
  driver.check(driver.device(&device_, number), "cuDeviceGet");
  std::array<char, 32> text{};
  driver.check(driver.pci(text.data(), text.size(), device_), "cuDeviceGetPCIBusId");
  pci_ = lower(text.data());
}

void Gpu::use() {
  if (!context_) driver_->check(driver_->retain(&context_, device_), "cuDevicePrimaryCtxRetain");
  driver_->check(driver_->use(context_), "cuCtxSetCurrent");
}

GpuMemory::GpuMemory(const Driver& driver, Gpu& gpu, std::size_t bytes) : driver_(&driver), gpu_(&gpu), bytes_(bytes) {
  constexpr int sync_memops = 6;
  gpu.use();
  Driver::Pointer at = 0;
  driver.check(driver.allocate(&at, bytes), fmt::format("cuMemAlloc of {} bytes", bytes));
  data_ = reinterpret_cast<std::byte*>(at);  // NOLINT(performance-no-int-to-ptr): CUDA addresses are integers
  const unsigned yes = 1;
  driver.check(driver.set_attribute(&yes, sync_memops, at), "cuPointerSetAttribute");
}

GpuMemory::~GpuMemory() {
  if (data_) driver_->free(reinterpret_cast<Driver::Pointer>(data_));
}

void GpuMemory::upload(std::size_t at, const std::byte* from, std::size_t bytes) {
  gpu_->use();
  driver_->check(driver_->upload(reinterpret_cast<Driver::Pointer>(data_ + at), from, bytes), "cuMemcpyHtoD");
}

void GpuMemory::download(std::size_t at, std::byte* to, std::size_t bytes) const {
  gpu_->use();
  driver_->check(driver_->download(to, reinterpret_cast<Driver::Pointer>(data_ + at), bytes), "cuMemcpyDtoH");
}

Gpus::Gpus() : driver_(std::make_unique<Driver>()) {
  int count = 0;
  driver_->check(driver_->count(&count), "cuDeviceGetCount");
  if (count == 0) throw CaseError("CUDA shows this process no GPU");
  for (int number = 0; number < count; ++number) all_.emplace_back(*driver_, number);
  std::ranges::sort(all_, {}, &Gpu::pci);
}

Gpus::~Gpus() = default;

std::vector<std::string> Gpus::pci() const {
  std::vector<std::string> all;
  for (const Gpu& each : all_) all.push_back(each.pci());
  return all;
}

std::string Gpus::version() const {
  int version = 0;
  driver_->check(driver_->version(&version), "cuDriverGetVersion");
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::unique_ptr<GpuMemory> Gpus::allocate(std::size_t place, std::size_t bytes) {
  return std::make_unique<GpuMemory>(*driver_, all_.at(place), bytes);
}

GpuMirror::GpuMirror(Gpus& gpus, std::size_t place, const HostBuffers& buffers) : blocks_(buffers.blocks()) {
  const std::size_t bytes = std::accumulate(blocks_.begin(), blocks_.end(), std::size_t{0},
                                            [](std::size_t sum, const auto& block) { return sum + block.size(); });
  memory_ = gpus.allocate(place, bytes);
}

std::size_t GpuMirror::place_of(const std::byte* host) const {
  std::size_t at = 0;
  for (const std::span<std::byte>& block : blocks_) {
    if (host >= block.data() && host < block.data() + block.size())
      return at + static_cast<std::size_t>(host - block.data());
    at += block.size();
  }
  throw CaseError("an address outside the buffers of its case");
}

void GpuMirror::upload_all() {
  for (const std::span<std::byte>& block : blocks_) upload(block.data(), block.size());
}

void GpuMirror::download_all() {
  for (const std::span<std::byte>& block : blocks_) download(block.data(), block.size());
}

}  // namespace p5::ofi
