// Owning handles of CUDA and NCCL, conversion of their results to errors, and calls that not every NCCL has.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace p5::nccl {

// Functions that not every NCCL library has, looked up by name; null if missing.
struct OptionalCalls {
  const char* (*get_last_error)(ncclComm_t) = nullptr;                                                    // 2.13
  ncclResult_t (*mem_alloc)(void** memory, size_t) = nullptr;                                             // 2.19
  ncclResult_t (*mem_free)(void* memory) = nullptr;                                                       // 2.19
  ncclResult_t (*comm_register)(const ncclComm_t, void* memory, size_t, void** handle) = nullptr;         // 2.19
  ncclResult_t (*comm_deregister)(const ncclComm_t, void* handle) = nullptr;                              // 2.19
  ncclResult_t (*window_register)(ncclComm_t, void* memory, size_t, void** window, int flags) = nullptr;  // 2.27
  ncclResult_t (*window_deregister)(ncclComm_t, void* window) = nullptr;                                  // 2.27
  ncclResult_t (*comm_shrink)(ncclComm_t, int* left_out, int count, ncclComm_t* made, ncclConfig_t*,
                              int flags) = nullptr;                            // 2.27
  ncclResult_t (*comm_revoke)(ncclComm_t, int flags) = nullptr;                // 2.28.9
  ncclResult_t (*comm_get_unique_id)(ncclComm_t, ncclUniqueId* id) = nullptr;  // 2.29
  ncclResult_t (*comm_grow)(ncclComm_t, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* made,
                            ncclConfig_t*) = nullptr;  // 2.29
};
const OptionalCalls& optional_calls();
inline constexpr int symmetric_window = 1;  // NCCL_WIN_COLL_SYMMETRIC, which headers before 2.27 lack

int library_number();           // 22809
std::string library_version();  // "NCCL 2.28.9"
int compute_capability();       // of this process's GPU: 90 for 9.0
// Why communicators cannot have the CTA policy; "" if they can.
std::string no_cta_policy(const std::string& policy);
// Sets a policy other than the default. False if there is nothing to set or this NCCL lacks it.
bool set_cta_policy(ncclConfig_t& config, const std::string& policy);
std::string library_path();  // path of the loaded file

// Throw CaseError with the call, the library's text and code, and NCCL's last error.
void check(cudaError_t result, std::string_view call);
void check(ncclResult_t result, std::string_view call);

// True if a query of a stream or an event says that its work has ended. Throws CaseError on any other error.
bool has_ended(cudaError_t state, std::string_view call);

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
// Aborts on destruction, as is right after an error. A healthy communicator is destroyed by leave().
using Communicator = Owned<ncclComm_t, ncclCommAbort>;

Stream make_stream();
Event make_timing_event();
// Captures the work that `queue` puts on the stream as a graph.
GraphLaunch capture(cudaStream_t stream, const std::function<void()>& queue);
Event make_marker_event();  // cheaper: without a time
DeviceMemory make_device_memory(std::size_t bytes);
PinnedMemory make_pinned_memory(std::size_t bytes);  // host memory that the device can address

// Destroys communicators, waiting for outstanding sends, which an abort would not. Collective over each communicator's
// members. Uses a thread per communicator, because NCCL waits about half a second for each.
void leave(std::vector<Communicator> communicators);

}  // namespace p5::nccl
