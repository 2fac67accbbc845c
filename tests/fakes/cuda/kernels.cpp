// Launches of the fake CUDA runtime: kernels run as their host twins, host functions directly. Also the functions that
// code from nvcc calls to register its kernels; variables, textures and surfaces are not modelled.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "tests/fakes/cuda/fake.hpp"
#include "tests/fakes/cuda/runtime.hpp"

namespace {

using namespace p5::fake_cuda;

struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;

  bool valid() const {
    const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
    return threads > 0 && threads <= 1024 && grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffff &&
           grid.y <= 0xffff && grid.z <= 0xffff && shared_bytes <= 48 << 10;
  }
};

// Launch configurations that <<<...>>> pushed for the host stub to pop.
std::vector<Configuration>& pushed() {
  thread_local std::vector<Configuration> configurations;
  return configurations;
}

// Copies of the arguments of one launch.
struct Arguments {
  std::vector<std::unique_ptr<unsigned char[]>> storage;  // new aligns every type except those with a larger alignas
  std::vector<void*> pointers;

  Arguments(void** arguments, const std::vector<unsigned>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      storage.push_back(std::make_unique<unsigned char[]>(sizes[i]));
      std::memcpy(storage.back().get(), arguments[i], sizes[i]);
      pointers.push_back(storage.back().get());
    }
  }
};

// False as on GPUs for which the program was not compiled.
bool has_code() { return std::getenv("P5BENCH_FAKE_NO_CODE") == nullptr; }

cudaError_t launch(const void* address, void** arguments, const Configuration& configuration) {
  if (const cudaError_t error = enter()) return error;
  if (!has_code()) return cudaErrorNoKernelImageForDevice;
  const auto kernel = runtime().find_kernel(address);
  if (!kernel || kernel->twin.function == nullptr) {
    std::fprintf(stderr, "fake libcudart: no host twin is registered for kernel %s\n",
                 kernel ? kernel->name.c_str() : "(unknown)");
    return cudaErrorInvalidDeviceFunction;
  }
  const auto stream = runtime().find_stream(configuration.stream);
  if (!stream || stream->device != current_device()) return cudaErrorInvalidResourceHandle;
  if (!configuration.valid()) return cudaErrorInvalidConfiguration;
  const unsigned blocks = configuration.grid.x * configuration.grid.y * configuration.grid.z;
  const unsigned threads = configuration.block.x * configuration.block.y * configuration.block.z;
  auto copies = std::make_shared<Arguments>(arguments, kernel->twin.argument_sizes);
  runtime().submit(stream, [twin = kernel->twin.function, copies, blocks, threads] {
    try {
      twin(copies->pointers.data(), blocks, threads);
    } catch (...) {
      runtime().fail(cudaErrorLaunchFailure);
    }
  });
  return cudaSuccess;
}

}  // namespace

const char* p5bench_fake_cublaslt() {
  const char* const path = std::getenv("P5BENCH_FAKE_CUBLASLT");
  return path ? path : "";
}

void p5bench_fake_register_twin(const void* kernel, void (*twin)(void**, unsigned, unsigned),
                                const unsigned* argument_sizes, unsigned arguments_count) {
  runtime().set_twin(kernel, {twin, {argument_sizes, argument_sizes + arguments_count}});
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                             cudaStream_t stream) {
  return finish(launch(kernel, arguments, {grid, block, shared_bytes, stream}));
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* address) {
  if (const cudaError_t error = enter()) return finish(error);
  if (attributes == nullptr) return finish(cudaErrorInvalidValue);
  if (!has_code()) return finish(cudaErrorNoKernelImageForDevice);
  if (!runtime().find_kernel(address)) return finish(cudaErrorInvalidDeviceFunction);
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->ptxVersion = attributes->binaryVersion = 90;
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  if (const cudaError_t error = enter()) return finish(error);
  const auto stream = runtime().find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (function == nullptr) return finish(cudaErrorInvalidValue);
  runtime().submit(stream, [function, data] { function(data); });
  return cudaSuccess;
}

// Functions that host code from nvcc calls. CUDA's headers declare them for nvcc only.
extern "C" {

void** __cudaRegisterFatBinary(void* image) {
  static void* handle = nullptr;
  handle = image;
  return &handle;
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void**) {}

char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void**, const char* host_stub, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  runtime().name_kernel(host_stub, name);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream) {
  pushed().push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream) {
  if (pushed().empty()) return finish(cudaErrorInvalidConfiguration);
  const Configuration configuration = pushed().back();
  pushed().pop_back();
  *grid = configuration.grid;
  *block = configuration.block;
  *shared_bytes = configuration.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}

// The handle of a kernel is the address of its host stub.
cudaError_t __cudaGetKernel(cudaKernel_t* handle, const void* host_stub) {
  if (!runtime().find_kernel(host_stub)) return finish(cudaErrorInvalidDeviceFunction);
  *handle = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host_stub));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared_bytes,
                               cudaStream_t stream) {
  return finish(launch(reinterpret_cast<const void*>(kernel), arguments, {grid, block, shared_bytes, stream}));
}

}  // extern "C"
