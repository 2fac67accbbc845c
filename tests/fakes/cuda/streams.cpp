// Streams and events of the fake CUDA runtime.
#include <chrono>

#include "tests/fakes/cuda/fake.hpp"
#include "tests/fakes/cuda/runtime.hpp"

namespace {

using namespace p5::fake_cuda;

constexpr std::chrono::microseconds while_asked{100};

cudaError_t create(cudaStream_t* stream, bool blocking) {
  if (const cudaError_t error = enter()) return finish(error);
  if (stream == nullptr) return finish(cudaErrorInvalidValue);
  *stream = runtime().create_stream(current_device(), blocking);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return create(stream, true); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking) return finish(cudaErrorInvalidValue);
  return create(stream, flags == cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (const cudaError_t error = enter()) return finish(error);
  return finish(runtime().destroy_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  if (const cudaError_t error = enter()) return finish(error);
  const auto stream = runtime().find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (runtime().captures(stream)) return finish(cudaErrorStreamCaptureUnsupported);
  if (const auto tail = stream->queue.tail()) tail->wait();
  return finish(runtime().sticky());
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  if (const cudaError_t error = enter()) return finish(error);
  const auto stream = runtime().find_stream(handle);
  if (!stream) return finish(cudaErrorInvalidResourceHandle);
  if (runtime().captures(stream)) return finish(cudaErrorStreamCaptureUnsupported);
  const auto tail = stream->queue.tail();
  // Waits briefly: a caller that polls would take the processor from the threads that stand for the device.
  return finish(!tail || tail->done_within(while_asked) ? runtime().sticky() : cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t event_handle, unsigned flags) {
  if (const cudaError_t error = enter()) return finish(error);
  const auto stream = runtime().find_stream(stream_handle);
  const auto event = runtime().find_event(event_handle);
  if (!stream || !event) return finish(cudaErrorInvalidResourceHandle);
  if (flags != cudaEventWaitDefault) return finish(cudaErrorNotSupported);
  if (const auto record = event->latest()) runtime().submit(stream, [record] { await(*record); });
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t error = enter()) return finish(error);
  if (event == nullptr || (flags & ~(cudaEventBlockingSync | cudaEventDisableTiming)) != 0)
    return finish(cudaErrorInvalidValue);
  *event = runtime().create_event(current_device(), (flags & cudaEventDisableTiming) == 0);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (const cudaError_t error = enter()) return finish(error);
  return finish(runtime().destroy_event(event) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t event_handle, cudaStream_t stream_handle) {
  if (const cudaError_t error = enter()) return finish(error);
  const auto stream = runtime().find_stream(stream_handle);
  const auto event = runtime().find_event(event_handle);
  if (!stream || !event || stream->device != event->device) return finish(cudaErrorInvalidResourceHandle);
  const auto reached = runtime().submit(stream, [] {});
  const std::scoped_lock lock(event->mutex);
  event->record = reached;
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  if (const cudaError_t error = enter()) return finish(error);
  const auto event = runtime().find_event(handle);
  if (!event) return finish(cudaErrorInvalidResourceHandle);
  const auto record = event->latest();
  return finish(!record || record->done() ? runtime().sticky() : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  if (const cudaError_t error = enter()) return finish(error);
  const auto event = runtime().find_event(handle);
  if (!event) return finish(cudaErrorInvalidResourceHandle);
  if (const auto record = event->latest()) record->wait();
  return finish(runtime().sticky());
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from_handle, cudaEvent_t to_handle) {
  if (const cudaError_t error = enter()) return finish(error);
  const auto from = runtime().find_event(from_handle), to = runtime().find_event(to_handle);
  if (milliseconds == nullptr) return finish(cudaErrorInvalidValue);
  if (!from || !to || !from->timing || !to->timing) return finish(cudaErrorInvalidResourceHandle);
  const auto begin = from->latest(), end = to->latest();
  if (!begin || !end) return finish(cudaErrorInvalidResourceHandle);
  if (!begin->done() || !end->done()) return finish(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(end->time() - begin->time()).count();
  return cudaSuccess;
}

void p5bench_fake_pass(int microseconds) { pass(std::chrono::microseconds(microseconds)); }
