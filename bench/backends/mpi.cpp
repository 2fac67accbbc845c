// The mpi backend: moves host memory over MPI. Times are each rank's steady clock, from the end of a barrier.
#include <unistd.h>

#include <fmt/format.h>
#include <mpi.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "bench/backends/backends.hpp"
#include "bench/backends/host_buffers.hpp"
#include "bench/backends/mpi_types.hpp"
#include "bench/base/error.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/case.hpp"
#include "bench/model/communicator_steps.hpp"
#include "bench/model/groups.hpp"
#include "bench/model/tokens.hpp"

namespace p5 {

// ---- MPI calls of each collective and pattern

namespace mpi {

namespace {

// Arguments of an operation. Pairs use the job's communicator, collectives their group's.
struct OperationContext {
  const Case& of;
  const HostBuffers& buffers;
  const RankInGroup& place;
  const LocalRows& rows;
  MPI_Comm group = MPI_COMM_NULL;
};

// Performs `count` operations on consecutive slots from `first`, wrapping round; they are complete on this rank on
// return.
using Perform = void (*)(const OperationContext& ground, int first, int count);

std::byte* input(const OperationContext& g, int slot) { return g.buffers.input(slot, g.place); }
std::byte* output(const OperationContext& g, int slot) { return g.buffers.output(slot, g.place); }
int slot_of(const OperationContext& g, int number) { return number % g.buffers.slots(); }

// ---- pairs

int peer(const OperationContext& g) { return g.place.group[static_cast<std::size_t>(1 - g.place.member.rank)]; }
bool source(const OperationContext& g) { return g.place.member.rank == 0; }

// Posts a window of messages and waits for all.
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

// MPI_Bcast works in place. Out of place the root also copies to its output, as NCCL does, after the broadcast.
void broadcast_from_root(const OperationContext& g, int slot) {
  const Count elements(g.of.shape.input_elements, g.of.type);
  const bool is_root = g.place.member.rank == g.place.member.root;
  check(MPI_Bcast(is_root ? input(g, slot) : output(g, slot), elements.count(), elements.type(), g.place.member.root,
                  g.group));
  if (is_root && !g.of.in_place)
    std::memcpy(output(g, slot), input(g, slot), g.of.shape.input_elements * size_of(g.of.type));
}

void exchange_blocks(const OperationContext& g, int slot) {
  const Count block(g.of.collective->block(g.of.shape, g.place.member, g.place.member).elements, g.of.type);
  check(
      MPI_Alltoall(input(g, slot), block.count(), block.type(), output(g, slot), block.count(), block.type(), g.group));
}

// Uses sends and receives, because MPI_Alltoallv's offsets are int.
void exchange_uneven_blocks(const OperationContext& g, int slot) {
  const Member self = g.place.member;
  const std::byte* const sent_from = g.of.collective->packs ? output(g, slot) : input(g, slot);
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
    check(MPI_Isend(sent_from + sent.input_offset * size, elements.count(), elements.type(), other.rank, slot, g.group,
                    &requests.emplace_back()));
  }
  check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
}

void exchange_tokens(const OperationContext& g, int slot) {
  add_rows(g.of.type, g.rows.packs, input(g, slot), output(g, slot));
  exchange_uneven_blocks(g, slot);
  add_rows(g.of.type, g.rows.sums, output(g, slot), output(g, slot));
}

void gather_to_root(const OperationContext& g, int slot) {
  const Count share(g.of.shape.input_elements, g.of.type);
  const Member self = g.place.member;
  const bool in_place_root = g.of.in_place && self.rank == self.root;
  check(MPI_Gather(in_place_root ? MPI_IN_PLACE : input(g, slot), share.count(), share.type(), output(g, slot),
                   share.count(), share.type(), self.root, g.group));
}

void scatter_from_root(const OperationContext& g, int slot) {
  const Count share(g.of.shape.output_elements, g.of.type);
  const Member self = g.place.member;
  const bool in_place_root = g.of.in_place && self.rank == self.root;
  check(MPI_Scatter(input(g, slot), share.count(), share.type(), in_place_root ? MPI_IN_PLACE : output(g, slot),
                    share.count(), share.type(), self.root, g.group));
}

// Each step exchanges the blocks gathered so far between ranks that differ in one bit.
void exchange_doubling(const OperationContext& g, int slot) {
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
void repeat(const OperationContext& g, int first, int count) {
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
    OperationEntry{&p5::all_reduce, "", repeat<reduce_to_all>},
    OperationEntry{&all_gather, "", repeat<gather_to_all>},
    OperationEntry{&p5::reduce_scatter, "", repeat<reduce_to_shares>},
    OperationEntry{&broadcast, "", repeat<broadcast_from_root>},
    OperationEntry{&p5::reduce, "", repeat<reduce_to_root>},
    OperationEntry{&all_to_all, "", repeat<exchange_blocks>},
    OperationEntry{&all_to_allv, "", repeat<exchange_uneven_blocks>},
    OperationEntry{&dispatch, "", repeat<exchange_tokens>},
    OperationEntry{&combine, "", repeat<exchange_tokens>},
    OperationEntry{&gather, "", repeat<gather_to_root>},
    OperationEntry{&scatter, "", repeat<scatter_from_root>},
    OperationEntry{&send_recv, "", repeat<pass_along_ring>},
    OperationEntry{&hypercube, "", repeat<exchange_doubling>},
};

// Throws CaseError if the case has none.
Perform perform_for(const Case& c) {
  const auto* const row = std::ranges::find_if(
      table, [&](const OperationEntry& each) { return each.collective == c.collective && each.pattern == c.pattern; });
  if (row == table.end())
    throw CaseError("the mpi backend has no " + std::string(c.collective->name) +
                    (c.pattern.empty() ? "" : " " + c.pattern));
  return row->perform;
}

}  // namespace

}  // namespace mpi

// ---- the backend

namespace {

using mpi::check;

// Total size of the slots: larger than most cores' share of the last-level cache, small enough to fill and check
// quickly.
constexpr Bytes pool{32u << 20};
constexpr int most_slots = 32;

int slots_of(const Case& c) { return slots_for(c, pool, most_slots); }

int world_rank() {
  int rank = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  return rank;
}

int world_size() {
  int size = 1;
  check(MPI_Comm_size(MPI_COMM_WORLD, &size));
  return size;
}

class MpiSession final : public Session {
 public:
  MpiSession(const Case& c, int round, int rank, MPI_Comm group)
      : case_(c),
        round_(round),
        place_(rank_in_group((*c.rounds)[static_cast<std::size_t>(round)], rank, root_in(c, round))),
        perform_(mpi::perform_for(c)),
        group_(group),
        buffers_(c, slots_of(c)) {
    if (!place_) return;
    rows_ = local_rows(*c.collective, c.shape, place_->member);
    buffers_.fill(*place_, round_);
  }

  int slots() const override { return buffers_.slots(); }

  void warm_up(int operations, const std::string& setting) override {
    refuse_setting("mpi", setting);
    if (place_) operate(0, operations);
  }

  Times sample(const SampleRequest& request) override {
    refuse_setting("mpi", request.setting);
    // A round trip is two messages; the time is that of one.
    const double messages = request.operations * (case_.pattern == "ping_pong" ? 2.0 : 1.0);
    std::vector<double> times;
    for (int s = 0; s < request.samples; ++s) {
      if (request.poison_last && s + 1 == request.samples && place_ && !case_.in_place) buffers_.poison_outputs();
      check(MPI_Barrier(MPI_COMM_WORLD));
      const auto start = Clock::now();
      if (place_) operate(next_slot_, request.operations);
      const double elapsed = since(start).count;
      times.push_back(place_ ? elapsed / messages : std::numeric_limits<double>::quiet_NaN());
      last_slot_ = next_slot_;
      last_count_ = request.operations;
      next_slot_ = (next_slot_ + request.operations) % buffers_.slots();
    }
    return {times};
  }

  Verification verify() override {
    if (!place_) return {};
    if (!case_.in_place) return buffers_.check(*place_, last_slot_, last_count_);
    buffers_.fill(*place_, round_);
    operate(0, 1);
    return buffers_.check(*place_, 0, 1);
  }

 private:
  void operate(int first, int count) { perform_({case_, buffers_, *place_, rows_, group_}, first, count); }

  Case case_;
  int round_ = 0;
  std::optional<RankInGroup> place_;
  mpi::Perform perform_;
  MPI_Comm group_ = MPI_COMM_NULL;
  HostBuffers buffers_;
  LocalRows rows_;
  int next_slot_ = 0, last_slot_ = 0, last_count_ = 0;
};

// Steps of a communicator: those that MPI has, each on one of its own.
class MpiCommunicatorSession final : public Session {
 public:
  MpiCommunicatorSession(const Case& c, int round, int rank, MPI_Comm parent)
      : step_(*step_of(c)),
        place_(rank_in_group((*c.rounds)[static_cast<std::size_t>(round)], rank, 0)),
        parent_(parent),
        input_(std::max<std::uint64_t>(c.bytes.count / sizeof(float), 1)),
        output_(input_.size()) {}

  std::string unavailable() const override {
    constexpr std::array known{"split", "split_first", "destroy"};
    if (std::ranges::find(known, step_.name) != known.end()) return "";
    return fmt::format("the mpi backend has no step {}", step_.name);
  }
  int slots() const override { return 1; }
  void warm_up(int, const std::string&) override {}
  Times sample(const SampleRequest& request) override {
    std::vector<double> times;
    for (int s = 0; s < request.samples; ++s) {
      if (!place_) check(MPI_Barrier(MPI_COMM_WORLD));
      times.push_back(place_ ? timed() : std::numeric_limits<double>::quiet_NaN());
    }
    return {times};
  }
  Verification verify() override { return {}; }
  CommunicatorCosts communicator_costs() override { return costs_; }

 private:
  double timed() {
    const auto split = [&] { check(MPI_Comm_split(parent_, 0, place_->member.rank, &own_)); };
    const auto operate = [&] {
      check(MPI_Allreduce(input_.data(), output_.data(), static_cast<int>(input_.size()), MPI_FLOAT, MPI_SUM, own_));
    };
    const auto destroy = [&] { check(MPI_Comm_free(&own_)); };
    const bool splits = step_.name == "split", destroys = step_.name == "destroy";
    if (!splits) split();
    if (destroys) operate();
    const CommunicatorCosts before = footprint();
    check(MPI_Barrier(MPI_COMM_WORLD));
    const auto start = Clock::now();
    splits ? split() : destroys ? destroy() : operate();
    const double elapsed = since(start).count;
    costs_ = grown(before, footprint());
    if (!destroys) destroy();
    return elapsed;
  }

  const CommunicatorStep& step_;
  std::optional<RankInGroup> place_;
  MPI_Comm parent_, own_ = MPI_COMM_NULL;
  std::vector<float> input_, output_;
  CommunicatorCosts costs_;
};

class MpiBackend final : public Backend {
 public:
  MpiBackend() = default;
  ~MpiBackend() override { leave_groups(); }
  MpiBackend(const MpiBackend&) = delete;
  MpiBackend& operator=(const MpiBackend&) = delete;

  // Pairs use the job's communicator, because a communicator of their own would change nothing in MPI.
  std::unique_ptr<Session> open(const Case& c, int round) override {
    if (!c.collective->pairwise) form((*c.rounds)[static_cast<std::size_t>(round)]);
    MPI_Comm const group = group_ == MPI_COMM_NULL ? MPI_COMM_WORLD : group_;
    if (!c.collective->moves_data) return std::make_unique<MpiCommunicatorSession>(c, round, rank_, group);
    return std::make_unique<MpiSession>(c, round, rank_, group);
  }
  Bytes memory_per_rank(const Case& c) const override { return host_memory(c, slots_of(c)); }
  CostModel cost() const override {
    return {.latency = {5e-6}, .bandwidth = {1.0}, .burst = {1e-3}, .repetition = {1e-3}, .communicator = {0}};
  }
  // A blocking MPI call that a rank has left cannot be completed by the others.
  bool recovers() const override { return false; }
  std::optional<double> share_of_waiting() const override { return p5::share_of_waiting(::getpid()); }

 private:
  void form(const Round& round) {
    Round groups = communicators_of(round, world_size());
    if (groups == formed_) return;
    leave_groups();
    formed_ = std::move(groups);
    if (formed_.empty()) return;
    const auto mine =
        std::ranges::find_if(formed_, [&](const Group& group) { return std::ranges::binary_search(group, rank_); });
    const int color = mine == formed_.end() ? MPI_UNDEFINED : mine->front();
    check(MPI_Comm_split(MPI_COMM_WORLD, color, rank_, &group_));
  }

  void leave_groups() {
    if (group_ != MPI_COMM_NULL) MPI_Comm_free(&group_);
    formed_.clear();
  }

  int rank_ = world_rank();
  Round formed_;  // same on all ranks; empty: only the job's communicator
  MPI_Comm group_ = MPI_COMM_NULL;
};

}  // namespace

std::unique_ptr<Backend> make_mpi_backend() { return std::make_unique<MpiBackend>(); }

}  // namespace p5
