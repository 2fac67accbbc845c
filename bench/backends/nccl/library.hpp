// Calls of NCCL and of test doubles that are not in every library that the worker may meet at run time: looked up by
// name, null where missing.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>

namespace p5::nccl {

struct OptionalCalls {
  const char* (*get_last_error)(ncclComm_t) = nullptr;                                                    // 2.13
  ncclResult_t (*mem_alloc)(void** memory, size_t) = nullptr;                                             // 2.19
  ncclResult_t (*mem_free)(void* memory) = nullptr;                                                       // 2.19
  ncclResult_t (*comm_register)(const ncclComm_t, void* memory, size_t, void** handle) = nullptr;         // 2.19
  ncclResult_t (*comm_deregister)(const ncclComm_t, void* handle) = nullptr;                              // 2.19
  ncclResult_t (*window_register)(ncclComm_t, void* memory, size_t, void** window, int flags) = nullptr;  // 2.27
  ncclResult_t (*window_deregister)(ncclComm_t, void* window) = nullptr;                                  // 2.27
};
const OptionalCalls& optional_calls();

std::string library_version();  // "NCCL 2.28.9"
std::string library_path();     // of the file that was really loaded

}  // namespace p5::nccl
