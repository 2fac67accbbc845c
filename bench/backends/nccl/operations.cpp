#include "bench/backends/nccl/operations.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "bench/backends/nccl/handles.hpp"
#include "bench/base/error.hpp"
#include "bench/model/pattern.hpp"

namespace p5::nccl {

namespace {

std::size_t elements(const Operation& o) { return o.of.shape.input_elements; }
bool is_source(const Operation& o) { return o.place.member.rank == 0; }

void send(const Operation& o, int to) {
  check(ncclSend(o.input, elements(o), nccl_type(o.of.type), to, o.communicator, o.stream), "ncclSend");
}

void receive(const Operation& o, int from) {
  check(ncclRecv(o.output, elements(o), nccl_type(o.of.type), from, o.communicator, o.stream), "ncclRecv");
}

void one_way(const Operation& o) { is_source(o) ? send(o, o.peer) : receive(o, o.peer); }

void both_ways(const Operation& o) {
  check(ncclGroupStart(), "ncclGroupStart");
  send(o, o.peer);
  receive(o, o.peer);
  check(ncclGroupEnd(), "ncclGroupEnd");
}

void ping_pong(const Operation& o) {
  is_source(o) ? (send(o, o.peer), receive(o, o.peer)) : (receive(o, o.peer), send(o, o.peer));
}

void reduce_to_all(const Operation& o) {
  check(ncclAllReduce(o.input, o.output, elements(o), nccl_type(o.of.type), o.reduction, o.communicator, o.stream),
        "ncclAllReduce");
}

void gather_to_all(const Operation& o) {
  check(ncclAllGather(o.input, o.output, elements(o), nccl_type(o.of.type), o.communicator, o.stream), "ncclAllGather");
}

void reduce_to_shares(const Operation& o) {
  check(ncclReduceScatter(o.input, o.output, o.of.shape.output_elements, nccl_type(o.of.type), o.reduction,
                          o.communicator, o.stream),
        "ncclReduceScatter");
}

void broadcast_from_root(const Operation& o) {
  check(ncclBroadcast(o.input, o.output, elements(o), nccl_type(o.of.type), o.place.member.root, o.communicator,
                      o.stream),
        "ncclBroadcast");
}

void reduce_to_root(const Operation& o) {
  check(ncclReduce(o.input, o.output, elements(o), nccl_type(o.of.type), o.reduction, o.place.member.root,
                   o.communicator, o.stream),
        "ncclReduce");
}

// The address of an element that this rank sends: in the output, if the collective packs rows there first, else in the
// input.
const std::byte* sent_at(const Operation& o, std::uint64_t element) {
  const void* const from = o.of.collective->packs ? o.output : o.input;
  return static_cast<const std::byte*>(from) + element * size_of(o.of.type);
}

std::byte* output_at(const Operation& o, std::uint64_t element) {
  return static_cast<std::byte*>(o.output) + element * size_of(o.of.type);
}

// All sends and receives of the exchange are one group. ncclAlltoAll, ncclGather and ncclScatter exist only since
// NCCL 2.28: a worker that is linked with them would not start with an older library.
void exchange_blocks(const Operation& o) {
  const Member self = o.place.member;
  check(ncclGroupStart(), "ncclGroupStart");
  for (Member other{.rank = 0, .ranks = self.ranks, .root = self.root}; other.rank < self.ranks; ++other.rank) {
    const Block sent = o.of.collective->block(o.of.shape, self, other);
    const Block received = o.of.collective->block(o.of.shape, other, self);
    if (sent.elements > 0)
      check(ncclSend(sent_at(o, sent.input_offset), sent.elements, nccl_type(o.of.type), other.rank, o.communicator,
                     o.stream),
            "ncclSend");
    if (received.elements > 0)
      check(ncclRecv(output_at(o, received.output_offset), received.elements, nccl_type(o.of.type), other.rank,
                     o.communicator, o.stream),
            "ncclRecv");
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
}

void exchange_tokens(const Operation& o) {
  add_rows(o.stream, o.of.type, o.rows.packs(), static_cast<const std::byte*>(o.input), output_at(o, 0));
  exchange_blocks(o);
  add_rows(o.stream, o.of.type, o.rows.sums(), output_at(o, 0), output_at(o, 0));
}

// Recursive doubling: in each step, ranks whose numbers differ in one bit exchange all blocks that they hold.
void exchange_doubling(const Operation& o) {
  const int self = o.place.member.rank;
  const std::size_t share = elements(o);
  const auto block_at = [&](int first) { return output_at(o, static_cast<std::uint64_t>(first) * share); };
  if (block_at(self) != o.input)
    check(cudaMemcpyAsync(block_at(self), o.input, share * size_of(o.of.type), cudaMemcpyDeviceToDevice, o.stream),
          "cudaMemcpyAsync");
  for (int held = 1; held < o.place.member.ranks; held *= 2) {
    const int partner = self ^ held, mine = self & ~(held - 1), theirs = mine ^ held;
    const std::size_t count = static_cast<std::size_t>(held) * share;
    check(ncclGroupStart(), "ncclGroupStart");
    check(ncclSend(block_at(mine), count, nccl_type(o.of.type), partner, o.communicator, o.stream), "ncclSend");
    check(ncclRecv(block_at(theirs), count, nccl_type(o.of.type), partner, o.communicator, o.stream), "ncclRecv");
    check(ncclGroupEnd(), "ncclGroupEnd");
  }
}

void pass_along_ring(const Operation& o) {
  check(ncclGroupStart(), "ncclGroupStart");
  send(o, next_in_ring(o.place.member));
  receive(o, previous_in_ring(o.place.member));
  check(ncclGroupEnd(), "ncclGroupEnd");
}

bool is_one_shot(const Case& c) { return !c.in_place && c.bytes.count <= most_one_shot_bytes; }

void reduce_on_device(const Operation& o) {
  reduce_from_peers(o.stream, o.peers->memory(), o.peers->buffers(o.input, o.output), o.of.type,
                    o.of.op.value_or(ReduceOp::sum), elements(o), is_one_shot(o.of));
}

std::uint64_t bytes_of_block(const Case& c, const Member& self) {
  return c.collective->block(c.shape, self, self).elements * size_of(c.type);
}

void exchange_on_device(const Operation& o) {
  store_to_peers(o.stream, o.peers->memory(), o.peers->buffers(o.input, o.output),
                 bytes_of_block(o.of, o.place.member));
}

struct OperationEntry {
  const Collective* collective;
  std::string_view pattern;
  Enqueue enqueue;
};
constexpr std::array table{
    OperationEntry{&p2p, "one_way", one_way},
    OperationEntry{&p2p, "both_ways", both_ways},
    OperationEntry{&p2p, "ping_pong", ping_pong},
    OperationEntry{&all_reduce, "", reduce_to_all},
    OperationEntry{&all_gather, "", gather_to_all},
    OperationEntry{&reduce_scatter, "", reduce_to_shares},
    OperationEntry{&broadcast, "", broadcast_from_root},
    OperationEntry{&reduce, "", reduce_to_root},
    OperationEntry{&all_to_all, "", exchange_blocks},
    OperationEntry{&all_to_allv, "", exchange_blocks},
    OperationEntry{&dispatch, "", exchange_tokens},
    OperationEntry{&combine, "", exchange_tokens},
    OperationEntry{&gather, "", exchange_blocks},
    OperationEntry{&scatter, "", exchange_blocks},
    OperationEntry{&send_recv, "", pass_along_ring},
    OperationEntry{&hypercube, "", exchange_doubling},
    OperationEntry{&lsa_all_reduce, "", reduce_on_device},
    OperationEntry{&lsa_all_to_all, "", exchange_on_device},
};

}  // namespace

Selection selection_of(const Case& c) {
  return {.algorithm = !c.collective->reduces ? "stores"
                       : is_one_shot(c)       ? "one_shot"
                                              : "two_shot",
          .protocol = "lsa",
          .source = "p5bench"};
}

// The headers of NCCL before 2.24 have no names for these two types.
constexpr auto float8_e4m3_number = static_cast<ncclDataType_t>(10),
               float8_e5m2_number = static_cast<ncclDataType_t>(11);

// The source may be the higher of the two ranks, and is then second in the communicator.
int peer_in_pair(const RankInGroup& place) {
  const bool source_first = place.group[0] < place.group[1];
  return (place.member.rank == 0) == source_first ? 1 : 0;
}

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
    case DataType::float8_e4m3:
      return float8_e4m3_number;
    case DataType::float8_e5m2:
      return float8_e5m2_number;
    case DataType::float32:
      return ncclFloat32;
    case DataType::float64:
      break;
  }
  return ncclFloat64;
}

namespace {

ncclRedOp_t built_in(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mulsum:
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

}  // namespace

Reduction::Reduction(const Case& c, const Member& self, ncclComm_t communicator)
    : operation_(built_in(c.op.value_or(ReduceOp::sum))) {
  if (c.op != ReduceOp::mulsum) return;
  with_type(c.type, [&]<class T>() {
    T factor;
    if constexpr (is_small_float<T>)
      factor = T(static_cast<float>(mulsum_factor(self.rank)));
    else
      factor = static_cast<T>(mulsum_factor(self.rank));
    check(ncclRedOpCreatePreMulSum(&operation_, &factor, nccl_type(c.type), ncclScalarHostImmediate, communicator),
          "ncclRedOpCreatePreMulSum");
  });
  communicator_ = communicator;
}

Reduction::~Reduction() {
  if (communicator_) ncclRedOpDestroy(operation_, communicator_);
}

Reduction& Reduction::operator=(Reduction&& other) noexcept {
  std::swap(operation_, other.operation_);
  std::swap(communicator_, other.communicator_);
  return *this;
}

LocalRowsOnDevice::LocalRowsOnDevice(const Case& c, const Member& self, cudaStream_t stream)
    : rows_(local_rows(*c.collective, c.shape, self)),
      packs_(upload(rows_.packs, stream)),
      sums_(upload(rows_.sums, stream)) {}

DeviceRows LocalRowsOnDevice::upload(const Rows& rows, cudaStream_t stream) {
  if (rows.count() == 0) return {};
  const auto copied = [&](const std::vector<std::uint32_t>& numbers) {
    const std::size_t bytes = numbers.size() * sizeof(numbers.front());
    memory_.push_back(make_device_memory(bytes));
    void* const there = memory_.back().get();
    check(cudaMemcpyAsync(there, numbers.data(), bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    return static_cast<const std::uint32_t*>(there);
  };
  return {rows.elements, rows.first_row, rows.count(), copied(rows.first), copied(rows.sources)};
}

Enqueue enqueue_for(const Case& c) {
  const auto* const row = std::ranges::find_if(
      table, [&](const OperationEntry& each) { return each.collective == c.collective && each.pattern == c.pattern; });
  if (row == table.end())
    throw CaseError("the nccl backend has no " + std::string(c.collective->name) +
                    (c.pattern.empty() ? "" : " " + c.pattern));
  return row->enqueue;
}

}  // namespace p5::nccl
