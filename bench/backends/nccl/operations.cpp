#include "bench/backends/nccl/operations.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "bench/backends/nccl/handles.hpp"
#include "bench/error.hpp"

namespace p5::nccl {

namespace {

std::size_t elements(const Operation& o) { return o.of.shape.input_elements; }
bool source(const Operation& o) { return o.place.member.rank == 0; }
int peer(const Operation& o) { return o.place.group[static_cast<std::size_t>(1 - o.place.member.rank)]; }

void send(const Operation& o) {
  check(ncclSend(o.input, elements(o), nccl_type(o.of.type), peer(o), o.communicator, o.stream), "ncclSend");
}

void receive(const Operation& o) {
  check(ncclRecv(o.output, elements(o), nccl_type(o.of.type), peer(o), o.communicator, o.stream), "ncclRecv");
}

void one_way(const Operation& o) { source(o) ? send(o) : receive(o); }

void both_ways(const Operation& o) {
  check(ncclGroupStart(), "ncclGroupStart");
  send(o);
  receive(o);
  check(ncclGroupEnd(), "ncclGroupEnd");
}

void ping_pong(const Operation& o) { source(o) ? (send(o), receive(o)) : (receive(o), send(o)); }

void reduce_to_all(const Operation& o) {
  check(ncclAllReduce(o.input, o.output, elements(o), nccl_type(o.of.type), nccl_op(o.of.op.value_or(ReduceOp::sum)),
                      o.communicator, o.stream),
        "ncclAllReduce");
}

void gather_to_all(const Operation& o) {
  check(ncclAllGather(o.input, o.output, elements(o), nccl_type(o.of.type), o.communicator, o.stream), "ncclAllGather");
}

struct Row {
  std::string_view collective, pattern;
  Enqueue enqueue;
};
constexpr std::array table{
    Row{"p2p", "one_way", one_way},       Row{"p2p", "both_ways", both_ways},   Row{"p2p", "ping_pong", ping_pong},
    Row{"all_reduce", "", reduce_to_all}, Row{"all_gather", "", gather_to_all},
};

}  // namespace

ncclDataType_t nccl_type(DataType type) {
  switch (type) {
    case DataType::int8:
      return ncclInt8;
    case DataType::uint8:
      return ncclUint8;
    case DataType::int32:
      return ncclInt32;
    case DataType::uint32:
      return ncclUint32;
    case DataType::int64:
      return ncclInt64;
    case DataType::uint64:
      return ncclUint64;
    case DataType::float16:
      return ncclFloat16;
    case DataType::bfloat16:
      return ncclBfloat16;
    case DataType::float32:
      return ncclFloat32;
    case DataType::float64:
      break;
  }
  return ncclFloat64;
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::prod:
      return ncclProd;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::avg:
      break;
  }
  return ncclAvg;
}

Enqueue enqueue_for(const Case& c) {
  const auto* const row = std::ranges::find_if(
      table, [&](const Row& each) { return each.collective == c.collective->name && each.pattern == c.pattern; });
  if (row == table.end())
    throw CaseError("the nccl backend has no " + std::string(c.collective->name) +
                    (c.pattern.empty() ? "" : " " + c.pattern));
  return row->enqueue;
}

}  // namespace p5::nccl
