// Host memory over MPI. Timed with the steady clock of each rank, from the end of a barrier.
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/backends/backends.hpp"
#include "bench/backends/host_buffers.hpp"
#include "bench/backends/mpi_operations.hpp"
#include "bench/base/error.hpp"
#include "bench/base/units.hpp"
#include "bench/control/mpi_check.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/groups.hpp"

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
        place_(rank_in_group((*c.rounds)[static_cast<std::size_t>(round)], rank, c.root.value_or(0))),
        perform_(mpi::perform_for(c)),
        group_(group),
        buffers_(c, slots_of(c)) {
    if (place_) buffers_.fill(*place_, round_);
  }

  int slots() const override { return buffers_.slots(); }

  void warm_up(int operations, const std::string& setting) override {
    refuse_setting("mpi", setting);
    if (place_) operate(0, operations);
  }

  Times sample(const SampleRequest& request) override {
    refuse_setting("mpi", request.setting);
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

  Verification verify() override {
    if (!place_) return {};
    if (!case_.in_place) return buffers_.check(*place_, last_slot_, last_count_);
    buffers_.fill(*place_, round_);
    operate(0, 1);
    return buffers_.check(*place_, 0, 1);
  }

 private:
  void operate(int first, int count) { perform_({case_, buffers_, *place_, group_}, first, count); }

  Case case_;
  int round_ = 0;
  std::optional<RankInGroup> place_;
  mpi::Perform perform_;
  MPI_Comm group_ = MPI_COMM_NULL;
  HostBuffers buffers_;
  int next_slot_ = 0, last_slot_ = 0, last_count_ = 0;
};

class MpiBackend final : public Backend {
 public:
  MpiBackend() = default;
  ~MpiBackend() override { leave_groups(); }
  MpiBackend(const MpiBackend&) = delete;
  MpiBackend& operator=(const MpiBackend&) = delete;

  // Pairs exchange messages over the job's communicator: MPI gives a communicator nothing of its own for them.
  std::unique_ptr<Session> open(const Case& c, int round) override {
    if (!c.collective->pairwise) form((*c.rounds)[static_cast<std::size_t>(round)]);
    return std::make_unique<MpiSession>(c, round, rank_, group_ == MPI_COMM_NULL ? MPI_COMM_WORLD : group_);
  }
  Bytes memory_per_rank(const Case& c) const override { return host_memory(c, slots_of(c)); }
  CostModel cost() const override {
    return {.latency = {5e-6}, .bandwidth = {1.0}, .burst = {1e-3}, .repetition = {1e-3}, .communicator = {0}};
  }
  // A rank that leaves a blocking MPI call to the others cannot be made up for.
  bool recovers() const override { return false; }

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
  Round formed_;  // alike on all ranks; empty: none but the job's
  MPI_Comm group_ = MPI_COMM_NULL;
};

}  // namespace

std::unique_ptr<Backend> make_mpi_backend() { return std::make_unique<MpiBackend>(); }

}  // namespace p5
