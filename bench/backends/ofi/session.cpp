#include "bench/backends/ofi/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "bench/base/error.hpp"
#include "bench/base/units.hpp"
#include "bench/model/backends.hpp"

namespace p5::ofi {

namespace {

// Messages up to 512 KiB have as many buffers as on the mpi backend, larger ones twice as many: NICs need 16 to 32 MiB
// under way.
constexpr Bytes pool{64u << 20};
constexpr int most_slots = 32;

// Messages whose buffers are used again while others are under way, so that the NIC never runs empty in a sample.
constexpr Bytes windowed = MiB(1);
constexpr int most_operations = 128;

}  // namespace

OfiSession::OfiSession(Case c, int round, std::optional<RankInGroup> place, Nics& nics, int rank, int ranks)
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
  operations_ = buffers_.slots();
  if (case_.bytes >= windowed && case_.pattern != "ping_pong") operations_ = most_operations;
  moved_before_ = nics_.moved();
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
  operate(0, std::min(operations, slots()));
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
    operate(next_slot_, request.operations);
    const double elapsed = since(start).count;
    times.push_back(place_ ? elapsed / messages : std::numeric_limits<double>::quiet_NaN());
    last_slot_ = next_slot_;
    last_count_ = std::min(request.operations, buffers_.slots());
    next_slot_ = (next_slot_ + request.operations) % buffers_.slots();
  }
  // A rank that is done may still have to help others: libfabric moves data only within its calls.
  ++bursts_;
  barrier();
  return {times};
}

Verification OfiSession::verify() { return place_ ? buffers_.check(*place_, last_slot_, last_count_) : Verification{}; }

void OfiSession::enlist() {
  const std::size_t size = size_of(case_.type);
  for (int slot = 0; slot < buffers_.slots(); ++slot) {
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
    int under_way = 0;
    nics_.receive(&nothing, 0, unregistered_, tag(true, bursts_, step, from), 0, under_way);
    nics_.send(&nothing, 0, unregistered_, (rank_ + distance) % ranks_, tag(true, bursts_, step, rank_), 0, under_way);
    nics_.finish();
  }
  nics_.count_step();
}

void OfiSession::operate(int first, int count) {
  if (place_) move(first, count);
  nics_.count_step();
}

void OfiSession::move(int first, int count) {
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

// A window of messages, as wide as there are buffers: where one has come, the next begins in its place.
void OfiSession::messages(int first, int count, int to, int from) {
  const int slots = buffers_.slots();
  std::vector<int> sending(static_cast<std::size_t>(slots)), receiving = sending;
  const auto begin = [&](int& begun, std::vector<int>& under_way, const auto& post) {
    for (; begun < count; ++begun) {
      const int slot = (first + begun) % slots;
      int& its = under_way[static_cast<std::size_t>(slot)];
      if (its > 0) return;
      post(slot, begun, its);
    }
  };
  int received = from < 0 ? count : 0, sent = to < 0 ? count : 0;
  for (;;) {
    begin(received, receiving, [&](int slot, int number, int& its) { receive(slot, number, from, its); });
    begin(sent, sending, [&](int slot, int number, int& its) { send(slot, number, to, its); });
    if (received == count && sent == count) break;
    nics_.progress();
  }
  nics_.finish();
}

void OfiSession::ping_pong(int first, int count) {
  const int peer = place_->group[static_cast<std::size_t>(1 - place_->member.rank)];
  const bool source = place_->member.rank == 0;
  for (int i = 0; i < count; ++i) {
    const int slot = (first + i) % buffers_.slots();
    int under_way = 0;
    receive(slot, i, peer, under_way);
    if (source) send(slot, i, peer, under_way);
    nics_.finish();
    if (source) continue;
    send(slot, i, peer, under_way);
    nics_.finish();
  }
}

// By what the NICs counted since the session was opened.
std::optional<Selection> OfiSession::selection() {
  const std::optional<Moved> now = nics_.moved();
  if (!place_ || !now || !moved_before_) return std::nullopt;
  const std::uint64_t read = now->read - moved_before_->read, written = now->written - moved_before_->written,
                      packets = now->packets - moved_before_->packets;
  if (read + written + packets == 0) return std::nullopt;
  return Selection{.algorithm = "tagged messages",
                   .protocol = std::max(read, written) < packets ? std::string(packets_protocol)
                               : written > read                  ? "device write"
                                                                 : "device read",
                   .channels = 0,
                   .source = "counters of the NICs"};
}

void OfiSession::send(int slot, int number, int to, int& under_way) {
  nics_.send(buffers_.input(slot, *place_), case_.shape.input_elements * size_of(case_.type),
             inputs_[static_cast<std::size_t>(slot)], to, tag(false, bursts_, number, rank_), case_.nic, under_way);
}

void OfiSession::receive(int slot, int number, int from, int& under_way) {
  nics_.receive(buffers_.output(slot, *place_), case_.shape.output_elements * size_of(case_.type),
                outputs_[static_cast<std::size_t>(slot)], tag(false, bursts_, number, from), case_.nic, under_way);
}

}  // namespace p5::ofi
