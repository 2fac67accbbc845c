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

ncclRedOp_t reduction(const Operation& o) { return nccl_op(o.of.op.value_or(ReduceOp::sum)); }

void send(const Operation& o, int to) {
  check(ncclSend(o.input, elements(o), nccl_type(o.of.type), to, o.communicator, o.stream), "ncclSend");
}

void receive(const Operation& o, int from) {
  check(ncclRecv(o.output, elements(o), nccl_type(o.of.type), from, o.communicator, o.stream), "ncclRecv");
}

void one_way(const Operation& o) { source(o) ? send(o, peer(o)) : receive(o, peer(o)); }

void both_ways(const Operation& o) {
  check(ncclGroupStart(), "ncclGroupStart");
  send(o, peer(o));
  receive(o, peer(o));
  check(ncclGroupEnd(), "ncclGroupEnd");
}

void ping_pong(const Operation& o) {
  source(o) ? (send(o, peer(o)), receive(o, peer(o))) : (receive(o, peer(o)), send(o, peer(o)));
}

void reduce_to_all(const Operation& o) {
  check(ncclAllReduce(o.input, o.output, elements(o), nccl_type(o.of.type), reduction(o), o.communicator, o.stream),
        "ncclAllReduce");
}

void gather_to_all(const Operation& o) {
  check(ncclAllGather(o.input, o.output, elements(o), nccl_type(o.of.type), o.communicator, o.stream), "ncclAllGather");
}

void reduce_to_shares(const Operation& o) {
  check(ncclReduceScatter(o.input, o.output, o.of.shape.output_elements, nccl_type(o.of.type), reduction(o),
                          o.communicator, o.stream),
        "ncclReduceScatter");
}

void broadcast_from_root(const Operation& o) {
  check(ncclBroadcast(o.input, o.output, elements(o), nccl_type(o.of.type), o.place.member.root, o.communicator,
                      o.stream),
        "ncclBroadcast");
}

void reduce_to_root(const Operation& o) {
  check(ncclReduce(o.input, o.output, elements(o), nccl_type(o.of.type), reduction(o), o.place.member.root,
                   o.communicator, o.stream),
        "ncclReduce");
}

// As sends and receives in one group: ncclAlltoAll, which NCCL has from 2.28 on, would keep a worker that is built with
// it from starting with an older library.
void exchange_blocks(const Operation& o) {
  const std::size_t block = block_elements(o.of.shape, o.place.member);
  const std::size_t bytes = block * size_of(o.of.type);
  const auto* const from = static_cast<const std::byte*>(o.input);
  auto* const to = static_cast<std::byte*>(o.output);
  check(ncclGroupStart(), "ncclGroupStart");
  for (int member = 0; member < o.place.member.ranks; ++member) {
    const std::size_t offset = static_cast<std::size_t>(member) * bytes;
    check(ncclSend(from + offset, block, nccl_type(o.of.type), member, o.communicator, o.stream), "ncclSend");
    check(ncclRecv(to + offset, block, nccl_type(o.of.type), member, o.communicator, o.stream), "ncclRecv");
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
}

void pass_along_ring(const Operation& o) {
  check(ncclGroupStart(), "ncclGroupStart");
  send(o, next_in_ring(o.place.member));
  receive(o, previous_in_ring(o.place.member));
  check(ncclGroupEnd(), "ncclGroupEnd");
}

struct Row {
  const Collective* collective;
  std::string_view pattern;
  Enqueue enqueue;
};
constexpr std::array table{
    Row{&p2p, "one_way", one_way},
    Row{&p2p, "both_ways", both_ways},
    Row{&p2p, "ping_pong", ping_pong},
    Row{&all_reduce, "", reduce_to_all},
    Row{&all_gather, "", gather_to_all},
    Row{&reduce_scatter, "", reduce_to_shares},
    Row{&broadcast, "", broadcast_from_root},
    Row{&reduce, "", reduce_to_root},
    Row{&all_to_all, "", exchange_blocks},
    Row{&send_recv, "", pass_along_ring},
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
      table, [&](const Row& each) { return each.collective == c.collective && each.pattern == c.pattern; });
  if (row == table.end())
    throw CaseError("the nccl backend has no " + std::string(c.collective->name) +
                    (c.pattern.empty() ? "" : " " + c.pattern));
  return row->enqueue;
}

}  // namespace p5::nccl
