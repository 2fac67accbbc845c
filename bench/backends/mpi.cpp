// Host memory over MPI. Timed with the steady clock of each rank, from the end of a barrier.
#include <mpi.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "bench/backends/backends.hpp"
#include "bench/backends/mpi_types.hpp"
#include "bench/error.hpp"
#include "bench/host_buffers.hpp"
#include "bench/worlds/mpi_check.hpp"

namespace p5 {

namespace {

using mpi::check;

// Slots of 32 MiB in all: beyond most last-level caches' share of a core, small enough to fill and check quickly.
constexpr Bytes pool{32u << 20};
constexpr int most_slots = 32;

int slots_of(const Case& c) { return slots_for(c, pool, most_slots); }

int world_rank() {
  int rank = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  return rank;
}

// The operations of one case in one round, by pattern or collective.
class Operations {
 public:
  Operations(const Case& c, const HostBuffers& buffers, const Place& place, MPI_Comm group)
      : case_(c), buffers_(buffers), place_(place), group_(group) {}

  // `count` operations on consecutive slots from `first`, finished on this rank on return.
  void run(int first, int count) {
    if (case_.pattern == "ping_pong") return ping_pong(first, count);
    if (case_.collective->pairwise) return messages(first, count);
    for (int i = 0; i < count; ++i) collective((first + i) % buffers_.slots());
  }

 private:
  int peer() const { return place_.group[static_cast<std::size_t>(1 - place_.member.rank)]; }
  bool source() const { return place_.member.rank == 0; }

  // A window of messages, all posted before the first is waited for.
  void messages(int first, int count) {
    const mpi::Count elements(case_.shape.input_elements, case_.type);
    std::vector<MPI_Request> requests;
    const bool both = case_.pattern == "both_ways";
    for (int i = 0; i < count; ++i) {
      const int slot = (first + i) % buffers_.slots();
      if (both || !source())
        check(MPI_Irecv(buffers_.output(slot), elements.count(), elements.type(), peer(), slot, MPI_COMM_WORLD,
                        &requests.emplace_back()));
      if (both || source())
        check(MPI_Isend(buffers_.input(slot, place_), elements.count(), elements.type(), peer(), slot, MPI_COMM_WORLD,
                        &requests.emplace_back()));
    }
    check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
  }

  void ping_pong(int first, int count) {
    const mpi::Count elements(case_.shape.input_elements, case_.type);
    for (int i = 0; i < count; ++i) {
      const int slot = (first + i) % buffers_.slots();
      const auto send = [&] {
        check(MPI_Send(buffers_.input(slot, place_), elements.count(), elements.type(), peer(), slot, MPI_COMM_WORLD));
      };
      const auto receive = [&] {
        check(MPI_Recv(buffers_.output(slot), elements.count(), elements.type(), peer(), slot, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE));
      };
      source() ? (send(), receive()) : (receive(), send());
    }
  }

  void collective(int slot) {
    if (case_.collective == &all_reduce) {
      mpi::all_reduce(case_.in_place ? nullptr : buffers_.input(slot, place_), buffers_.output(slot),
                      case_.shape.input_elements, case_.type, *case_.op, group_);
    } else if (case_.collective == &all_gather) {
      const mpi::Count elements(case_.shape.input_elements, case_.type);
      check(MPI_Allgather(case_.in_place ? MPI_IN_PLACE : buffers_.input(slot, place_), elements.count(),
                          elements.type(), buffers_.output(slot), elements.count(), elements.type(), group_));
    } else {
      throw CaseError("the mpi backend has no " + std::string(case_.collective->name));
    }
  }

  const Case& case_;
  const HostBuffers& buffers_;
  const Place& place_;
  MPI_Comm group_;
};

class MpiSession final : public Session {
 public:
  explicit MpiSession(const Case& c) : case_(c), rank_(world_rank()), buffers_(c, slots_of(c)) {}
  ~MpiSession() override { leave(); }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int slots() const override { return buffers_.slots(); }

  void warm_up(int round, int operations, const std::string& setting) override {
    refuse_setting("mpi", setting);
    enter(round);
    if (place_) operations_->run(0, operations);
  }

  Times sample(const SampleRequest& request) override {
    refuse_setting("mpi", request.setting);
    enter(request.round);
    // A round trip is two messages: the time of one is half.
    const double messages = request.operations * (case_.pattern == "ping_pong" ? 2.0 : 1.0);
    std::vector<double> times;
    for (int s = 0; s < request.samples; ++s) {
      if (request.poison_last && s + 1 == request.samples && place_ && !case_.in_place) buffers_.poison_outputs();
      check(MPI_Barrier(MPI_COMM_WORLD));
      const auto start = std::chrono::steady_clock::now();
      if (place_) operations_->run(next_slot_, request.operations);
      const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      times.push_back(place_ ? elapsed / messages : std::numeric_limits<double>::quiet_NaN());
      last_slot_ = next_slot_;
      last_count_ = request.operations;
      next_slot_ = (next_slot_ + request.operations) % buffers_.slots();
    }
    return {times};
  }

  Verification verify(int round) override {
    enter(round);
    if (!place_) return {};
    if (!case_.in_place) return buffers_.check(*place_, last_slot_, last_count_);
    buffers_.fill(*place_, round);
    operations_->run(0, 1);
    return buffers_.check(*place_, 0, 1);
  }

 private:
  // Makes the round's communicator and data, on all ranks together.
  void enter(int round) {
    if (round == round_) return;
    leave();
    round_ = round;
    place_ = place_in((*case_.rounds)[static_cast<std::size_t>(round)], rank_, case_.root.value_or(0));
    if (!case_.collective->pairwise) {
      const int color = place_ ? place_->group.front() : MPI_UNDEFINED;
      check(MPI_Comm_split(MPI_COMM_WORLD, color, place_ ? place_->member.rank : 0, &group_));
    }
    if (!place_) return;
    buffers_.fill(*place_, round);
    operations_.emplace(case_, buffers_, *place_, group_);
  }

  void leave() {
    operations_.reset();
    if (group_ != MPI_COMM_NULL) MPI_Comm_free(&group_);
    round_ = -1;
  }

  Case case_;
  int rank_ = 0;
  HostBuffers buffers_;
  int round_ = -1;
  std::optional<Place> place_;
  MPI_Comm group_ = MPI_COMM_NULL;
  std::optional<Operations> operations_;
  int next_slot_ = 0, last_slot_ = 0, last_count_ = 0;
};

class MpiBackend final : public Backend {
 public:
  std::unique_ptr<Session> open(const Case& c) override { return std::make_unique<MpiSession>(c); }
  Bytes memory_per_rank(const Case& c) const override { return host_memory(c, slots_of(c)); }
  CostModel cost() const override { return {.latency = {5e-6}, .bandwidth = {1.0}}; }
  // A rank that leaves a blocking MPI call to the others cannot be made up for.
  bool recovers() const override { return false; }
};

}  // namespace

std::unique_ptr<Backend> make_mpi_backend() { return std::make_unique<MpiBackend>(); }

}  // namespace p5
