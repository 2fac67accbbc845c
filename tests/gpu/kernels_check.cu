// The worker's kernels on this device against their functors on the host, for all types: the tests on the fakes are
// valid for the device as far as both agree. A separate program without a test library, since GPU hosts may have none.
// Prints the differences; exit status 1 if there are any.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/kernels.hpp"
#include "bench/backends/nccl/peer_kernels.hpp"
#include "bench/model/data_type.hpp"
#include "bench/model/expected.hpp"

namespace {

using namespace p5;
using namespace p5::nccl;

int launches = 0;

// No multiple of a block; fewer where the device is a fake of the CUDA runtime, whose kernels are the host's.
const bool on_fakes = dlsym(RTLD_DEFAULT, "p5bench_fake_cublaslt") != nullptr;
const std::uint64_t elements = on_fakes ? 10'007 : 100'003;
int differences = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  ++differences;
  std::printf("differs: %s\n", what.c_str());
}

// The copies follow the stream's order, unlike the device's other copies.
void bring(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
}

std::vector<std::byte> fetched(const void* from, std::size_t bytes) {
  std::vector<std::byte> here(bytes);
  check(cudaMemcpy(here.data(), from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return here;
}

// Common parts of all comparisons: some outputs of the same segments.
struct Compared {
  std::vector<std::vector<std::byte>> outputs;
  std::vector<Segment> segments;
  std::vector<Pattern> patterns;
};

std::vector<Mismatches> compared(cudaStream_t stream, DataType type, const Compared& what) {
  const std::vector<NumberedSegment> segments = number_elements(what.segments);
  const std::size_t table_bytes = segments.size() * sizeof(NumberedSegment);
  const std::vector<Mismatches> none(what.outputs.size());
  const DeviceMemory found = make_device_memory(none.size() * sizeof(Mismatches)),
                     table = make_device_memory(table_bytes);
  bring(stream, found.get(), none.data(), none.size() * sizeof(Mismatches));
  bring(stream, table.get(), segments.data(), table_bytes);
  Outputs outputs;
  std::vector<DeviceMemory> memory;
  for (const std::vector<std::byte>& data : what.outputs) {
    memory.push_back(make_device_memory(data.size()));
    bring(stream, memory.back().get(), data.data(), data.size());
    const auto at = static_cast<std::size_t>(outputs.count++);
    outputs.data[at] = static_cast<const std::byte*>(memory.back().get());
    outputs.patterns[at] = what.patterns[at];
  }
  outputs.segments = static_cast<const NumberedSegment*>(table.get());
  outputs.segments_count = segments.size();
  outputs.elements = segments.back().begin + segments.back().segment.elements;
  const int before = launches;
  compare(stream, type, outputs, static_cast<Mismatches*>(found.get()));
  expect(launches == before + 1, "the number of launches for " + std::to_string(segments.size()) + " segments");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  std::vector<Mismatches> results(none.size());
  std::memcpy(results.data(), fetched(found.get(), none.size() * sizeof(Mismatches)).data(),
              none.size() * sizeof(Mismatches));
  return results;
}

template <class T>
T wanted_in(const Segment& segment, const Pattern& pattern, std::uint64_t i) {
  return segment.source == Segment::reduced ? reduced_element<T>(pattern, segment.source_offset + i)
                                            : input_element<T>(pattern, segment.source, segment.source_offset + i);
}

template <class T>
std::vector<Mismatches> compared_here(const Compared& what) {
  std::vector<Mismatches> found(what.outputs.size());
  for (std::size_t output = 0; output < found.size(); ++output)
    for (const Segment& segment : what.segments)
      for (std::uint64_t i = 0; i < segment.elements; ++i) {
        const std::uint64_t at = segment.output_offset + i;
        const T got = reinterpret_cast<const T*>(what.outputs[output].data())[at];
        const T wanted = wanted_in<T>(segment, what.patterns[output], i);
        if (distance_in_units<T>(wanted, got) <= tolerance<T>(what.patterns[output])) continue;
        ++found[output].wrong;
        found[output].lowest = std::min<unsigned long long>(found[output].lowest, at);
      }
  return found;
}

// A gathered output, or an exchange of unequal blocks: pieces of several ranks, one of them empty, one out of order,
// and elements that no rank writes.
std::vector<Segment> pieces_of_ranks() {
  constexpr std::uint64_t gap = 7;
  std::vector<Segment> pieces;
  for (std::uint64_t at = 0, length = 1; at < elements; at += length + gap, length = length * 3 % 9973)
    pieces.push_back({.output_offset = at,
                      .elements = std::min(length, elements - at),
                      .source = static_cast<int>(pieces.size() % 4),
                      .source_offset = at / 2});
  pieces.insert(pieces.begin() + 2, Segment{.output_offset = 5, .elements = 0, .source = 3, .source_offset = 0});
  std::swap(pieces[1], pieces.back());
  return pieces;
}

template <class T>
void check_type(cudaStream_t stream, DataType type, const Pattern& pattern, const std::string& name,
                std::mt19937& random) {
  const std::size_t bytes = elements * sizeof(T);
  const DeviceMemory on_device = make_device_memory(bytes);
  fill(stream, type, static_cast<std::byte*>(on_device.get()), elements, pattern, 1);
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  std::vector<T> here(elements);
  for (std::uint64_t i = 0; i < elements; ++i) here[i] = input_element<T>(pattern, 1, i);
  const std::vector<std::byte> there = fetched(on_device.get(), bytes);
  expect(std::memcmp(there.data(), here.data(), bytes) == 0, "fill of " + name);

  Pattern another = pattern;
  another.seed += 1;
  std::vector<std::pair<std::string, std::vector<Segment>>> kinds{
      {"input", {{.output_offset = 0, .elements = elements, .source = 1, .source_offset = 0}}},
      {"pieces", pieces_of_ranks()}};
  if (pattern.reduces)
    kinds.push_back(
        {"result", {{.output_offset = 0, .elements = elements, .source = Segment::reduced, .source_offset = 0}}});
  for (const auto& [kind, segments] : kinds) {
    Compared right{.segments = segments, .patterns = {pattern, another}};
    for (const Pattern& each : right.patterns) {
      T* const data = reinterpret_cast<T*>(right.outputs.emplace_back(bytes).data());
      for (const Segment& segment : segments)
        for (std::uint64_t i = 0; i < segment.elements; ++i)
          data[segment.output_offset + i] = wanted_in<T>(segment, each, i);
    }
    for (const int wrong : {0, 1, 777}) {
      Compared spoilt = right;
      for (int i = 0; i < wrong; ++i) spoilt.outputs[1][random() % bytes] ^= std::byte{1 << (random() % 8)};
      const std::vector<Mismatches> gpu = compared(stream, type, spoilt), cpu = compared_here<T>(spoilt);
      const std::string what = name + ", " + kind + ", " + std::to_string(wrong) + " bits turned";
      for (std::size_t output = 0; output < cpu.size(); ++output)
        expect(gpu[output].wrong == cpu[output].wrong && gpu[output].lowest == cpu[output].lowest,
               "comparison of " + what);
      expect(gpu[0].wrong == 0 && (wrong > 0 || gpu[1].wrong == 0), "right data of " + what + " are called wrong");
    }
  }
}

void check_guarded(cudaStream_t stream) {
  const GuardedBuffers layout{nullptr, 3, 4096, 512, 2048};
  const DeviceMemory memory = make_device_memory(3 * 4096), found = make_device_memory(sizeof(Mismatches));
  GuardedBuffers buffers = layout;
  buffers.memory = static_cast<std::byte*>(memory.get());
  check(cudaMemsetAsync(memory.get(), 0, 3 * 4096, stream), "cudaMemsetAsync");
  fill_guards(stream, buffers);
  for (const bool spoilt : {false, true}) {
    const Mismatches none;
    bring(stream, found.get(), &none, sizeof none);
    if (spoilt) check(cudaMemsetAsync(buffers.memory + 4096 + 511, 1, 1, stream), "cudaMemsetAsync");
    check_guards(stream, buffers, static_cast<Mismatches*>(found.get()));
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    Mismatches result;
    std::memcpy(&result, fetched(found.get(), sizeof result).data(), sizeof result);
    expect(result.wrong == (spoilt ? 1u : 0u), spoilt ? "a spoilt guard byte" : "guards that nobody touched");
  }
}

// ---- sums of rows, as of tokens

// The sum as the host computes it, one element after the other.
template <class T>
T sum_here(const std::vector<T>& elements_here, const std::vector<std::uint64_t>& at) {
  T sum = elements_here[at[0]];
  if constexpr (is_small_float<T>) {
    auto wide = static_cast<float>(sum);
    for (std::size_t i = 1; i < at.size(); ++i) wide += static_cast<float>(elements_here[at[i]]);
    return T(wide);
  } else {
    for (std::size_t i = 1; i < at.size(); ++i) sum = pattern::added(sum, elements_here[at[i]]);
    return sum;
  }
}

// Rows of one source and of several, with rows that are a multiple of 16 bytes and others.
template <class T>
void check_rows(cudaStream_t stream, DataType type, std::mt19937& random) {
  constexpr std::uint64_t given = 300, rows = 1000;
  for (const std::uint64_t length : {std::uint64_t{16}, std::uint64_t{7}}) {
    const Pattern pattern{.seed = 29, .ranks = 4, .terms = 8};
    std::vector<T> from(given * length);
    for (std::uint64_t i = 0; i < from.size(); ++i) from[i] = input_element<T>(pattern, 1, i);
    std::vector<std::uint32_t> first{0}, sources;
    for (std::uint64_t row = 0; row < rows; ++row) {
      for (std::uint64_t k = 0; k <= row % 8; ++k) sources.push_back(static_cast<std::uint32_t>(random() % given));
      first.push_back(static_cast<std::uint32_t>(sources.size()));
    }
    const DeviceMemory from_there = make_device_memory(from.size() * sizeof(T)),
                       to_there = make_device_memory((rows + 1) * length * sizeof(T)),
                       first_there = make_device_memory(first.size() * sizeof first[0]),
                       sources_there = make_device_memory(sources.size() * sizeof sources[0]);
    bring(stream, from_there.get(), from.data(), from.size() * sizeof(T));
    bring(stream, first_there.get(), first.data(), first.size() * sizeof first[0]);
    bring(stream, sources_there.get(), sources.data(), sources.size() * sizeof sources[0]);
    add_rows(stream, type,
             {length, 1, rows, static_cast<const std::uint32_t*>(first_there.get()),
              static_cast<const std::uint32_t*>(sources_there.get())},
             static_cast<const std::byte*>(from_there.get()), static_cast<std::byte*>(to_there.get()));
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    const std::vector<std::byte> got = fetched(to_there.get(), (rows + 1) * length * sizeof(T));
    bool right = true;
    for (std::uint64_t row = 0; row < rows; ++row)
      for (std::uint64_t i = 0; i < length; ++i) {
        std::vector<std::uint64_t> at;
        for (std::uint32_t k = first[row]; k < first[row + 1]; ++k) at.push_back(sources[k] * length + i);
        const T wanted = sum_here(from, at);
        right = right && std::memcmp(&wanted, got.data() + ((row + 1) * length + i) * sizeof(T), sizeof(T)) == 0;
      }
    expect(right, "sums of rows of " + std::to_string(length) + " " + std::string(name_of(type)));
  }
}

// ---- device-initiated collectives, whose ranks are streams of one device

class PeersHere {
 public:
  static constexpr int ranks = 3;
  static constexpr std::uint64_t front = peer_flags_bytes;

  explicit PeersHere(std::uint64_t bytes) : stop_(make_pinned_memory(sizeof(unsigned))), bytes_(bytes) {
    *static_cast<unsigned*>(stop_.get()) = 0;
    void* stop_there = nullptr;
    check(cudaHostGetDevicePointer(&stop_there, stop_.get(), 0), "cudaHostGetDevicePointer");
    for (int rank = 0; rank < ranks; ++rank) {
      streams_.push_back(make_stream());
      memory_.push_back(make_device_memory(front + bytes));
      check(cudaMemsetAsync(memory_.back().get(), 0, front + bytes, streams_.back().get()), "cudaMemsetAsync");
    }
    for (int rank = 0; rank < ranks; ++rank) {
      PeerMemory& peers = peers_.emplace_back();
      peers.rank = rank;
      peers.ranks = ranks;
      peers.stop = static_cast<const unsigned*>(stop_there);
      for (std::size_t i = 0; i < memory_.size(); ++i) peers.at[i] = at(i, 0);
    }
    wait();
  }

  std::byte* at(std::size_t rank, std::uint64_t offset) const {
    return static_cast<std::byte*>(memory_[rank].get()) + offset;
  }
  // Calls action(stream, peers) for each rank.
  template <class Action>
  void each(Action action) {
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) action(streams_[rank].get(), peers_[rank]);
    wait();
  }
  void stop() { *static_cast<volatile unsigned*>(stop_.get()) = 1; }
  std::vector<std::byte> content(std::size_t rank) const { return fetched(at(rank, front), bytes_); }

 private:
  void wait() {
    for (const Stream& each : streams_) check(cudaStreamSynchronize(each.get()), "cudaStreamSynchronize");
  }

  std::vector<Stream> streams_;
  std::vector<DeviceMemory> memory_;
  std::vector<PeerMemory> peers_;
  PinnedMemory stop_;
  std::uint64_t bytes_;
};

// `shift`: elements by which the buffers begin after an aligned address. Several operations, so that a barrier that one
// of them leaves early shows.
template <class T>
void check_reduced(DataType type, ReduceOp op, bool one_shot, std::uint64_t count, std::uint64_t shift) {
  const std::uint64_t room = (count + shift + 15) / 16 * 16 * sizeof(T);
  PeersHere peers(2 * room);
  const Pattern pattern{.seed = 31, .ranks = PeersHere::ranks, .reduces = true, .op = op};
  const PeerBuffers buffers{PeersHere::front + shift * sizeof(T), PeersHere::front + room + shift * sizeof(T)};
  for (int operation = 0; operation < 3; ++operation)
    peers.each([&](cudaStream_t stream, const PeerMemory& of) {
      fill(stream, type, peers.at(static_cast<std::size_t>(of.rank), buffers.input), count, pattern, of.rank);
      reduce_from_peers(stream, of, buffers, type, op, count, one_shot);
    });
  bool right = true;
  for (std::size_t rank = 0; rank < PeersHere::ranks; ++rank) {
    const std::vector<std::byte> content = peers.content(rank);
    const auto* const got = reinterpret_cast<const T*>(content.data() + room) + shift;
    for (std::uint64_t i = 0; i < count; ++i)
      right = right && distance_in_units<T>(reduced_element<T>(pattern, i), got[i]) <= tolerance<T>(pattern);
  }
  expect(right, std::string(one_shot ? "one-shot " : "two-shot ") + std::string(name_of(op)) + " of " +
                    std::to_string(count) + " " + std::string(name_of(type)) + " among peers");
}

void check_exchanged(std::uint64_t block, std::uint64_t shift) {
  const std::uint64_t room = (PeersHere::ranks * block + shift + 15) / 16 * 16;
  PeersHere peers(2 * room);
  const Pattern pattern{.seed = 37, .ranks = PeersHere::ranks};
  const PeerBuffers buffers{PeersHere::front + shift, PeersHere::front + room + shift};
  peers.each([&](cudaStream_t stream, const PeerMemory& of) {
    fill(stream, DataType::uint8, peers.at(static_cast<std::size_t>(of.rank), buffers.input), PeersHere::ranks * block,
         pattern, of.rank);
    store_to_peers(stream, of, buffers, block);
  });
  bool right = true;
  for (std::uint64_t rank = 0; rank < PeersHere::ranks; ++rank) {
    const std::vector<std::byte> got = peers.content(rank);
    for (std::uint64_t i = 0; i < PeersHere::ranks * block; ++i)
      right = right && std::to_integer<std::uint8_t>(got[room + shift + i]) ==
                           input_element<std::uint8_t>(pattern, static_cast<int>(i / block), rank * block + i % block);
  }
  expect(right, "blocks of " + std::to_string(block) + " bytes that peers store");
}

// A kernel whose peers never come ends when it is told to.
void check_stopped() {
  PeersHere peers(64);
  peers.stop();
  peers.each([&](cudaStream_t stream, const PeerMemory& of) {
    if (of.rank == 0) store_to_peers(stream, of, {PeersHere::front, PeersHere::front + 32}, 8);
  });
}

}  // namespace

// This must precede the destruction of the runtime.
extern "C" cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                                        cudaStream_t stream) {
  using Launch = cudaError_t (*)(const void*, dim3, dim3, void**, std::size_t, cudaStream_t);
  static const auto launch = reinterpret_cast<Launch>(dlsym(RTLD_NEXT, "cudaLaunchKernel"));
  ++launches;
  return launch(kernel, grid, block, arguments, shared, stream);
}

int main() {
  register_twins();
  check(cudaSetDevice(0), "cudaSetDevice");
  const Stream stream = make_stream();
  std::mt19937 random(20261121);
  int checked = 0;
  for (std::size_t number = 0; number < data_type_names().size(); ++number) {
    const auto type = static_cast<DataType>(number);
    const auto with = [&](const Pattern& pattern, std::string_view what) {
      const std::string name = std::string(name_of(type)) + " " + std::string(what);
      with_type(type, [&]<class T>() { check_type<T>(stream.get(), type, pattern, name, random); });
      ++checked;
    };
    with({.seed = 17 + number, .ranks = 4}, "copied");
    for (const ReduceOp operation :
         {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg, ReduceOp::mulsum})
      with({.seed = 23 + number, .ranks = 4, .reduces = true, .op = operation}, name_of(operation));
  }
  for (std::size_t number = 0; number < data_type_names().size(); ++number) {
    const auto type = static_cast<DataType>(number);
    with_type(type, [&]<class T>() {
      check_rows<T>(stream.get(), type, random);
      for (const ReduceOp op :
           {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg, ReduceOp::mulsum})
        for (const bool one_shot : {true, false}) {
          check_reduced<T>(type, op, one_shot, 1, 0);
          check_reduced<T>(type, op, one_shot, on_fakes ? 2'003 : 20'003, 0);
          check_reduced<T>(type, op, one_shot, 1003, 1);
        }
    });
  }
  for (const std::uint64_t block : {1, 16, 1024 * 48, 1003, 1002 * 2, 1001 * 4}) {
    check_exchanged(block, 0);
    check_exchanged(block, 3);
  }
  check_stopped();
  check_guarded(stream.get());
  std::printf("%d types and operations, %d differences\n", checked, differences);
  return differences == 0 ? 0 : 1;
}
