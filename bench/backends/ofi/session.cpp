#include "bench/backends/ofi/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "bench/base/error.hpp"
#include "bench/base/units.hpp"
#include "bench/model/backends.hpp"

namespace p5::ofi {

namespace {

// Messages up to 512 KiB have as many buffers as in the mpi backend, larger ones twice as many: NICs need 16 to 32 MiB
// in flight for their full rate.
constexpr Bytes pool{64u << 20};
constexpr int most_slots = 32;

// Messages from this size on reuse buffers within a sample while others are in flight, so that the NIC never idles.
constexpr Bytes windowed = MiB(1);
constexpr int most_operations = 128;

}  // namespace

OfiSession::OfiSession(Case c, int round, std::optional<RankInGroup> place, Nics& nics, const DataPlace& data, int rank,
                       int ranks)
    : case_(std::move(c)),
      place_(std::move(place)),
      nics_(nics),
      rank_(rank),
      ranks_(ranks),
      data_(data),
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
  writes_ = case_.nic && case_.pattern == "one_way" && !data_.copied && nics_.at(*case_.nic).writes();
  if (!place_) return;
  if (data_.gpus) mirror_ = std::make_unique<GpuMirror>(*data_.gpus, gpu_place(), buffers_);
  enlist();
  buffers_.fill(*place_, round);
  if (mirror_) mirror_->upload_all();
}

std::size_t OfiSession::gpu_place() const {
  const std::size_t beside = data_.beside.at(static_cast<std::size_t>(case_.nic.value_or(0)));
  return (beside + static_cast<std::size_t>(is_source() ? case_.gpu.value_or(0) : 0)) % data_.gpus->size();
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
  // A round trip is two messages; the time of one is half.
  const double messages = request.operations * (case_.pattern == "ping_pong" ? 2.0 : 1.0);
  std::vector<double> times;
  for (int s = 0; s < request.samples; ++s) {
    if (request.poison_last && s + 1 == request.samples && place_) {
      buffers_.poison_outputs();
      if (mirror_) mirror_->upload_all();
    }
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
  // Barrier after the burst: a finished rank may still have to drive progress for others, since libfabric moves data
  // only within its calls.
  ++bursts_;
  barrier();
  return {times};
}

Verification OfiSession::verify() {
  if (!place_) return {};
  if (mirror_) mirror_->download_all();
  return buffers_.check(*place_, last_slot_, last_count_);
}

std::vector<std::string> OfiSession::probe_nics(Seconds limit) {
  ++bursts_;
  return nics_.probe(peer(), tag(false, bursts_, 0, rank_), tag(false, bursts_, 0, peer()), limit);
}

void OfiSession::enlist() {
  if (mirror_ && !data_.copied) {
    GpuMemory& memory = mirror_->memory();
    memory.gpu().use();
    inputs_.push_back(nics_.enlist(memory.data(), memory.size(), memory.gpu().number()));
    return;
  }
  const std::size_t size = size_of(case_.type);
  for (int slot = 0; slot < buffers_.slots(); ++slot) {
    inputs_.push_back(nics_.enlist(buffers_.input(slot, *place_), case_.shape.input_elements * size));
    outputs_.push_back(nics_.enlist(buffers_.output(slot, *place_), case_.shape.output_elements * size));
  }
}

// Barrier over all ranks of the job: in step i each receives from the rank 2^i before it (dissemination barrier).
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
  if (writes_) return writes(first, count);
  constexpr int nobody = -1;
  const bool both = case_.pattern == "both_ways";
  messages(first, count, both || is_source() ? peer() : nobody, both || !is_source() ? peer() : nobody);
}

// The receiver sends its output addresses three times and two equal copies decide: a NIC that corrupts data must
// corrupt verified data, not the addresses that it is written to.
void OfiSession::learn_targets() {
  constexpr std::size_t copies = 3;
  const auto slots = static_cast<std::size_t>(buffers_.slots());
  targets_.resize(copies * slots);
  if (!is_source())
    for (int slot = 0; slot < buffers_.slots(); ++slot)
      targets_[static_cast<std::size_t>(slot)] =
          registration_of(outputs_, slot).at(static_cast<std::size_t>(*case_.nic)).target(output(slot));
  for (std::size_t i = slots; i < targets_.size(); ++i) targets_[i] = targets_[i - slots];
  auto* const table = reinterpret_cast<std::byte*>(targets_.data());
  const std::size_t bytes = targets_.size() * sizeof(Target);
  const Nics::Registrations registration = nics_.enlist(table, bytes);
  int under_way = 0;
  if (is_source())
    nics_.receive(table, bytes, registration, tag(false, bursts_, 0, peer()), case_.nic, under_way);
  else
    nics_.send(table, bytes, registration, peer(), tag(false, bursts_, 0, rank_), case_.nic, under_way);
  nics_.finish();
  for (std::size_t i = 0; i < slots; ++i)
    if (targets_[i] != targets_[i + slots]) targets_[i] = targets_[i + 2 * slots];
}

// A window of writes, as for messages. The receiver only counts arrivals; rewriting a buffer leaves the same data.
void OfiSession::writes(int first, int count) {
  if (targets_.empty()) learn_targets();
  Endpoint& nic = nics_.at(*case_.nic);
  if (!is_source()) {
    nic.expect(count);
    return nics_.finish();
  }
  const std::size_t bytes = case_.shape.input_elements * size_of(case_.type);
  std::vector<int> under_way(static_cast<std::size_t>(buffers_.slots()));
  for (int begun = 0; begun < count; ++begun) {
    const int slot = (first + begun) % buffers_.slots();
    int& its = under_way[static_cast<std::size_t>(slot)];
    while (its > 0) nics_.progress();
    nic.write(input(slot), bytes, registration_of(inputs_, slot).at(static_cast<std::size_t>(*case_.nic)), peer(),
              targets_[static_cast<std::size_t>(slot)], its);
  }
  nics_.finish();
}

// A sliding window of messages, one per buffer: when a message arrives, the next one starts in its buffer.
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
  // Indexed by slot: a receive was posted and has not completed.
  std::vector<bool> expected(static_cast<std::size_t>(slots));
  const auto take_in = [&](int slot) {
    if (expected[static_cast<std::size_t>(slot)]) came(slot);
    expected[static_cast<std::size_t>(slot)] = false;
  };
  int received = from < 0 ? count : 0, sent = to < 0 ? count : 0;
  for (;;) {
    begin(received, receiving, [&](int slot, int number, int& its) {
      take_in(slot);
      receive(slot, number, from, its);
      expected[static_cast<std::size_t>(slot)] = true;
    });
    begin(sent, sending, [&](int slot, int number, int& its) { send(slot, number, to, its); });
    if (received == count && sent == count) break;
    nics_.progress();
  }
  nics_.finish();
  for (int slot = 0; slot < slots; ++slot) take_in(slot);
}

void OfiSession::ping_pong(int first, int count) {
  for (int i = 0; i < count; ++i) {
    const int slot = (first + i) % buffers_.slots();
    int under_way = 0;
    receive(slot, i, peer(), under_way);
    if (is_source()) send(slot, i, peer(), under_way);
    nics_.finish();
    came(slot);
    if (is_source()) continue;
    send(slot, i, peer(), under_way);
    nics_.finish();
  }
}

// The method is inferred from the NICs' counters since the session was opened.
std::optional<Selection> OfiSession::selection() {
  if (!place_) return std::nullopt;
  Selection told{.algorithm = writes_ ? "write" : "messages",
                 .protocol = "",
                 .channels = 0,
                 .source = "the worker",
                 .memory = data_.name};
  const std::optional<Moved> now = nics_.moved();
  if (!now || !moved_before_) return told;
  const std::uint64_t read = now->read - moved_before_->read, written = now->written - moved_before_->written,
                      packets = now->packets - moved_before_->packets;
  if (read + written + packets == 0) return told;
  told.source = "counters of the NICs";
  told.protocol = std::max(read, written) < packets ? std::string(packets_protocol)
                  : written > read                  ? "device write"
                                                    : "device read";
  return told;
}

std::byte* OfiSession::input(int slot) const {
  std::byte* const at = buffers_.input(slot, *place_);
  return mirror_ && !data_.copied ? mirror_->of(at) : at;
}

std::byte* OfiSession::output(int slot) const {
  std::byte* const at = buffers_.output(slot, *place_);
  return mirror_ && !data_.copied ? mirror_->of(at) : at;
}

const Nics::Registrations& OfiSession::registration_of(const std::vector<Nics::Registrations>& slots, int slot) const {
  return mirror_ && !data_.copied ? inputs_.front() : slots[static_cast<std::size_t>(slot)];
}

void OfiSession::came(int slot) {
  if (mirror_ && data_.copied)
    mirror_->upload(buffers_.output(slot, *place_), case_.shape.output_elements * size_of(case_.type));
}

void OfiSession::send(int slot, int number, int to, int& under_way) {
  const std::size_t bytes = case_.shape.input_elements * size_of(case_.type);
  if (mirror_ && data_.copied) mirror_->download(buffers_.input(slot, *place_), bytes);
  nics_.send(input(slot), bytes, registration_of(inputs_, slot), to, tag(false, bursts_, number, rank_), case_.nic,
             under_way);
}

void OfiSession::receive(int slot, int number, int from, int& under_way) {
  nics_.receive(output(slot), case_.shape.output_elements * size_of(case_.type), registration_of(outputs_, slot),
                tag(false, bursts_, number, from), case_.nic, under_way);
}

}  // namespace p5::ofi
