// Graphs of the fake CUDA runtime: tasks submitted to a capturing stream, run at each launch of the graph.
#include "tests/fakes/cuda/runtime.hpp"

using namespace p5::fake_cuda;

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  if (const cudaError_t error = enter()) return finish(error);
  const auto stream = runtime().find_stream(handle);
  if (!stream || handle == nullptr) return finish(cudaErrorInvalidResourceHandle);
  return finish(runtime().begin_capture(stream) ? cudaSuccess : cudaErrorIllegalState);
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  if (const cudaError_t error = enter()) return finish(error);
  const auto stream = runtime().find_stream(handle);
  if (!stream || graph == nullptr) return finish(cudaErrorInvalidResourceHandle);
  *graph = runtime().end_capture(stream);
  return finish(*graph ? cudaSuccess : cudaErrorIllegalState);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  if (const cudaError_t error = enter()) return finish(error);
  const auto stream = runtime().find_stream(handle);
  if (!stream || status == nullptr) return finish(cudaErrorInvalidResourceHandle);
  *status = runtime().captures(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* launch, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t error = enter()) return finish(error);
  if (launch == nullptr) return finish(cudaErrorInvalidValue);
  *launch = runtime().instantiate(graph);
  return finish(*launch ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t launch, cudaStream_t handle) {
  if (const cudaError_t error = enter()) return finish(error);
  const auto stream = runtime().find_stream(handle);
  const auto tasks = runtime().find_graph(launch);
  if (!stream || !tasks) return finish(cudaErrorInvalidResourceHandle);
  runtime().submit(stream, [tasks] {
    for (const Task& task : *tasks) task();
  });
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  if (const cudaError_t error = enter()) return finish(error);
  return finish(runtime().destroy_graph(graph) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t launch) {
  if (const cudaError_t error = enter()) return finish(error);
  return finish(runtime().destroy_graph(launch) ? cudaSuccess : cudaErrorInvalidValue);
}
