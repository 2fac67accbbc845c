#include "bench/backends/mpi_operations.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "bench/backends/mpi_types.hpp"
#include "bench/error.hpp"
#include "bench/worlds/mpi_check.hpp"

namespace p5::mpi {

namespace {

std::byte* input(const Ground& g, int slot) { return g.buffers.input(slot, g.place); }
std::byte* output(const Ground& g, int slot) { return g.buffers.output(slot, g.place); }
int slot_of(const Ground& g, int number) { return number % g.buffers.slots(); }

// ---- pairs

int peer(const Ground& g) { return g.place.group[static_cast<std::size_t>(1 - g.place.member.rank)]; }
bool source(const Ground& g) { return g.place.member.rank == 0; }

// A window of messages, all posted before the first is waited for.
void messages(const Ground& g, int first, int count) {
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

void ping_pong(const Ground& g, int first, int count) {
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

void reduce_to_all(const Ground& g, int slot) {
  all_reduce(g.of.in_place ? nullptr : input(g, slot), output(g, slot), g.of.shape.input_elements, g.of.type, *g.of.op,
             g.group);
}

void gather_to_all(const Ground& g, int slot) {
  const Count elements(g.of.shape.input_elements, g.of.type);
  check(MPI_Allgather(g.of.in_place ? MPI_IN_PLACE : input(g, slot), elements.count(), elements.type(), output(g, slot),
                      elements.count(), elements.type(), g.group));
}

void reduce_to_shares(const Ground& g, int slot) {
  reduce_scatter(input(g, slot), output(g, slot), g.of.shape.output_elements, g.of.type, *g.of.op, g.group);
}

void reduce_to_root(const Ground& g, int slot) {
  reduce(input(g, slot), output(g, slot), g.of.shape.input_elements, g.of.type, *g.of.op, g.place.member.root, g.group);
}

// MPI broadcasts in place only. Out of place the root copies for itself, as NCCL does, once the message is on its way.
void broadcast_from_root(const Ground& g, int slot) {
  const Count elements(g.of.shape.input_elements, g.of.type);
  const bool gives = g.place.member.rank == g.place.member.root;
  check(MPI_Bcast(gives ? input(g, slot) : output(g, slot), elements.count(), elements.type(), g.place.member.root,
                  g.group));
  if (gives && !g.of.in_place)
    std::memcpy(output(g, slot), input(g, slot), g.of.shape.input_elements * size_of(g.of.type));
}

void exchange_blocks(const Ground& g, int slot) {
  const Count block(block_elements(g.of.shape, g.place.member), g.of.type);
  check(
      MPI_Alltoall(input(g, slot), block.count(), block.type(), output(g, slot), block.count(), block.type(), g.group));
}

void pass_along_ring(const Ground& g, int slot) {
  const Count elements(g.of.shape.input_elements, g.of.type);
  check(MPI_Sendrecv(input(g, slot), elements.count(), elements.type(), next_in_ring(g.place.member), slot,
                     output(g, slot), elements.count(), elements.type(), previous_in_ring(g.place.member), slot,
                     g.group, MPI_STATUS_IGNORE));
}

template <void (*one)(const Ground&, int slot)>
void one_by_one(const Ground& g, int first, int count) {
  for (int i = 0; i < count; ++i) one(g, slot_of(g, first + i));
}

struct Row {
  const Collective* collective;
  std::string_view pattern;
  Perform perform;
};
constexpr std::array table{
    Row{&p2p, "one_way", messages},
    Row{&p2p, "both_ways", messages},
    Row{&p2p, "ping_pong", ping_pong},
    Row{&p5::all_reduce, "", one_by_one<reduce_to_all>},
    Row{&all_gather, "", one_by_one<gather_to_all>},
    Row{&p5::reduce_scatter, "", one_by_one<reduce_to_shares>},
    Row{&broadcast, "", one_by_one<broadcast_from_root>},
    Row{&p5::reduce, "", one_by_one<reduce_to_root>},
    Row{&all_to_all, "", one_by_one<exchange_blocks>},
    Row{&send_recv, "", one_by_one<pass_along_ring>},
};

}  // namespace

Perform perform_for(const Case& c) {
  const auto* const row = std::ranges::find_if(
      table, [&](const Row& each) { return each.collective == c.collective && each.pattern == c.pattern; });
  if (row == table.end())
    throw CaseError("the mpi backend has no " + std::string(c.collective->name) +
                    (c.pattern.empty() ? "" : " " + c.pattern));
  return row->perform;
}

}  // namespace p5::mpi
