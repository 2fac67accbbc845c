// What the calls of the fake NCCL share: handles, the last error's words, groups.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>

#include "tests/fakes/nccl/communicator.hpp"

namespace p5::fake_nccl {

ncclComm_t add_handle(const std::shared_ptr<Communicator>& communicator);
// Null for what is no handle, or none any more.
std::shared_ptr<Communicator> find_handle(ncclComm_t handle);
std::shared_ptr<Communicator> remove_handle(ncclComm_t handle);

// What the calling thread was refused last.
std::string& failure_context();

// Whether the calling thread is between ncclGroupStart and ncclGroupEnd.
bool in_group();

// What a call on a communicator in this state returns: one that is not ready is an argument too early.
inline ncclResult_t usable(ncclResult_t state) { return state == ncclInProgress ? ncclInvalidArgument : state; }

}  // namespace p5::fake_nccl
