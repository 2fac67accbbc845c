// GPU memory through the CUDA driver API alone. libcuda.so.1 is loaded at run time if present, so the worker also runs
// without it. CUDA Driver API, sections Context, Primary Context and Memory Management.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/backends/host_buffers.hpp"

namespace p5::ofi {

struct Driver;  // functions of libcuda.so.1

// One GPU. The first allocation creates its primary context, which takes GPU memory and time.
class Gpu {
 public:
  Gpu(const Driver& driver, int number);

  int number() const { return number_; }  // CUDA's device number
  const std::string& pci() const { return pci_; }
  // Makes the GPU current in the calling thread. A library that initializes CUDA later in this thread uses it, too.
  void use();

 private:
  const Driver* driver_;
  int number_ = 0, device_ = 0;
  std::string pci_;
  void* context_ = nullptr;
};

// Memory of a GPU, freed with the object. NICs and copies see each other's data in order (SYNC_MEMOPS).
class GpuMemory {
 public:
  GpuMemory(const Driver& driver, Gpu& gpu, std::size_t bytes);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  Gpu& gpu() const { return *gpu_; }
  // Copies between host memory and this memory at offset `at`. They return after completion and throw CaseError.
  void upload(std::size_t at, const std::byte* from, std::size_t bytes);
  void download(std::size_t at, std::byte* to, std::size_t bytes) const;

 private:
  const Driver* driver_;
  Gpu* gpu_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// The GPUs that this process may use (CUDA_VISIBLE_DEVICES), in the order of their PCI addresses.
class Gpus {
 public:
  Gpus();  // throws CaseError with the reason if there are none
  ~Gpus();

  std::size_t size() const { return all_.size(); }
  Gpu& at(std::size_t place) { return all_.at(place); }
  std::vector<std::string> pci() const;
  // CUDA version of the driver, such as "13.0".
  std::string version() const;
  std::unique_ptr<GpuMemory> allocate(std::size_t place, std::size_t bytes);

 private:
  std::unique_ptr<Driver> driver_;
  std::vector<Gpu> all_;
};

// The blocks of HostBuffers, including guards, mirrored in the memory of one GPU.
class GpuMirror {
 public:
  GpuMirror(Gpus& gpus, std::size_t place, const HostBuffers& buffers);

  // The GPU address of a byte of host memory.
  std::byte* of(const std::byte* host) const { return memory_->data() + place_of(host); }
  GpuMemory& memory() const { return *memory_; }
  void upload_all();
  void download_all();
  void upload(std::byte* host, std::size_t bytes) { memory_->upload(place_of(host), host, bytes); }
  void download(std::byte* host, std::size_t bytes) const { memory_->download(place_of(host), host, bytes); }

 private:
  std::size_t place_of(const std::byte* host) const;

  std::vector<std::span<std::byte>> blocks_;  // in GPU memory each block begins where the previous one ends
  std::unique_ptr<GpuMemory> memory_;
};

}  // namespace p5::ofi
