// State shared by the calls of the fake NCCL: handles, the last error's text, groups.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>

#include "tests/fakes/nccl/communicator.hpp"

namespace p5::fake_nccl {

ncclComm_t add_handle(const std::shared_ptr<Communicator>& communicator);
// Null for an invalid or destroyed handle.
std::shared_ptr<Communicator> find_handle(ncclComm_t handle);
std::shared_ptr<Communicator> remove_handle(ncclComm_t handle);

// Text of the calling thread's last error.
std::string& failure_context();

// True if the calling thread is between ncclGroupStart and ncclGroupEnd.
bool in_group();

// Result of a call on a communicator in this state: ncclInvalidArgument if it is not ready yet.
inline ncclResult_t usable(ncclResult_t state) { return state == ncclInProgress ? ncclInvalidArgument : state; }

}  // namespace p5::fake_nccl
