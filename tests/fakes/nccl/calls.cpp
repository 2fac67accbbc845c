// NCCL's API for operations and groups. A group's operations on one communicator become one launch, so that its sends
// and receives run concurrently.
#include <nccl.h>

#include <cstdint>
#include <utility>

#include "tests/fakes/cuda/fake.hpp"
#include "tests/fakes/nccl/handles.hpp"
#include "tests/fakes/nccl/reduce.hpp"

namespace {

using namespace p5::fake_nccl;

struct Pending {
  std::shared_ptr<Communicator> communicator;
  std::vector<Operation> operations;
  std::vector<cudaStream_t> streams;  // the launch is put on the first one
};

struct Group {
  int depth = 0;
  std::vector<Pending> pending;
  ncclResult_t error = ncclSuccess;
};

Group& group() {
  thread_local Group current;
  return current;
}

// Makes `stream` wait for the work on `other` so far.
bool wait_for(cudaStream_t stream, cudaStream_t other) {
  cudaEvent_t event = nullptr;
  const bool made = cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess &&
                    cudaEventRecord(event, other) == cudaSuccess &&
                    cudaStreamWaitEvent(stream, event, 0) == cudaSuccess;
  cudaEventDestroy(event);
  return made;
}

ncclResult_t launch_one(const Pending& pending) {
  const cudaStream_t stream = pending.streams.front();
  for (const cudaStream_t other : pending.streams)
    if (other != stream && !wait_for(stream, other)) return refuse(ncclUnhandledCudaError, "a stream is none");
  const ncclResult_t result = pending.communicator->enqueue(pending.communicator, pending.operations, stream);
  for (const cudaStream_t other : pending.streams)
    if (other != stream) wait_for(other, stream);
  return result;
}

ncclResult_t launch(const Pending& pending) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return refuse(ncclUnhandledCudaError, "CUDA has failed before");
  cudaSetDevice(pending.communicator->device);
  const ncclResult_t result = launch_one(pending);
  cudaSetDevice(device);
  return result;
}

ncclResult_t add(const std::shared_ptr<Communicator>& communicator, const Operation& operation, cudaStream_t stream) {
  if (!in_group()) return launch({communicator, {operation}, {stream}});
  for (Pending& pending : group().pending) {
    if (pending.communicator != communicator) continue;
    pending.operations.push_back(operation);
    pending.streams.push_back(stream);
    return ncclSuccess;
  }
  group().pending.push_back({communicator, {operation}, {stream}});
  return ncclSuccess;
}

// Reason why an operation is rejected; empty if it is valid.
std::string objection(const Operation& operation, int rank, int ranks) {
  const std::uint64_t element = size_of(operation.type);
  if (element == 0) return "there is no such type";
  const Form& form = form_of(operation.kind);
  const auto all = static_cast<std::uint64_t>(ranks);
  if (form.reduces && !reducible(operation.type, operation.reduction)) return "the fake has no such reduction";
  if (operation.peer < 0 || operation.peer >= ranks) return "there is no such peer or root";
  if (operation.count > SIZE_MAX / element / all) return "the count is too large";
  const std::uint64_t bytes = operation.count * element;
  const bool has_input = operation.kind != Operation::Kind::receive &&
                         (operation.kind != Operation::Kind::broadcast || operation.peer == rank);
  const bool has_output =
      operation.kind != Operation::Kind::send && (operation.kind != Operation::Kind::reduce || operation.peer == rank);
  if (has_input && !p5bench_fake_accessible(operation.input, bytes * (form.wide_input ? all : 1)))
    return "the device cannot reach all of the input";
  if (has_output && !p5bench_fake_accessible(operation.output, bytes * (form.wide_output ? all : 1)))
    return "the device cannot reach all of the output";
  return "";
}

ncclResult_t perform(Operation operation, ncclComm_t handle, cudaStream_t stream) {
  const auto result = [&]() -> ncclResult_t {
    const auto communicator = find_handle(handle);
    if (!communicator) return refuse(ncclInvalidArgument, "no communicator");
    if (const ncclResult_t state = communicator->state())
      return refuse(usable(state), "the communicator is not usable");
    if (form_of(operation.kind).reduces && operation.reduction >= ncclNumOps) {
      operation.factor = communicator->factor_of(operation.reduction);
      if (!operation.factor || operation.factor->type != operation.type)
        return refuse(ncclInvalidArgument, "the communicator has no such operation for this type");
      operation.reduction = ncclSum;
    }
    const std::string against = objection(operation, communicator->rank, communicator->ranks);
    if (!against.empty()) return refuse(ncclInvalidArgument, against);
    if (operation.kind != Operation::Kind::receive) operation.number = next_operation();
    return add(communicator, operation, stream);
  }();
  if (in_group() && group().error == ncclSuccess) group().error = result;
  return result;
}

const unsigned char* bytes_at(const void* address) { return static_cast<const unsigned char*>(address); }
unsigned char* bytes_at(void* address) { return static_cast<unsigned char*>(address); }

}  // namespace

bool p5::fake_nccl::in_group() { return group().depth > 0; }

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group().depth == 0) return refuse(ncclInvalidUsage, "a group ends that has not started");
  if (--group().depth > 0) return ncclSuccess;
  const Group ended = std::exchange(group(), Group{});
  if (ended.error != ncclSuccess) return ended.error;
  for (const Pending& pending : ended.pending)
    if (const ncclResult_t error = launch(pending)) return error;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t communicator, cudaStream_t stream) {
  const Operation operation{
      Operation::Kind::all_reduce, bytes_at(input), bytes_at(output), count, type, reduction, 0, 0};
  return perform(operation, communicator, stream);
}

ncclResult_t ncclAllGather(const void* input, void* output, std::size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  const Operation operation{Operation::Kind::all_gather, bytes_at(input), bytes_at(output), count, type, ncclSum, 0, 0};
  return perform(operation, communicator, stream);
}

ncclResult_t ncclReduceScatter(const void* input, void* output, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t communicator, cudaStream_t stream) {
  const Operation operation{
      Operation::Kind::reduce_scatter, bytes_at(input), bytes_at(output), count, type, reduction, 0, 0};
  return perform(operation, communicator, stream);
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* made, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t handle) {
  const auto communicator = find_handle(handle);
  if (!communicator || made == nullptr || scalar == nullptr || p5::fake_nccl::size_of(type) == 0)
    return refuse(ncclInvalidArgument, "no communicator, no place, no factor or no such type");
  if (residence != ncclScalarHostImmediate) return refuse(ncclInvalidArgument, "the fake reads factors of the host");
  *made = communicator->add_factor(scalar_from(scalar, type));
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t operation, ncclComm_t handle) {
  const auto communicator = find_handle(handle);
  if (!communicator || !communicator->remove_factor(operation))
    return refuse(ncclInvalidArgument, "no communicator, or it has no such operation");
  return ncclSuccess;
}

ncclResult_t ncclBroadcast(const void* input, void* output, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  const Operation operation{
      Operation::Kind::broadcast, bytes_at(input), bytes_at(output), count, type, ncclSum, root, 0};
  return perform(operation, communicator, stream);
}

ncclResult_t ncclReduce(const void* input, void* output, std::size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                        int root, ncclComm_t communicator, cudaStream_t stream) {
  const Operation operation{
      Operation::Kind::reduce, bytes_at(input), bytes_at(output), count, type, reduction, root, 0};
  return perform(operation, communicator, stream);
}

ncclResult_t ncclSend(const void* input, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  const Operation operation{Operation::Kind::send, bytes_at(input), nullptr, count, type, ncclSum, peer, 0};
  return perform(operation, communicator, stream);
}

ncclResult_t ncclRecv(void* output, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  const Operation operation{Operation::Kind::receive, nullptr, bytes_at(output), count, type, ncclSum, peer, 0};
  return perform(operation, communicator, stream);
}
