#include "bench/backends/mpi_operations.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "bench/backends/mpi_types.hpp"
#include "bench/base/error.hpp"
#include "bench/control/mpi_check.hpp"

namespace p5::mpi {

namespace {

std::byte* input(const OperationContext& g, int slot) { return g.buffers.input(slot, g.place); }
std::byte* output(const OperationContext& g, int slot) { return g.buffers.output(slot, g.place); }
int slot_of(const OperationContext& g, int number) { return number % g.buffers.slots(); }

// ---- pairs

int peer(const OperationContext& g) { return g.place.group[static_cast<std::size_t>(1 - g.place.member.rank)]; }
bool source(const OperationContext& g) { return g.place.member.rank == 0; }

// A window of messages, all posted before the first is waited for.
void messages(const OperationContext& g, int first, int count) {
  const Count elements(g.of.shape.input_elements, g.of.type);
  std::vector<MPI_Request> requests;
  const bool both = g.of.pattern == "both_ways";
  for (int i = 0; i < count; ++i) {
    const int slot = slot_of(g, first + i);
    if (both || !source(g))
      check(MPI_Irecv(output(g, slot), elements.count(), elements.type(), peer(g), slot, MPI_COMM_WORLD,
                      &requests.emplace_back()));
    if (both || source(g))
      check(MPI_Isend(input(g, slot), elements.count(), elements.type(), peer(g), slot, MPI_COMM_WORLD,
                      &requests.emplace_back()));
  }
  check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
}

void ping_pong(const OperationContext& g, int first, int count) {
  const Count elements(g.of.shape.input_elements, g.of.type);
  for (int i = 0; i < count; ++i) {
    const int slot = slot_of(g, first + i);
    const auto send = [&] {
      check(MPI_Send(input(g, slot), elements.count(), elements.type(), peer(g), slot, MPI_COMM_WORLD));
    };
    const auto receive = [&] {
      check(MPI_Recv(output(g, slot), elements.count(), elements.type(), peer(g), slot, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE));
    };
    source(g) ? (send(), receive()) : (receive(), send());
  }
}

// ---- groups: one operation

void reduce_to_all(const OperationContext& g, int slot) {
  all_reduce(g.of.in_place ? nullptr : input(g, slot), output(g, slot), g.of.shape.input_elements, g.of.type, *g.of.op,
             g.group);
}

void gather_to_all(const OperationContext& g, int slot) {
  const Count elements(g.of.shape.input_elements, g.of.type);
  check(MPI_Allgather(g.of.in_place ? MPI_IN_PLACE : input(g, slot), elements.count(), elements.type(), output(g, slot),
                      elements.count(), elements.type(), g.group));
}

void reduce_to_shares(const OperationContext& g, int slot) {
  reduce_scatter(input(g, slot), output(g, slot), g.of.shape.output_elements, g.of.type, *g.of.op, g.group);
}

void reduce_to_root(const OperationContext& g, int slot) {
  reduce(input(g, slot), output(g, slot), g.of.shape.input_elements, g.of.type, *g.of.op, g.place.member.root, g.group);
}

// MPI broadcasts in place only. Out of place the root copies for itself, as NCCL does, once the message is on its way.
void broadcast_from_root(const OperationContext& g, int slot) {
  const Count elements(g.of.shape.input_elements, g.of.type);
  const bool gives = g.place.member.rank == g.place.member.root;
  check(MPI_Bcast(gives ? input(g, slot) : output(g, slot), elements.count(), elements.type(), g.place.member.root,
                  g.group));
  if (gives && !g.of.in_place)
    std::memcpy(output(g, slot), input(g, slot), g.of.shape.input_elements * size_of(g.of.type));
}

void exchange_blocks(const OperationContext& g, int slot) {
  const Count block(g.of.collective->block(g.of.shape, g.place.member, g.place.member).elements, g.of.type);
  check(
      MPI_Alltoall(input(g, slot), block.count(), block.type(), output(g, slot), block.count(), block.type(), g.group));
}

// MPI_Alltoallv takes places in buffers as int.
void exchange_uneven_blocks(const OperationContext& g, int slot) {
  const Member self = g.place.member;
  const std::size_t size = size_of(g.of.type);
  std::vector<MPI_Request> requests;
  for (Member other{.rank = 0, .ranks = self.ranks}; other.rank < self.ranks; ++other.rank) {
    const Block received = g.of.collective->block(g.of.shape, other, self);
    if (received.elements == 0) continue;
    const Count elements(received.elements, g.of.type);
    check(MPI_Irecv(output(g, slot) + received.output_offset * size, elements.count(), elements.type(), other.rank,
                    slot, g.group, &requests.emplace_back()));
  }
  for (Member other{.rank = 0, .ranks = self.ranks}; other.rank < self.ranks; ++other.rank) {
    const Block sent = g.of.collective->block(g.of.shape, self, other);
    if (sent.elements == 0) continue;
    const Count elements(sent.elements, g.of.type);
    check(MPI_Isend(input(g, slot) + sent.input_offset * size, elements.count(), elements.type(), other.rank, slot,
                    g.group, &requests.emplace_back()));
  }
  check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
}

void gather_to_root(const OperationContext& g, int slot) {
  const Count share(g.of.shape.input_elements, g.of.type);
  const Member self = g.place.member;
  const bool lies_there = g.of.in_place && self.rank == self.root;
  check(MPI_Gather(lies_there ? MPI_IN_PLACE : input(g, slot), share.count(), share.type(), output(g, slot),
                   share.count(), share.type(), self.root, g.group));
}

void scatter_from_root(const OperationContext& g, int slot) {
  const Count share(g.of.shape.output_elements, g.of.type);
  const Member self = g.place.member;
  const bool stays_there = g.of.in_place && self.rank == self.root;
  check(MPI_Scatter(input(g, slot), share.count(), share.type(), stays_there ? MPI_IN_PLACE : output(g, slot),
                    share.count(), share.type(), self.root, g.group));
}

// Each step exchanges all blocks that two ranks have: those of the ranks that differ from them in lower bits alone.
void double_in_steps(const OperationContext& g, int slot) {
  const int self = g.place.member.rank;
  const std::uint64_t share = g.of.shape.input_elements;
  const std::size_t bytes = share * size_of(g.of.type);
  const auto blocks = [&](int first) { return output(g, slot) + static_cast<std::size_t>(first) * bytes; };
  if (blocks(self) != input(g, slot)) std::memcpy(blocks(self), input(g, slot), bytes);
  for (int held = 1; held < g.place.member.ranks; held *= 2) {
    const int partner = self ^ held, mine = self & ~(held - 1), theirs = mine ^ held;
    const Count elements(static_cast<std::uint64_t>(held) * share, g.of.type);
    check(MPI_Sendrecv(blocks(mine), elements.count(), elements.type(), partner, slot, blocks(theirs), elements.count(),
                       elements.type(), partner, slot, g.group, MPI_STATUS_IGNORE));
  }
}

void pass_along_ring(const OperationContext& g, int slot) {
  const Count elements(g.of.shape.input_elements, g.of.type);
  check(MPI_Sendrecv(input(g, slot), elements.count(), elements.type(), next_in_ring(g.place.member), slot,
                     output(g, slot), elements.count(), elements.type(), previous_in_ring(g.place.member), slot,
                     g.group, MPI_STATUS_IGNORE));
}

template <void (*one)(const OperationContext&, int slot)>
void one_by_one(const OperationContext& g, int first, int count) {
  for (int i = 0; i < count; ++i) one(g, slot_of(g, first + i));
}

struct OperationEntry {
  const Collective* collective;
  std::string_view pattern;
  Perform perform;
};
constexpr std::array table{
    OperationEntry{&p2p, "one_way", messages},
    OperationEntry{&p2p, "both_ways", messages},
    OperationEntry{&p2p, "ping_pong", ping_pong},
    OperationEntry{&p5::all_reduce, "", one_by_one<reduce_to_all>},
    OperationEntry{&all_gather, "", one_by_one<gather_to_all>},
    OperationEntry{&p5::reduce_scatter, "", one_by_one<reduce_to_shares>},
    OperationEntry{&broadcast, "", one_by_one<broadcast_from_root>},
    OperationEntry{&p5::reduce, "", one_by_one<reduce_to_root>},
    OperationEntry{&all_to_all, "", one_by_one<exchange_blocks>},
    OperationEntry{&all_to_allv, "", one_by_one<exchange_uneven_blocks>},
    OperationEntry{&gather, "", one_by_one<gather_to_root>},
    OperationEntry{&scatter, "", one_by_one<scatter_from_root>},
    OperationEntry{&send_recv, "", one_by_one<pass_along_ring>},
    OperationEntry{&hypercube, "", one_by_one<double_in_steps>},
};

}  // namespace

Perform perform_for(const Case& c) {
  const auto* const row = std::ranges::find_if(
      table, [&](const OperationEntry& each) { return each.collective == c.collective && each.pattern == c.pattern; });
  if (row == table.end())
    throw CaseError("the mpi backend has no " + std::string(c.collective->name) +
                    (c.pattern.empty() ? "" : " " + c.pattern));
  return row->perform;
}

}  // namespace p5::mpi
