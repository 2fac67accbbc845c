// Host memory over MPI. Timed with the steady clock of each rank, from the end of a barrier.
#include <mpi.h>

#include <cmath>
#include <limits>

#include "bench/backends/backends.hpp"
#include "bench/backends/mpi_operations.hpp"
#include "bench/clock.hpp"
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

class MpiSession final : public Session {
 public:
  explicit MpiSession(const Case& c)
      : case_(c), perform_(mpi::perform_for(c)), rank_(world_rank()), buffers_(c, slots_of(c)) {}
  ~MpiSession() override { leave(); }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int slots() const override { return buffers_.slots(); }

  void warm_up(int round, int operations, const std::string& setting) override {
    refuse_setting("mpi", setting);
    enter(round);
    if (place_) operate(0, operations);
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

  Verification verify(int round) override {
    enter(round);
    if (!place_) return {};
    if (!case_.in_place) return buffers_.check(*place_, last_slot_, last_count_);
    buffers_.fill(*place_, round);
    operate(0, 1);
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
    if (place_) buffers_.fill(*place_, round);
  }

  void leave() {
    if (group_ != MPI_COMM_NULL) MPI_Comm_free(&group_);
    round_ = -1;
  }

  void operate(int first, int count) { perform_({case_, buffers_, *place_, group_}, first, count); }

  Case case_;
  mpi::Perform perform_;
  int rank_ = 0;
  HostBuffers buffers_;
  int round_ = -1;
  std::optional<Place> place_;
  MPI_Comm group_ = MPI_COMM_NULL;
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
