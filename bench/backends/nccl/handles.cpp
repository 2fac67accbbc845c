#include "bench/backends/nccl/handles.hpp"

#include <fmt/format.h>

#include <thread>
#include <vector>

#include "bench/backends/nccl/library.hpp"
#include "bench/base/error.hpp"

namespace p5::nccl {

void check(cudaError_t result, std::string_view call) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // else the next call that succeeds reports this one again
  throw CaseError(fmt::format("{}: {} ({}, {})", call, cudaGetErrorString(result), cudaGetErrorName(result),
                              static_cast<int>(result)));
}

void check(ncclResult_t result, std::string_view call) {
  if (result == ncclSuccess) return;
  std::string text = fmt::format("{}: {} ({})", call, ncclGetErrorString(result), static_cast<int>(result));
  if (const auto last_error = optional_calls().get_last_error)
    if (const char* noted = last_error(nullptr); noted && *noted) text += fmt::format(": {}", noted);
  // The cause lies with another rank, which will say more.
  if (result == ncclRemoteError) throw StalledError(text);
  throw CaseError(text);
}

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return Stream(stream);
}

Event make_timing_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return Event(event);
}

Event make_marker_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return Event(event);
}

GraphLaunch capture(cudaStream_t stream, const std::function<void()>& queue) {
  using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
  // Other threads of this process, NCCL's among them, may do with CUDA what they like meanwhile.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t captured = nullptr;
  try {
    queue();
  } catch (...) {
    cudaStreamEndCapture(stream, &captured);
    const Graph discarded(captured);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
  const Graph graph(captured);
  cudaGraphExec_t launch = nullptr;
  check(cudaGraphInstantiateWithFlags(&launch, captured, 0), "cudaGraphInstantiateWithFlags");
  return GraphLaunch(launch);
}

DeviceMemory make_device_memory(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), fmt::format("cudaMalloc of {} bytes", bytes));
  return DeviceMemory(memory);
}

PinnedMemory make_pinned_memory(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped), fmt::format("cudaHostAlloc of {} bytes", bytes));
  return PinnedMemory(memory);
}

void leave(std::vector<Communicator> communicators) {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  std::vector<ncclResult_t> results(communicators.size(), ncclSuccess);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < communicators.size(); ++i)
      threads.emplace_back([&result = results[i], handle = communicators[i].release(), device] {
        cudaSetDevice(device);
        result = ncclCommDestroy(handle);
      });
  }
  for (const ncclResult_t result : results) check(result, "ncclCommDestroy");
}

}  // namespace p5::nccl
