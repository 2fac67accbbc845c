// Errors of the fake CUDA runtime: the last one of each thread, and their names.
#include <utility>

#include "tests/fakes/cuda/runtime.hpp"

namespace {

using namespace p5::fake_cuda;

struct Words {
  cudaError_t error;
  const char* name;
  const char* meaning;
};

// Errors that the fake can return, and the unknown error.
constexpr Words words[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid launch configuration"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "there is no CUDA device"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "there is no device of this number"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "the fake has no host twin of this kernel"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice", "no code for this device"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "not a handle of this kind and device"},
    {cudaErrorNotReady, "cudaErrorNotReady", "not ready yet"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an address was touched that the device cannot reach"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "a kernel failed"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "not permitted here, such as within a host function"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "not supported by the fake"},
};

const Words& words_of(cudaError_t error) {
  static constexpr Words unknown{cudaErrorUnknown, "cudaErrorUnknown", "unknown error"};
  for (const Words& each : words)
    if (each.error == error) return each;
  return unknown;
}

}  // namespace

cudaError_t cudaGetLastError() {
  const cudaError_t error = std::exchange(last_error(), cudaSuccess);
  return runtime().sticky() != cudaSuccess ? runtime().sticky() : error;
}

cudaError_t cudaPeekAtLastError() { return runtime().sticky() != cudaSuccess ? runtime().sticky() : last_error(); }

const char* cudaGetErrorName(cudaError_t error) { return words_of(error).name; }

const char* cudaGetErrorString(cudaError_t error) { return words_of(error).meaning; }
