// The state of the fake CUDA runtime, and the order between streams.
#include "tests/fakes/cuda/runtime.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "tests/fakes/cuda/fake.hpp"

namespace p5::fake_cuda {

namespace {

constexpr std::size_t most_devices = 128;  // each has its own PCI bus

// A number from the environment; nothing if it is not a number.
std::optional<std::size_t> number_from(const char* variable, std::size_t otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return otherwise;
  const std::string_view digits = text;
  std::size_t value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem == std::errc() && end == digits.data() + digits.size() && !digits.empty()) return value;
  std::fprintf(stderr, "fake libcudart: %s='%s' is not a number\n", variable, text);
  return std::nullopt;
}

std::optional<std::size_t> device_count() {
  const std::optional<std::size_t> count = number_from("P5BENCH_FAKE_GPUS", 8);
  if (!count || *count <= most_devices) return count;
  std::fprintf(stderr, "fake libcudart: P5BENCH_FAKE_GPUS is more than %zu\n", most_devices);
  return std::nullopt;
}

std::optional<std::size_t> device_memory() { return number_from("P5BENCH_FAKE_MEMORY", std::size_t{32} << 20); }

std::optional<std::size_t> driver_version() { return number_from("P5BENCH_FAKE_DRIVER", CUDART_VERSION); }

}  // namespace

Runtime::Runtime()
    : devices_(static_cast<int>(device_count().value_or(0))),
      driver_(static_cast<int>(driver_version().value_or(0))),
      memory_(devices_, device_memory().value_or(0)) {
  // Within one major version a runtime also works with older drivers.
  constexpr int major = 1000;
  if (!device_count() || !device_memory() || !driver_version())
    start_error_ = cudaErrorInitializationError;
  else if (driver_ / major < CUDART_VERSION / major)
    start_error_ = cudaErrorInsufficientDriver;
  else if (devices_ == 0)
    start_error_ = cudaErrorNoDevice;
}

void Runtime::fail(cudaError_t error) {
  cudaError_t none = cudaSuccess;
  sticky_.compare_exchange_strong(none, error);
}

cudaStream_t Runtime::create_stream(int device, bool blocking) {
  auto stream = std::make_shared<Stream>();
  stream->device = device;
  stream->blocking = blocking;
  const auto handle = reinterpret_cast<cudaStream_t>(stream.get());
  const std::scoped_lock lock(mutex_);
  streams_[handle] = std::move(stream);
  return handle;
}

bool Runtime::destroy_stream(cudaStream_t handle) {
  const std::scoped_lock lock(mutex_);
  const auto found = streams_.find(handle);
  if (found == streams_.end()) return false;
  std::erase_if(departed_, [](const auto& entry) { return entry.second->done(); });
  if (const auto tail = found->second->queue.tail()) departed_.emplace_back(found->second->device, tail);
  streams_.erase(found);
  return true;
}

std::shared_ptr<Stream> Runtime::default_stream(int device) {
  std::shared_ptr<Stream>& stream = default_streams_[device];
  if (!stream) {
    stream = std::make_shared<Stream>();
    stream->device = device;
  }
  return stream;
}

std::shared_ptr<Stream> Runtime::find_stream(cudaStream_t handle) {
  const std::scoped_lock lock(mutex_);
  if (handle == nullptr || handle == cudaStreamLegacy) return default_stream(current_device());
  const auto found = streams_.find(handle);
  return found == streams_.end() ? nullptr : found->second;
}

std::shared_ptr<Completion> Runtime::submit(const std::shared_ptr<Stream>& stream, Task task) {
  const std::scoped_lock lock(mutex_);
  if (stream->captured) {
    stream->captured->push_back(std::move(task));
    auto nothing_to_wait_for = std::make_shared<Completion>();
    nothing_to_wait_for->complete();
    return nothing_to_wait_for;
  }
  const std::shared_ptr<Stream> legacy = default_stream(stream->device);
  std::vector<std::shared_ptr<Completion>> before;
  if (stream == legacy) {
    for (const auto& [handle, other] : streams_)
      if (other->device == stream->device && other->blocking) before.push_back(other->queue.tail());
  } else if (stream->blocking) {
    before.push_back(legacy->queue.tail());
  }
  return stream->queue.submit([this, before = std::move(before), task = std::move(task)] {
    for (const auto& completion : before)
      if (completion) await(*completion);
    if (sticky() == cudaSuccess) task();
  });
}

bool Runtime::begin_capture(const std::shared_ptr<Stream>& stream) {
  const std::scoped_lock lock(mutex_);
  if (stream->captured) return false;
  stream->captured = std::make_shared<std::vector<Task>>();
  return true;
}

cudaGraph_t Runtime::end_capture(const std::shared_ptr<Stream>& stream) {
  const std::scoped_lock lock(mutex_);
  if (!stream->captured) return nullptr;
  const auto graph = reinterpret_cast<cudaGraph_t>(next_graph_++);
  graphs_[graph] = std::exchange(stream->captured, nullptr);
  return graph;
}

bool Runtime::captures(const std::shared_ptr<Stream>& stream) {
  const std::scoped_lock lock(mutex_);
  return stream->captured != nullptr;
}

cudaGraphExec_t Runtime::instantiate(cudaGraph_t graph) {
  const std::scoped_lock lock(mutex_);
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return nullptr;
  const auto launch = reinterpret_cast<cudaGraphExec_t>(next_graph_++);
  graphs_[launch] = found->second;
  return launch;
}

Tasks Runtime::find_graph(const void* handle) {
  const std::scoped_lock lock(mutex_);
  const auto found = graphs_.find(handle);
  return found == graphs_.end() ? nullptr : found->second;
}

bool Runtime::destroy_graph(const void* handle) {
  const std::scoped_lock lock(mutex_);
  return graphs_.erase(handle) == 1;
}

void Runtime::synchronize(int device) {
  std::vector<std::shared_ptr<Completion>> tails;
  {
    const std::scoped_lock lock(mutex_);
    tails.push_back(default_stream(device)->queue.tail());
    for (const auto& [handle, stream] : streams_)
      if (stream->device == device) tails.push_back(stream->queue.tail());
    for (const auto& [on, tail] : departed_)
      if (on == device) tails.push_back(tail);
  }
  for (const auto& tail : tails)
    if (tail) tail->wait();
}

cudaEvent_t Runtime::create_event(int device, bool timing) {
  auto event = std::make_shared<Event>();
  event->device = device;
  event->timing = timing;
  const auto handle = reinterpret_cast<cudaEvent_t>(event.get());
  const std::scoped_lock lock(mutex_);
  events_[handle] = std::move(event);
  return handle;
}

bool Runtime::destroy_event(cudaEvent_t handle) {
  const std::scoped_lock lock(mutex_);
  return events_.erase(handle) == 1;
}

std::shared_ptr<Event> Runtime::find_event(cudaEvent_t handle) {
  const std::scoped_lock lock(mutex_);
  const auto found = events_.find(handle);
  return found == events_.end() ? nullptr : found->second;
}

void Runtime::name_kernel(const void* address, const std::string& name) {
  const std::scoped_lock lock(mutex_);
  auto kernel = std::make_shared<Kernel>();
  if (kernels_[address]) *kernel = *kernels_[address];
  kernel->name = name;
  kernels_[address] = std::move(kernel);
}

void Runtime::set_twin(const void* address, Twin twin) {
  const std::scoped_lock lock(mutex_);
  auto kernel = std::make_shared<Kernel>();
  if (kernels_[address]) *kernel = *kernels_[address];
  kernel->twin = std::move(twin);
  kernels_[address] = std::move(kernel);
}

std::shared_ptr<const Kernel> Runtime::find_kernel(const void* address) {
  const std::scoped_lock lock(mutex_);
  const auto found = kernels_.find(address);
  return found == kernels_.end() ? nullptr : found->second;
}

Runtime& runtime() {
  static Runtime& the = *std::make_unique<Runtime>().release();
  return the;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

cudaError_t finish(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

cudaError_t enter() {
  if (on_queue_thread()) return cudaErrorNotPermitted;
  if (runtime().start_error() != cudaSuccess) return runtime().start_error();
  return runtime().sticky();
}

}  // namespace p5::fake_cuda

bool p5bench_fake_accessible(const void* address, std::size_t bytes) {
  return p5::fake_cuda::runtime().memory().holds(address, bytes);
}

void p5bench_fake_exhaust_memory() { p5::fake_cuda::runtime().memory().exhaust(); }
