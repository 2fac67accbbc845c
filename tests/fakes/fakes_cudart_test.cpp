// The fake CUDA runtime: order, events, memory and kernels' twins.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <set>

#include "tests/fakes/cuda/fake.hpp"
#include "tests/fakes/fakes_test.hpp"

namespace p5::fakes {
namespace {

cudaStream_t new_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
  return stream;
}

cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
  return event;
}

// Blocks a stream until opened.
struct Gate {
  std::atomic<bool> open = false;

  explicit Gate(cudaStream_t stream) { EXPECT_EQ(cudaLaunchHostFunc(stream, &pass, this), cudaSuccess); }
  static void pass(void* gate) { static_cast<Gate*>(gate)->open.wait(false); }
  void release() {
    open = true;
    open.notify_all();
  }
};

TEST(FakeCudart, has_distinct_devices_that_say_that_they_are_fake) {
  in_process({{"P5BENCH_FAKE_GPUS", "3"}, {"P5BENCH_FAKE_MEMORY", "1000000"}}, [] {
    int devices = 0;
    EXPECT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
    EXPECT_EQ(devices, 3);
    std::set<std::string> ids;
    for (int device = 0; device < devices; ++device) {
      cudaDeviceProp properties;
      char bus[16];
      EXPECT_EQ(cudaGetDeviceProperties(&properties, device), cudaSuccess);
      EXPECT_EQ(cudaDeviceGetPCIBusId(bus, sizeof bus, device), cudaSuccess);
      EXPECT_STREQ(properties.name, "Fake GPU");
      EXPECT_EQ(properties.totalGlobalMem, 1000000u);
      ids.insert(bus);
      ids.insert(std::string(properties.uuid.bytes, sizeof properties.uuid.bytes));
    }
    EXPECT_EQ(ids.size(), 6u);
    EXPECT_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  });
}

TEST(FakeCudart, may_have_no_device) {
  in_process({{"P5BENCH_FAKE_GPUS", "0"}}, [] {
    int devices = -1;
    EXPECT_EQ(cudaGetDeviceCount(&devices), cudaErrorNoDevice);
    EXPECT_EQ(devices, 0);
  });
}

TEST(FakeCudart, accounts_for_memory_of_each_device) {
  in_process({{"P5BENCH_FAKE_MEMORY", "1048576"}}, [] {
    void *most = nullptr, *more = nullptr;
    std::size_t free_bytes = 0, total_bytes = 0;
    EXPECT_EQ(cudaMalloc(&most, 1 << 20), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&more, 1), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
    EXPECT_EQ(free_bytes, 0u);
    EXPECT_EQ(total_bytes, 1u << 20);
    EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&more, 1 << 20), cudaSuccess);
    EXPECT_EQ(cudaFree(most), cudaSuccess);
    EXPECT_EQ(cudaFree(most), cudaErrorInvalidValue);
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&most, 1 << 20), cudaSuccess);
  });
}

TEST(FakeCudart, refuses_copies_beyond_an_allocation_or_in_the_wrong_direction) {
  in_process({}, [] {
    char host[16] = {};
    char* device = device_array<char>(10);
    EXPECT_EQ(cudaMemcpy(device, host, 10, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(device, host, 11, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy(device + 1, host, 10, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemcpy(device, host, 10, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemset(host, 0, 10), cudaErrorInvalidValue);
    EXPECT_EQ(cudaMemset(device, 7, 10), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(host, device, 10, cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(std::count(host, host + 16, 7), 10);
  });
}

TEST(FakeCudart, runs_a_stream_in_order_and_behind_a_gate) {
  in_process({}, [] {
    const cudaStream_t stream = new_stream();
    char* device = device_array<char>(1, 1);
    Gate gate(stream);
    char staged = 5;
    EXPECT_EQ(cudaMemsetAsync(device, 2, 1, stream), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(device, &staged, 1, cudaMemcpyHostToDevice, stream), cudaSuccess);
    staged = 6;  // the copy has read pageable memory already
    EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
    EXPECT_EQ(*device, 1);
    gate.release();
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
    EXPECT_EQ(*device, 5);
  });
}

TEST(FakeCudart, waits_for_events_of_other_streams) {
  in_process({}, [] {
    const cudaStream_t first = new_stream(), second = new_stream();
    const cudaEvent_t event = new_event();
    EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
    char* device = device_array<char>(1, 1);
    Gate gate(first);
    EXPECT_EQ(cudaMemsetAsync(device, 2, 1, first), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(device, 3, 1, second), cudaSuccess);
    EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
    EXPECT_EQ(cudaStreamQuery(second), cudaErrorNotReady);
    gate.release();
    EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
    EXPECT_EQ(*device, 3);
  });
}

TEST(FakeCudart, events_tell_the_time_between_them) {
  in_process({}, [] {
    const cudaStream_t stream = new_stream();
    const cudaEvent_t before = new_event(), after = new_event();
    float milliseconds = -1;
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, before, after), cudaErrorInvalidResourceHandle);
    EXPECT_EQ(cudaEventRecord(before, stream), cudaSuccess);
    Gate gate(stream);
    EXPECT_EQ(cudaEventRecord(after, stream), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(before), cudaSuccess);
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, before, after), cudaErrorNotReady);
    gate.release();
    EXPECT_EQ(cudaEventSynchronize(after), cudaSuccess);
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, before, after), cudaSuccess);
    EXPECT_GE(milliseconds, 0);
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, after, before), cudaSuccess);
    EXPECT_LE(milliseconds, 0);
  });
}

TEST(FakeCudart, the_legacy_default_stream_waits_for_blocking_streams_only) {
  in_process({}, [] {
    const cudaStream_t blocking = new_stream(cudaStreamDefault), apart = new_stream();
    char* device = device_array<char>(1, 1);
    Gate held(blocking), held_apart(apart);
    EXPECT_EQ(cudaMemsetAsync(device, 2, 1, nullptr), cudaSuccess);
    EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
    held.release();
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(*device, 2);
    EXPECT_EQ(cudaStreamQuery(apart), cudaErrorNotReady);
    held_apart.release();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  });
}

void kernel_stub() {}

void add_twin(void** arguments, unsigned blocks, unsigned threads) {
  int* target = *static_cast<int**>(arguments[0]);
  *target += *static_cast<int*>(arguments[1]) + static_cast<int>(100 * blocks + 10 * threads);
}

TEST(FakeCudart, launches_twins_with_copies_of_their_arguments) {
  in_process({}, [] {
    const auto* kernel = reinterpret_cast<const void*>(&kernel_stub);
    const cudaStream_t stream = new_stream();
    int* target = device_array<int>(1);
    int addend = 3;
    void* arguments[] = {&target, &addend};
    EXPECT_EQ(cudaLaunchKernel(kernel, dim3(2), dim3(4), arguments, 0, stream), cudaErrorInvalidDeviceFunction);
    const unsigned sizes[] = {sizeof target, sizeof addend};
    p5bench_fake_register_twin(kernel, &add_twin, sizes, 2);
    Gate gate(stream);
    EXPECT_EQ(cudaLaunchKernel(kernel, dim3(2), dim3(4), arguments, 0, stream), cudaSuccess);
    EXPECT_EQ(cudaLaunchKernel(kernel, dim3(2), dim3(2000), arguments, 0, stream), cudaErrorInvalidConfiguration);
    addend = 4;
    gate.release();
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(*target, 243);
  });
}

TEST(FakeCudart, an_error_of_a_kernel_lasts) {
  in_process({}, [] {
    const auto* kernel = reinterpret_cast<const void*>(&kernel_stub);
    p5bench_fake_register_twin(
        kernel, [](void**, unsigned, unsigned) { throw 1; }, nullptr, 0);
    const cudaStream_t stream = new_stream();
    EXPECT_EQ(cudaLaunchKernel(kernel, dim3(1), dim3(1), nullptr, 0, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
    void* address = nullptr;
    EXPECT_EQ(cudaMalloc(&address, 1), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  });
}

TEST(FakeCudart, forbids_cuda_calls_in_host_functions) {
  in_process({}, [] {
    cudaError_t seen = cudaSuccess;
    const cudaStream_t stream = new_stream();
    const auto call = [](void* result) {
      int device = 0;
      *static_cast<cudaError_t*>(result) = cudaGetDevice(&device);
    };
    EXPECT_EQ(cudaLaunchHostFunc(stream, call, &seen), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(seen, cudaErrorNotPermitted);
  });
}

}  // namespace
}  // namespace p5::fakes
