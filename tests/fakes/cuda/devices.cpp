// Devices of the fake CUDA runtime: "Fake GPU", identical except for UUID and PCI address.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/fakes/cuda/runtime.hpp"
#include "tests/fakes/device_uuid.hpp"

namespace {

using namespace p5::fake_cuda;

// The visible devices of this process, in order: those of CUDA_VISIBLE_DEVICES, numbers or prefixes of UUIDs, up to the
// first one that does not exist.
const std::vector<int>& visible() {
  static const std::vector<int> gpus = [] {
    std::vector<int> all, chosen;
    for (int gpu = 0; gpu < runtime().devices(); ++gpu) all.push_back(gpu);
    const char* const list = std::getenv("CUDA_VISIBLE_DEVICES");
    if (list == nullptr) return all;
    std::istringstream words(list);
    for (std::string word; std::getline(words, word, ',');) {
      const auto found = std::find_if(all.begin(), all.end(), [&](int gpu) {
        return word == std::to_string(gpu) ||
               (word.size() > 4 && p5::fake_uuid_text(gpu).compare(0, word.size(), word) == 0);
      });
      if (found == all.end()) break;
      chosen.push_back(*found);
    }
    return chosen;
  }();
  return gpus;
}

bool exists(int device) { return device >= 0 && device < static_cast<int>(visible().size()); }

int gpu_of(int device) { return visible().at(static_cast<std::size_t>(device)); }

int bus_of(int device) { return 0x10 + gpu_of(device); }

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp properties{};
  std::snprintf(properties.name, sizeof properties.name, "Fake GPU");
  std::memcpy(properties.uuid.bytes, p5::fake_device_uuid(gpu_of(device)).data(), sizeof properties.uuid.bytes);
  properties.totalGlobalMem = runtime().memory().total_bytes();
  properties.pciBusID = bus_of(device);
  properties.major = 9;
  properties.minor = 0;
  properties.multiProcessorCount = 4;
  properties.warpSize = 32;
  properties.maxThreadsPerBlock = 1024;
  properties.maxThreadsPerMultiProcessor = 2048;
  properties.maxBlocksPerMultiProcessor = 32;
  properties.maxThreadsDim[0] = properties.maxThreadsDim[1] = 1024;
  properties.maxThreadsDim[2] = 64;
  properties.maxGridSize[0] = 0x7fffffff;
  properties.maxGridSize[1] = properties.maxGridSize[2] = 0xffff;
  properties.sharedMemPerBlock = 48 << 10;
  properties.l2CacheSize = 1 << 20;
  properties.canMapHostMemory = 1;
  properties.unifiedAddressing = 1;
  properties.concurrentKernels = 1;
  properties.asyncEngineCount = 1;
  return properties;
}

// The attributes that the fake supports.
std::optional<int> attribute_of(int device, cudaDeviceAttr attribute) {
  const cudaDeviceProp properties = properties_of(device);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return properties.maxThreadsPerBlock;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return properties.maxThreadsPerMultiProcessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return properties.maxBlocksPerMultiProcessor;
    case cudaDevAttrMaxBlockDimX:
      return properties.maxThreadsDim[0];
    case cudaDevAttrMaxGridDimX:
      return properties.maxGridSize[0];
    case cudaDevAttrMultiProcessorCount:
      return properties.multiProcessorCount;
    case cudaDevAttrWarpSize:
      return properties.warpSize;
    case cudaDevAttrL2CacheSize:
      return properties.l2CacheSize;
    case cudaDevAttrComputeCapabilityMajor:
      return properties.major;
    case cudaDevAttrComputeCapabilityMinor:
      return properties.minor;
    case cudaDevAttrPciBusId:
      return properties.pciBusID;
    case cudaDevAttrPciDeviceId:
      return properties.pciDeviceID;
    case cudaDevAttrPciDomainId:
      return properties.pciDomainID;
    case cudaDevAttrCanMapHostMemory:
      return properties.canMapHostMemory;
    case cudaDevAttrUnifiedAddressing:
      return properties.unifiedAddressing;
    case cudaDevAttrConcurrentKernels:
      return properties.concurrentKernels;
    case cudaDevAttrAsyncEngineCount:
      return properties.asyncEngineCount;
    case cudaDevAttrEccEnabled:
      return properties.ECCEnabled;
    case cudaDevAttrIntegrated:
      return properties.integrated;
    default:
      return std::nullopt;
  }
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return finish(cudaErrorInvalidValue);
  *count = static_cast<int>(visible().size());
  return finish(enter());
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = enter()) return finish(error);
  if (!exists(device)) return finish(cudaErrorInvalidDevice);
  current_device() = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  if (const cudaError_t error = enter()) return finish(error);
  if (device == nullptr) return finish(cudaErrorInvalidValue);
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (const cudaError_t error = enter()) return finish(error);
  if (properties == nullptr) return finish(cudaErrorInvalidValue);
  if (!exists(device)) return finish(cudaErrorInvalidDevice);
  *properties = properties_of(device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (const cudaError_t error = enter()) return finish(error);
  if (!exists(device)) return finish(cudaErrorInvalidDevice);
  const std::optional<int> known = attribute_of(device, attribute);
  if (value == nullptr || !known) return finish(cudaErrorInvalidValue);
  *value = *known;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (const cudaError_t error = enter()) return finish(error);
  if (!exists(device)) return finish(cudaErrorInvalidDevice);
  if (text == nullptr || length < 13) return finish(cudaErrorInvalidValue);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", bus_of(device));
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return finish(cudaErrorInvalidValue);
  *version = runtime().driver();
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return finish(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = enter()) return finish(error);
  runtime().synchronize(current_device());
  return finish(runtime().sticky());
}
