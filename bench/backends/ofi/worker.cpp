#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/backends/host_buffers.hpp"
#include "bench/backends/ofi/fabric.hpp"
#include "bench/backends/ofi/gpus.hpp"
#include "bench/backends/worker_program.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/units.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/backends.hpp"

namespace p5::ofi {

// ---- One round of a case over libfabric: data in host or GPU memory, sent as messages between pairs or around a ring,
// or written to the receiver, timed with the steady clock.

// Place of a worker's data.
struct DataPlace {
  Gpus* gpus = nullptr;               // null: data in host memory
  std::vector<std::size_t> beside{};  // by NIC: index of its nearest GPU
  bool copied = false;                // NICs cannot access GPU memory: data is copied through host memory
  std::string name = "host memory";   // label for reports
};

class OfiSession final : public Session {
 public:
  // Throws CaseError unless the case is p2p or send_recv.
  OfiSession(Case c, int round, std::optional<RankInGroup> place, Nics& nics, const DataPlace& data, int rank,
             int ranks);

  int slots() const override { return operations_; }
  void warm_up(int operations, const std::string& setting) override;
  Times sample(const SampleRequest& request) override;
  Verification verify() override;
  std::vector<std::string> probe_nics(Seconds limit) override;
  std::optional<Selection> selection() override;

 private:
  // Tag that is unique among messages in flight: barrier or data, number of the burst or barrier (the same on all ranks
  // because all count them), message number within it, and source rank.
  static std::uint64_t tag(bool barrier, std::uint32_t burst, int number, int source);

  std::size_t gpu_place() const;
  void register_memory();
  bool is_source() const { return place_->member.rank == 0; }
  int peer() const { return place_->group[static_cast<std::size_t>(1 - place_->member.rank)]; }
  void barrier();
  void operate(int first, int count);  // does nothing if the rank pauses
  void move(int first, int count);
  void messages(int first, int count, int to, int from);
  void ping_pong(int first, int count);
  void learn_targets();
  void writes(int first, int count);
  std::byte* input(int slot) const;  // the buffer that the NIC accesses
  std::byte* output(int slot) const;
  const Nics::Registrations& registration_of(const std::vector<Nics::Registrations>& slots, int slot) const;
  void came(int slot);  // marks the message as received
  void send(int slot, int number, int to, int& under_way);
  void receive(int slot, int number, int from, int& under_way);

  Case case_;
  std::optional<RankInGroup> place_;
  Nics& nics_;
  int rank_ = 0, ranks_ = 1;
  const DataPlace& data_;
  std::optional<int> nic_;  // the only NIC that this rank uses
  int data_peer_ = 0;       // index of the peer, or of its NIC, for data through that NIC
  HostBuffers buffers_;
  std::unique_ptr<GpuMirror> mirror_;                  // null: the data lies in host memory
  bool writes_ = false;                                // RMA writes to the receiver's memory instead of messages
  std::vector<Target> targets_;                        // by slot, after the receiver has sent them
  std::vector<Nics::Registrations> inputs_, outputs_;  // by slot; one for all slots if the data lies in GPU memory
  Nics::Registrations unregistered_ = Nics::Registrations(nics_.count());  // of zero bytes, for barriers
  std::optional<Moved> moved_before_;
  int operations_ = 1;  // most operations of a sample
  std::uint32_t bursts_ = 0;
  int next_slot_ = 0, last_slot_ = 0, last_count_ = 0;
};

namespace {

// Messages up to 512 KiB have as many buffers as in the mpi backend, larger ones twice as many: NICs need 16 to 32 MiB
// in flight for their full rate, each of those that a message is divided among.
constexpr Bytes pool_of_nic{64u << 20};
constexpr int most_slots = 32;

// Messages from this size on reuse buffers within a sample while others are in flight, so that the NIC never idles.
constexpr Bytes windowed = MiB(1);
constexpr int most_operations = 128;

int slots_of_nics(const Case& c, const Nics& nics) {
  const std::size_t bytes = c.shape.input_elements * size_of(c.type);
  return slots_for(c, {pool_of_nic.count * nics.parts_of(bytes, c.nic)}, most_slots);
}

}  // namespace

OfiSession::OfiSession(Case c, int round, std::optional<RankInGroup> place, Nics& nics, const DataPlace& data, int rank,
                       int ranks)
    : case_(std::move(c)),
      place_(std::move(place)),
      nics_(nics),
      rank_(rank),
      ranks_(ranks),
      data_(data),
      buffers_(case_, slots_of_nics(case_, nics)) {
  if (case_.collective->route != Route::point_to_point)
    throw CaseError(fmt::format("libfabric has messages only, no {}", case_.collective->name));
  const std::size_t bytes = case_.shape.input_elements * size_of(case_.type);
  if (bytes > nics.largest_message())
    throw CaseError(fmt::format("a message of {} bytes; {} takes {} at most", bytes,
                                name_of_library(nics.first().info()), nics.largest_message()));
  operations_ = buffers_.slots();
  if (case_.bytes >= windowed && case_.pattern != "ping_pong") operations_ = most_operations;
  moved_before_ = nics_.moved();
  if (!place_) return;  // a rank that pauses may lack this NIC
  nic_ = nic_of(case_, place_->group, rank_);
  if (nic_) data_peer_ = nics_.peer_at(*nic_, peer(), *nic_of(case_, place_->group, peer()));
  writes_ = nic_ && case_.pattern == "one_way" && !data_.copied && nics_.at(*nic_).writes();
  if (data_.gpus) mirror_ = std::make_unique<GpuMirror>(*data_.gpus, gpu_place(), buffers_);
  register_memory();
  buffers_.fill(*place_, round);
  if (mirror_) mirror_->upload_all();
}

std::size_t OfiSession::gpu_place() const {
  const std::size_t beside = data_.beside.at(static_cast<std::size_t>(nic_.value_or(0)));
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

void OfiSession::register_memory() {
  if (mirror_ && !data_.copied) {
    GpuMemory& memory = mirror_->memory();
    memory.gpu().use();
    inputs_.push_back(nics_.register_memory(memory.data(), memory.size(), memory.gpu().number(), writes_));
    return;
  }
  const std::size_t size = size_of(case_.type);
  for (int slot = 0; slot < buffers_.slots(); ++slot) {
    inputs_.push_back(nics_.register_memory(buffers_.input(slot, *place_), case_.shape.input_elements * size));
    outputs_.push_back(
        nics_.register_memory(buffers_.output(slot, *place_), case_.shape.output_elements * size, {}, writes_));
  }
}

// Barrier over all ranks of the job: in step i each receives from the rank 2^i before it (dissemination barrier).
void OfiSession::barrier() {
  std::byte nothing{};
  for (int step = 0; (1 << step) < ranks_; ++step) {
    const int distance = 1 << step;
    const int from = (rank_ + ranks_ - distance) % ranks_;
    int under_way = 0;
    nics_.receive(&nothing, 0, unregistered_, from, tag(true, bursts_, step, from), {}, under_way);
    nics_.send(&nothing, 0, unregistered_, (rank_ + distance) % ranks_, tag(true, bursts_, step, rank_), {}, under_way);
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
          registration_of(outputs_, slot).at(static_cast<std::size_t>(*nic_)).target(output(slot));
  for (std::size_t i = slots; i < targets_.size(); ++i) targets_[i] = targets_[i - slots];
  auto* const table = reinterpret_cast<std::byte*>(targets_.data());
  const std::size_t bytes = targets_.size() * sizeof(Target);
  const Nics::Registrations registration = nics_.register_memory(table, bytes);
  int under_way = 0;
  if (is_source())
    nics_.receive(table, bytes, registration, peer(), tag(false, bursts_, 0, peer()), nic_, under_way);
  else
    nics_.send(table, bytes, registration, data_peer_, tag(false, bursts_, 0, rank_), nic_, under_way);
  nics_.finish();
  for (std::size_t i = 0; i < slots; ++i)
    if (targets_[i] != targets_[i + slots]) targets_[i] = targets_[i + 2 * slots];
}

// A window of writes, as for messages. The receiver only counts arrivals; rewriting a buffer leaves the same data.
void OfiSession::writes(int first, int count) {
  if (targets_.empty()) learn_targets();
  Endpoint& nic = nics_.at(*nic_);
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
    nic.write(input(slot), bytes, registration_of(inputs_, slot).at(static_cast<std::size_t>(*nic_)), data_peer_,
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
  // Packets are then the addresses to write to, and the data may have been written.
  if (writes_ && !now->counts_writes && read < packets) return told;
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
  nics_.send(input(slot), bytes, registration_of(inputs_, slot), nic_ ? data_peer_ : to,
             tag(false, bursts_, number, rank_), nic_, under_way);
}

void OfiSession::receive(int slot, int number, int from, int& under_way) {
  nics_.receive(output(slot), case_.shape.output_elements * size_of(case_.type), registration_of(outputs_, slot), from,
                tag(false, bursts_, number, from), nic_, under_way);
}

// ---- The libfabric worker program: one endpoint on each NIC of its rank, data in host or GPU memory.

namespace {

// MemAvailable of the kernel, in bytes.
std::uint64_t memory_available() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kibibytes = 0;
  while (file >> name >> kibibytes && name != "MemAvailable:") file.ignore(80, '\n');
  return kibibytes << 10;
}

class Worker final : public WorkerProgram {
 public:
  explicit Worker(protocol::SharedPage& page) : page_(page) {}

 private:
  protocol::Identity identify(const protocol::LocalRank& local) override {
    if (!nics_) open_nics(local);
    protocol::Identity identity;
    identity.memory = data_.name;
    identity.why_no_gpu = why_no_gpu_;
    if (gpus_) {
      identity.gpus = gpus_->pci();
      identity.driver = gpus_->version();
      identity.gpu_beside.assign(data_.beside.begin(), data_.beside.end());
    }
    identity.devices = nics_->names();
    std::vector<std::string> names = identity.devices;
    std::erase(names, "");
    identity.device_uuid = identity.device_name = p5::join(names);
    identity.library = name_of_library(nics_->first().info());
    identity.address = nics_->first().host();
    Dl_info place{};
    if (dladdr(reinterpret_cast<void*>(&fi_getinfo), &place) != 0 && place.dli_fname)
      identity.library_path = place.dli_fname;
    identity.free_memory = identity.total_memory = memory_available();
    return identity;
  }

  std::string id() override { return nics_.value().addresses(); }

  Environment join(const std::vector<std::string>& ids, int rank, int ranks) override {
    rank_ = rank;
    ranks_ = ranks;
    nics_->connect(ids);
    nics_->progress();  // EFA allocates receive buffers when a queue is first read: before any peer sends
    return library_variables();
  }

  std::unique_ptr<Session> open(Case c, int round, std::optional<RankInGroup> place, std::uint64_t) override {
    return std::make_unique<OfiSession>(std::move(c), round, std::move(place), *nics_, data_, rank_, ranks_);
  }

  std::string waits_for() const override { return nics_ ? nics_->waits_for() : ""; }

  // EFA's provider initializes GPUs at the first libfabric call, so the GPU nearest to the NICs must be current, or
  // FI_HMEM disabled, before it.
  void open_nics(const protocol::LocalRank& local) {
    if (local.memory != "host") find_gpus(local);
    ::setenv("FI_HMEM", gpus_ ? "cuda" : "system", 0);
    if (gpus_) try_gpu_memory(local);
    if (nics_) return;
    ChosenNics chosen = choose_nics(local, false);
    open_near(chosen, false);
    if (!gpus_) return;
    if (local.memory == "gpu") {
      data_.copied = true;
      data_.name = "GPU memory, copied through host memory";
      choose_gpus(local, chosen);
    } else {
      gpus_.reset();
    }
  }

  void find_gpus(const protocol::LocalRank& local) {
    try {
      gpus_.emplace();
      gpus_->at(first_gpu(local)).use();
    } catch (const CaseError& problem) {
      if (local.memory == "gpu") throw CaseError(std::string("no GPU memory: ") + problem.what());
      gpus_.reset();
      why_no_gpu_ = problem.what();
    }
  }

  // Buffers in host memory, of the library too, are to be near the NICs, whatever cores the launcher chose.
  void open_near(ChosenNics& chosen, bool gpu_memory) {
    if (const std::vector<std::string> addresses = pci_addresses(chosen); !addresses.empty()) bind_near(addresses);
    nics_.emplace(std::move(chosen.infos), page_, gpu_memory);
  }

  // Uses GPU memory if all NICs can access it; each step may show that they cannot.
  void try_gpu_memory(const protocol::LocalRank& local) {
    constexpr std::size_t trial = 1 << 20;
    try {
      ChosenNics chosen = choose_nics(local, true);
      open_near(chosen, true);
      choose_gpus(local, chosen);
      for (std::size_t nic = 0; nic < nics_->count(); ++nic) {
        if (!nics_->has(nic)) continue;
        const std::unique_ptr<GpuMemory> memory = gpus_->allocate(data_.beside[nic], trial);
        memory->gpu().use();
        Endpoint& its = nics_->at(static_cast<int>(nic));
        its.register_memory(memory->data(), trial, memory->gpu().number(), its.writes());
      }
      data_.name = memory_of_gpus;
    } catch (const CaseError& problem) {
      nics_.reset();
      data_ = {};
      why_no_gpu_ = problem.what();
    }
  }

  std::size_t first_gpu(const protocol::LocalRank& local) const {
    return static_cast<std::size_t>(local.local_rank) * gpus_->size() / static_cast<std::size_t>(local.local_ranks);
  }

  // GPUs are divided among the places of the host's NICs. Ranks that share a NIC have a GPU each.
  void choose_gpus(const protocol::LocalRank& local, const ChosenNics& chosen) {
    data_.gpus = &*gpus_;
    const bool shared = std::cmp_greater(local.local_ranks, chosen.count);
    for (const std::size_t place : chosen.places)
      data_.beside.push_back(shared ? first_gpu(local) : place * gpus_->size() / chosen.count);
  }

  protocol::SharedPage& page_;
  std::optional<Gpus> gpus_;  // declared first: GPUs must outlive registrations with the NICs
  DataPlace data_;
  std::string why_no_gpu_;
  std::optional<Nics> nics_;
  int rank_ = 0, ranks_ = 1;
};

}  // namespace

}  // namespace p5::ofi

int main() {
  return p5::run_worker("p5bench-worker-ofi",
                        [](p5::protocol::SharedPage& page) { return std::make_unique<p5::ofi::Worker>(page); });
}
