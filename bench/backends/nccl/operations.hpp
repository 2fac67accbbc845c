// NCCL calls of each collective and pattern.
#pragma once

#include <nccl.h>

#include <cstddef>

#include "bench/model/case.hpp"
#include "bench/model/expected.hpp"

namespace p5::nccl {

struct Operation {
  const Case& of;
  const RankInGroup& place;
  const void* input = nullptr;
  void* output = nullptr;
  ncclComm_t communicator = nullptr;  // the group's, ranks ascending
  cudaStream_t stream = nullptr;
};

ncclDataType_t nccl_type(DataType type);
ncclRedOp_t nccl_op(ReduceOp op);

// Queues an operation of a case. Throws CaseError if NCCL has none.
using Enqueue = void (*)(const Operation&);
Enqueue enqueue_for(const Case& c);

}  // namespace p5::nccl
