// State of the fake CUDA runtime in this process: devices, memory, streams, events, kernels, errors.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/cuda/memory.hpp"
#include "tests/fakes/cuda/queue.hpp"

namespace p5::fake_cuda {

using Tasks = std::shared_ptr<std::vector<Task>>;

struct Stream {
  int device = 0;
  bool blocking = true;  // synchronizes with the legacy default stream in both directions
  Queue queue;
  Tasks captured = nullptr;  // tasks of the capture in progress, else null
};

struct Event {
  int device = 0;
  bool timing = true;
  std::mutex mutex;
  std::shared_ptr<Completion> record;  // the latest; null before the first one

  std::shared_ptr<Completion> latest() {
    const std::scoped_lock lock(mutex);
    return record;
  }
};

struct Twin {
  void (*function)(void** arguments, unsigned grid_blocks, unsigned block_threads) = nullptr;
  std::vector<unsigned> argument_sizes;
};

struct Kernel {
  std::string name;
  Twin twin;
};

class Runtime {
 public:
  Runtime();

  int devices() const { return devices_; }
  Memory& memory() { return memory_; }
  // The driver's CUDA version, encoded as CUDART_VERSION; 0: no driver.
  int driver() const { return driver_; }
  // Error of every call if the environment is invalid, the driver too old, or no device present.
  cudaError_t start_error() const { return start_error_; }

  // A device error, which persists until the process ends.
  cudaError_t sticky() const { return sticky_.load(); }
  void fail(cudaError_t error);

  cudaStream_t create_stream(int device, bool blocking);
  bool destroy_stream(cudaStream_t handle);
  // Null for an unknown handle. The default stream is that of the calling thread's device.
  std::shared_ptr<Stream> find_stream(cudaStream_t handle);
  // Runs the task after all tasks that precede it by CUDA's rules.
  std::shared_ptr<Completion> submit(const std::shared_ptr<Stream>& stream, Task task);
  void synchronize(int device);

  // While a stream captures, submitted tasks run only when the graph is launched. False or null: not capturing, or
  // capturing already. Graphs and their instances are the same object here.
  bool begin_capture(const std::shared_ptr<Stream>& stream);
  cudaGraph_t end_capture(const std::shared_ptr<Stream>& stream);
  bool captures(const std::shared_ptr<Stream>& stream);
  cudaGraphExec_t instantiate(cudaGraph_t graph);
  Tasks find_graph(const void* handle);
  bool destroy_graph(const void* handle);

  cudaEvent_t create_event(int device, bool timing);
  bool destroy_event(cudaEvent_t handle);
  std::shared_ptr<Event> find_event(cudaEvent_t handle);

  void name_kernel(const void* address, const std::string& name);
  void set_twin(const void* address, Twin twin);
  // Null for an unknown address.
  std::shared_ptr<const Kernel> find_kernel(const void* address);

 private:
  std::shared_ptr<Stream> default_stream(int device);

  int devices_ = 0, driver_ = 0;
  cudaError_t start_error_ = cudaSuccess;
  Memory memory_;
  std::atomic<cudaError_t> sticky_ = cudaSuccess;

  std::mutex mutex_;
  std::map<cudaStream_t, std::shared_ptr<Stream>> streams_;
  std::map<int, std::shared_ptr<Stream>> default_streams_;             // by device
  std::vector<std::pair<int, std::shared_ptr<Completion>>> departed_;  // last tasks of destroyed streams, by device
  std::map<cudaEvent_t, std::shared_ptr<Event>> events_;
  std::map<const void*, std::shared_ptr<const Kernel>> kernels_;
  std::map<const void*, Tasks> graphs_;
  std::uintptr_t next_graph_ = 1;
};

// Never destroyed, since threads of streams may outlast main().
Runtime& runtime();

// The device that the calling thread has chosen.
int& current_device();
// The error that cudaGetLastError of the calling thread returns.
cudaError_t& last_error();
// Remembers an error for cudaGetLastError.
cudaError_t finish(cudaError_t error);
// Error of every call in the present state; normally cudaSuccess.
cudaError_t enter();

}  // namespace p5::fake_cuda
