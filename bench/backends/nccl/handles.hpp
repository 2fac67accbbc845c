// Handles of CUDA and NCCL that close themselves, and the functions that turn the results of calls into errors.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

namespace p5::nccl {

// Throw CaseError with the call, the library's text and code, and what NCCL noted last.
void check(cudaError_t result, std::string_view call);
void check(ncclResult_t result, std::string_view call);

template <class Handle, auto close>
struct Closer {
  void operator()(Handle handle) const { static_cast<void>(close(handle)); }
};
template <class Handle, auto close>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Closer<Handle, close>>;

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using GraphLaunch = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;
using DeviceMemory = Owned<void*, cudaFree>;
using PinnedMemory = Owned<void*, cudaFreeHost>;
// Aborts: what is right when something went wrong. A healthy one is left by leave().
using Communicator = Owned<ncclComm_t, ncclCommAbort>;

Stream make_stream();
Event make_timing_event();
// What `queue` puts on the stream, without running it: ready to be launched as one.
GraphLaunch capture(cudaStream_t stream, const std::function<void()>& queue);
Event make_marker_event();  // cheaper: says only whether it has happened
DeviceMemory make_device_memory(std::size_t bytes);
PinnedMemory make_pinned_memory(std::size_t bytes);  // of the host; the device can address it too

// Waits for what NCCL still has to send for the others, which an abort would not. All members of each communicator call
// it. Each in a thread of its own, since NCCL takes half a second for one, in which it only waits.
void leave(std::vector<Communicator> communicators);

}  // namespace p5::nccl
