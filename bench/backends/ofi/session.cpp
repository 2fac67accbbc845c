#include "bench/backends/ofi/session.hpp"

#include <fmt/format.h>

#include <limits>

#include "bench/base/clock.hpp"
#include "bench/base/error.hpp"
#include "bench/model/backends.hpp"

namespace p5::ofi {

namespace {

// As on the mpi backend, so that figures of both are of the same buffers.
constexpr Bytes pool{32u << 20};
constexpr int most_slots = 32;

}  // namespace

OfiSession::OfiSession(Case c, int round, std::optional<Place> place, Nics& nics, int rank, int ranks)
    : case_(std::move(c)),
      place_(std::move(place)),
      nics_(nics),
      rank_(rank),
      ranks_(ranks),
      buffers_(case_, slots_for(case_, pool, most_slots)) {
  if (case_.collective->route != Route::neighbours)
    throw CaseError(fmt::format("libfabric has messages only, no {}", case_.collective->name));
  const std::size_t bytes = case_.shape.input_elements * size_of(case_.type);
  if (bytes > nics.largest_message())
    throw CaseError(fmt::format("a message of {} bytes; {} takes {} at most", bytes,
                                name_of_library(nics.first().info()), nics.largest_message()));
  if (!place_) return;
  enlist();
  buffers_.fill(*place_, round);
}

std::uint64_t OfiSession::tag(bool barrier, std::uint32_t burst, int number, int source) {
  constexpr int number_bits = 8, source_bits = 24;
  return (static_cast<std::uint64_t>(barrier) << 63) |
         (static_cast<std::uint64_t>(burst) << (number_bits + source_bits) & ~(1ull << 63)) |
         (static_cast<std::uint64_t>(number) << source_bits) | static_cast<std::uint64_t>(source);
}

void OfiSession::warm_up(int operations, const std::string& setting) {
  refuse_setting("ofi", setting);
  ++bursts_;
  if (place_) operate(0, std::min(operations, slots()));
  barrier();
}

Times OfiSession::sample(const SampleRequest& request) {
  refuse_setting("ofi", request.setting);
  if (request.operations < 1 || request.operations > slots())
    throw CaseError(fmt::format("a sample of {} operations, at most {}", request.operations, slots()));
  // A round trip is two messages: the time of one is half.
  const double messages = request.operations * (case_.pattern == "ping_pong" ? 2.0 : 1.0);
  std::vector<double> times;
  for (int s = 0; s < request.samples; ++s) {
    if (request.poison_last && s + 1 == request.samples && place_) buffers_.poison_outputs();
    ++bursts_;
    barrier();
    const auto start = Clock::now();
    if (place_) operate(next_slot_, request.operations);
    const double elapsed = since(start).count;
    times.push_back(place_ ? elapsed / messages : std::numeric_limits<double>::quiet_NaN());
    last_slot_ = next_slot_;
    last_count_ = request.operations;
    next_slot_ = (next_slot_ + request.operations) % slots();
  }
  // A rank that is done may still have to help others: libfabric moves data only within its calls.
  ++bursts_;
  barrier();
  return {times};
}

Verification OfiSession::verify() { return place_ ? buffers_.check(*place_, last_slot_, last_count_) : Verification{}; }

void OfiSession::enlist() {
  const std::size_t size = size_of(case_.type);
  for (int slot = 0; slot < slots(); ++slot) {
    inputs_.push_back(nics_.enlist(buffers_.input(slot, *place_), case_.shape.input_elements * size));
    outputs_.push_back(nics_.enlist(buffers_.output(slot, *place_), case_.shape.output_elements * size));
  }
}

// Of all ranks of the job: in step i each hears of the rank 2^i before it (a dissemination barrier).
void OfiSession::barrier() {
  std::byte nothing{};
  for (int step = 0; (1 << step) < ranks_; ++step) {
    const int distance = 1 << step;
    const int from = (rank_ + ranks_ - distance) % ranks_;
    nics_.receive(&nothing, 0, unregistered_, tag(true, bursts_, step, from), 0);
    nics_.send(&nothing, 0, unregistered_, (rank_ + distance) % ranks_, tag(true, bursts_, step, rank_), 0);
    nics_.finish();
  }
}

void OfiSession::operate(int first, int count) {
  const Member self = place_->member;
  if (!case_.collective->pairwise) {
    const Group& group = place_->group;
    messages(first, count, group[static_cast<std::size_t>(next_in_ring(self))],
             group[static_cast<std::size_t>(previous_in_ring(self))]);
    return;
  }
  if (case_.pattern == "ping_pong") return ping_pong(first, count);
  const int peer = place_->group[static_cast<std::size_t>(1 - self.rank)];
  constexpr int nobody = -1;
  const bool both = case_.pattern == "both_ways", source = self.rank == 0;
  messages(first, count, both || source ? peer : nobody, both || !source ? peer : nobody);
}

// A window of messages, all posted before the first is waited for.
void OfiSession::messages(int first, int count, int to, int from) {
  for (int i = 0; i < count && from >= 0; ++i) receive((first + i) % slots(), i, from);
  for (int i = 0; i < count && to >= 0; ++i) send((first + i) % slots(), i, to);
  nics_.finish();
}

void OfiSession::ping_pong(int first, int count) {
  const int peer = place_->group[static_cast<std::size_t>(1 - place_->member.rank)];
  const bool source = place_->member.rank == 0;
  for (int i = 0; i < count; ++i) {
    const int slot = (first + i) % slots();
    receive(slot, i, peer);
    if (source) send(slot, i, peer);
    nics_.finish();
    if (source) continue;
    send(slot, i, peer);
    nics_.finish();
  }
}

void OfiSession::send(int slot, int number, int to) {
  nics_.send(buffers_.input(slot, *place_), case_.shape.input_elements * size_of(case_.type),
             inputs_[static_cast<std::size_t>(slot)], to, tag(false, bursts_, number, rank_), case_.nic);
}

void OfiSession::receive(int slot, int number, int from) {
  nics_.receive(buffers_.output(slot, *place_), case_.shape.output_elements * size_of(case_.type),
                outputs_[static_cast<std::size_t>(slot)], tag(false, bursts_, number, from), case_.nic);
}

}  // namespace p5::ofi
