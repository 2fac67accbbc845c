// Operations, run when a stream reaches them: bytes pass through pipes in all directions at once, and an abort ends
// every wait.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/fakes/cuda/fake.hpp"
#include "tests/fakes/nccl/communicator.hpp"
#include "tests/fakes/nccl/reduce.hpp"

namespace p5::fake_nccl {

// Header of each transfer, which reveals ranks that perform different operations.
struct Label {
  std::uint32_t kind = 0;
  std::uint32_t type = 0;
  std::uint32_t reduction = 0;
  std::uint32_t nothing = 0;  // no bytes follow, and the receiver's buffer stays as it is
  std::uint64_t bytes = 0;
  std::uint64_t choice = 0;  // algorithm, protocol and so on; with different choices NCCL may hang

  bool matches(const Label& other) const {
    return kind == other.kind && type == other.type && reduction == other.reduction && bytes == other.bytes &&
           choice == other.choice;
  }
};

namespace {

std::uint64_t bytes_of(const Operation& operation) { return operation.count * size_of(operation.type); }

Label label_of(const Operation& operation, std::uint64_t bytes) {
  Label label;
  // The two sides of a pair may use different types if the byte counts agree.
  label.kind = static_cast<std::uint32_t>(operation.pairwise() ? Operation::Kind::send : operation.kind);
  if (!operation.pairwise()) label.type = static_cast<std::uint32_t>(operation.type);
  if (form_of(operation.kind).reduces)
    label.reduction = static_cast<std::uint32_t>(operation.factor ? ncclNumOps : operation.reduction);
  label.bytes = bytes;
  label.choice = operation.choice;
  return label;
}

// Bytes of another rank that a reduction holds at once.
constexpr std::uint64_t most_at_once = 256 << 10;

void corrupt(unsigned char* data, const Operation& operation, std::uint64_t bytes, Fault::What what) {
  if (bytes == 0) return;
  const std::uint64_t element = size_of(operation.type);
  unsigned char* middle = data + bytes / element / 2 * element;
  if (what == Fault::What::bit) {
    *middle ^= 1;
  } else if (what == Fault::What::element) {
    for (std::uint64_t i = 0; i < element; ++i) middle[i] ^= 0x55;
  }
}

}  // namespace

const Form& form_of(Operation::Kind kind) {
  static constexpr Form forms[] = {
      {.function = all_reduce_function, .name = "AllReduce", .reduces = true},
      {.function = all_gather_function, .name = "AllGather", .wide_output = true},
      {.function = reduce_scatter_function, .name = "ReduceScatter", .reduces = true, .wide_input = true},
      {.function = broadcast_function, .name = "Broadcast"},
      {.function = reduce_function, .name = "Reduce", .reduces = true},
      {},
      {},
  };
  return forms[static_cast<std::size_t>(kind)];
}

// A transfer in one direction between two ranks. Label and bytes advance as far as the pipe has room.
struct Communicator::Transfer {
  bool sends = false;
  int peer = 0;
  unsigned char* data = nullptr;  // read-only for a send
  Label label;
  Label received;
  std::uint64_t moved = 0;  // bytes of label and data together

  std::uint64_t length() const {
    const bool nothing = sends ? label.nothing : received.nothing;
    return sizeof(Label) + (nothing ? 0 : label.bytes);
  }
  bool done() const { return moved >= sizeof(Label) && moved == length(); }
  bool mismatched() const { return !sends && moved >= sizeof(Label) && !received.matches(label); }

  // True if any byte moved.
  bool advance(Pipe& pipe) {
    const std::uint64_t before = moved;
    if (moved < sizeof(Label)) {
      unsigned char* at = reinterpret_cast<unsigned char*>(sends ? &label : &received) + moved;
      moved += sends ? pipe.write(at, sizeof(Label) - moved) : pipe.read(at, sizeof(Label) - moved);
    }
    if (moved >= sizeof(Label) && !mismatched() && !done()) {
      unsigned char* at = data + (moved - sizeof(Label));
      moved += sends ? pipe.write(at, length() - moved) : pipe.read(at, length() - moved);
    }
    return moved != before;
  }
};

bool Communicator::move(std::vector<Transfer> transfers) {
  for (;;) {
    const std::uint32_t seen = segment_->member(rank).doorbell.load();
    if (aborted_) return false;
    bool progress = false, pending = false;
    std::vector<bool> taken(2 * static_cast<std::size_t>(ranks));  // a pipe serves its transfers in order
    for (Transfer& transfer : transfers) {
      const std::size_t direction = 2 * static_cast<std::size_t>(transfer.peer) + transfer.sends;
      if (transfer.done() || taken[direction]) continue;
      taken[direction] = pending = true;
      const int from = transfer.sends ? rank : transfer.peer, to = transfer.sends ? transfer.peer : rank;
      if (!transfer.advance(segment_->pipe(from, to))) continue;
      progress = true;
      if (transfer.peer != rank) segment_->ring(transfer.peer);
      if (!transfer.mismatched()) continue;
      fail(ncclInvalidUsage, "rank " + std::to_string(transfer.peer) + " performs another operation: it sends " +
                                 std::to_string(transfer.received.bytes) + " bytes where " +
                                 std::to_string(transfer.label.bytes) +
                                 " are expected, or differs in kind, type or algorithm");
      wait_for_abort();
      return false;
    }
    if (!pending) return true;
    if (!progress) segment_->wait(rank, seen);
  }
}

bool Communicator::survive_faults(const Operation& operation) {
  if (operation.number == 0) return true;
  const int process = process_rank();
  const auto hit = [&](Fault::Kind kind) {
    return faults().find(kind, process, operation.number, operation.setting, operation.channels,
                         form_of(operation.kind).name);
  };
  static const char* const clock = std::getenv("P5BENCH_FAKE_CLOCK");
  const auto slow = hit(Fault::Kind::slow);
  if (const auto us = (clock ? std::atoi(clock) : 0) + (slow ? static_cast<int>(slow->microseconds) : 0); us > 0) {
    p5bench_fake_pass(us);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::microseconds(us), [this] { return aborted_.load(); });
  }
  if (hit(Fault::Kind::crash)) crash();
  const bool breaks = hit(Fault::Kind::async).has_value();
  if (breaks) fail(ncclSystemError, "the connection is broken, as P5BENCH_FAKE wants it");
  if (breaks || hit(Fault::Kind::hang)) wait_for_abort();
  return !aborted_;
}

void Communicator::run(const std::vector<Operation>& operations) {
  if (!connected_) take_time_to("first");  // only the stream's thread is here
  connected_ = true;
  std::vector<Operation> pairs;
  for (const Operation& operation : operations) {
    if (!survive_faults(operation)) return;
    if (operation.pairwise()) pairs.push_back(operation);
  }
  for (const Operation& operation : operations)
    if (!operation.pairwise()) run_collective(operation);
  if (!pairs.empty()) run_pairwise(pairs);
}

void Communicator::run_collective(const Operation& ordered) {
  Operation operation = ordered;
  std::vector<unsigned char> multiplied;
  if (operation.factor) {
    const std::uint64_t elements =
        operation.count * (form_of(operation.kind).wide_input ? static_cast<std::uint64_t>(ranks) : 1);
    multiplied.assign(operation.input, operation.input + elements * size_of(operation.type));
    multiply(multiplied.data(), elements, *operation.factor);
    operation.input = multiplied.data();
  }
  std::uint64_t bytes = bytes_of(operation);  // bytes of output
  if (form_of(operation.kind).wide_output) bytes *= static_cast<std::uint64_t>(ranks);
  if (operation.kind == Operation::Kind::reduce && operation.peer != rank) bytes = 0;
  const auto wrong = faults().find(Fault::Kind::wrong, process_rank(), operation.number, operation.setting,
                                   operation.channels, form_of(operation.kind).name);
  std::vector<unsigned char> before;
  if (wrong) before.assign(operation.output, operation.output + bytes);
  if (!perform(operation)) return;
  std::vector<unsigned char> result;
  if (faults().find(Fault::Kind::wrong, process_rank())) result.assign(operation.output, operation.output + bytes);
  if (wrong) {
    const bool stale = wrong->what == Fault::What::stale && previous_result_.size() == bytes;
    const bool unwritten = wrong->what == Fault::What::nothing || wrong->what == Fault::What::stale;
    if (stale)
      std::copy(previous_result_.begin(), previous_result_.end(), operation.output);
    else if (unwritten)
      std::copy(before.begin(), before.end(), operation.output);
    corrupt(operation.output, operation, bytes, wrong->what);
  }
  previous_result_ = std::move(result);
}

bool Communicator::perform(const Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::all_gather:
      return all_gather(operation);
    case Operation::Kind::reduce_scatter:
      return reduce_scatter(operation);
    case Operation::Kind::broadcast:
      return broadcast(operation);
    case Operation::Kind::reduce:
      return reduce(operation);
    default:
      return all_reduce(operation);
  }
}

void Communicator::combine(unsigned char* runs, std::uint64_t count, const Operation& operation) const {
  const auto run_of = [&](int from) {
    return runs + static_cast<std::uint64_t>(from) * count * size_of(operation.type);
  };
  for (int from = 0; from < ranks; ++from) prepare(run_of(from), count, operation.type, operation.reduction, ranks);
  for (int step = 1; step < ranks; ++step)
    accumulate(run_of(rank), run_of((rank + step) % ranks), count, operation.type, operation.reduction);
  complete(run_of(rank), count, operation.type, operation.reduction, ranks);
}

bool Communicator::all_gather(const Operation& operation) {
  const std::uint64_t bytes = bytes_of(operation);
  if (bytes > 0) std::memmove(operation.output + rank * bytes, operation.input, bytes);
  std::vector<Transfer> transfers;
  for (int step = 1; step < ranks; ++step) {
    const int peer = (rank + step) % ranks;
    transfers.push_back({true, peer, const_cast<unsigned char*>(operation.input), label_of(operation, bytes), {}, 0});
    transfers.push_back({false, peer, operation.output + peer * bytes, label_of(operation, bytes), {}, 0});
  }
  return move(std::move(transfers));
}

// Block by block, each rank reduces one part of the block and sends it to all.
bool Communicator::all_reduce(const Operation& operation) {
  const std::uint64_t element = size_of(operation.type), total = bytes_of(operation);
  const std::uint64_t ranks_wide = static_cast<std::uint64_t>(ranks);
  const std::uint64_t block = ranks_wide * most_at_once;
  std::vector<unsigned char> parts(block);
  for (std::uint64_t begin = 0; begin == 0 || begin < total; begin += block) {
    const std::uint64_t elements = std::min(block, total - begin) / element;
    const auto offset = [&](int part) { return elements * static_cast<std::uint64_t>(part) / ranks_wide * element; };
    const auto size = [&](int part) { return offset(part + 1) - offset(part); };
    const std::uint64_t own = size(rank);
    const auto part_of = [&](int from) { return parts.data() + static_cast<std::uint64_t>(from) * own; };
    std::vector<Transfer> transfers;
    for (int step = 0; step < ranks; ++step) {
      const int peer = (rank + step) % ranks;
      auto* data = const_cast<unsigned char*>(operation.input) + begin + offset(peer);
      transfers.push_back({true, peer, data, label_of(operation, size(peer)), {}, 0});
      transfers.push_back({false, peer, part_of(peer), label_of(operation, own), {}, 0});
    }
    if (!move(std::move(transfers))) return false;
    const std::uint64_t count = own / element;
    combine(parts.data(), count, operation);
    unsigned char* sum = part_of(rank);
    transfers.clear();
    for (int step = 0; step < ranks; ++step) {
      const int peer = (rank + step) % ranks;
      transfers.push_back({true, peer, sum, label_of(operation, own), {}, 0});
      transfers.push_back(
          {false, peer, operation.output + begin + offset(peer), label_of(operation, size(peer)), {}, 0});
    }
    if (!move(std::move(transfers))) return false;
  }
  return true;
}

// Block by block, each rank reduces its share of all inputs.
bool Communicator::reduce_scatter(const Operation& operation) {
  const std::uint64_t share = bytes_of(operation);
  std::vector<unsigned char> runs(static_cast<std::uint64_t>(ranks) * most_at_once);
  for (std::uint64_t begin = 0; begin == 0 || begin < share; begin += most_at_once) {
    const std::uint64_t bytes = std::min(most_at_once, share - begin);
    std::vector<Transfer> transfers;
    for (int step = 0; step < ranks; ++step) {
      const int peer = (rank + step) % ranks;
      const auto number = static_cast<std::uint64_t>(peer);
      auto* data = const_cast<unsigned char*>(operation.input) + number * share + begin;
      transfers.push_back({true, peer, data, label_of(operation, bytes), {}, 0});
      transfers.push_back({false, peer, runs.data() + number * bytes, label_of(operation, bytes), {}, 0});
    }
    if (!move(std::move(transfers))) return false;
    combine(runs.data(), bytes / size_of(operation.type), operation);
    if (bytes > 0) std::memcpy(operation.output + begin, runs.data() + static_cast<std::uint64_t>(rank) * bytes, bytes);
  }
  return true;
}

bool Communicator::broadcast(const Operation& operation) {
  const std::uint64_t bytes = bytes_of(operation);
  std::vector<Transfer> transfers;
  if (rank != operation.peer) {
    transfers.push_back({false, operation.peer, operation.output, label_of(operation, bytes), {}, 0});
    return move(std::move(transfers));
  }
  for (int step = 1; step < ranks; ++step)
    transfers.push_back(
        {true, (rank + step) % ranks, const_cast<unsigned char*>(operation.input), label_of(operation, bytes), {}, 0});
  if (!move(std::move(transfers))) return false;
  if (bytes > 0) std::memmove(operation.output, operation.input, bytes);
  return true;
}

// Block by block, all ranks send their input to the root.
bool Communicator::reduce(const Operation& operation) {
  const std::uint64_t total = bytes_of(operation);
  const bool gets = rank == operation.peer;
  std::vector<unsigned char> runs(gets ? static_cast<std::uint64_t>(ranks) * most_at_once : 0);
  for (std::uint64_t begin = 0; begin == 0 || begin < total; begin += most_at_once) {
    const std::uint64_t bytes = std::min(most_at_once, total - begin);
    auto* data = const_cast<unsigned char*>(operation.input) + begin;
    std::vector<Transfer> transfers{{true, operation.peer, data, label_of(operation, bytes), {}, 0}};
    for (int peer = 0; gets && peer < ranks; ++peer)
      transfers.push_back(
          {false, peer, runs.data() + static_cast<std::uint64_t>(peer) * bytes, label_of(operation, bytes), {}, 0});
    if (!move(std::move(transfers))) return false;
    if (!gets) continue;
    combine(runs.data(), bytes / size_of(operation.type), operation);
    if (bytes > 0) std::memcpy(operation.output + begin, runs.data() + static_cast<std::uint64_t>(rank) * bytes, bytes);
  }
  return true;
}

void Communicator::run_pairwise(const std::vector<Operation>& operations) {
  std::vector<Transfer> transfers;
  std::vector<std::vector<unsigned char>> altered;  // data sent instead
  altered.reserve(operations.size());
  for (const Operation& operation : operations) {
    const std::uint64_t bytes = bytes_of(operation);
    const bool sends = operation.kind == Operation::Kind::send;
    Transfer transfer{sends, operation.peer, operation.output, label_of(operation, bytes), {}, 0};
    if (sends) transfer.data = const_cast<unsigned char*>(operation.input);
    if (sends && faults().find(Fault::Kind::wrong, process_rank())) {
      std::vector<unsigned char> right(operation.input, operation.input + bytes);
      if (const auto wrong = faults().find(Fault::Kind::wrong, process_rank(), operation.number, "", 0, "")) {
        const bool stale = wrong->what == Fault::What::stale && previous_sent_.size() == bytes;
        transfer.label.nothing = !stale && wrong->what >= Fault::What::stale;
        altered.push_back(stale ? previous_sent_ : right);
        corrupt(altered.back().data(), operation, bytes, wrong->what);
        transfer.data = altered.back().data();
      }
      previous_sent_ = std::move(right);
    }
    transfers.push_back(transfer);
  }
  move(std::move(transfers));
}

}  // namespace p5::fake_nccl
