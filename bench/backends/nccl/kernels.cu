#include "bench/backends/nccl/kernels.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cuda/atomic>
#include <thread>

#include "bench/backends/nccl/kernel_pieces.cuh"
#include "bench/backends/nccl/peer_kernels.hpp"

namespace p5::nccl {

namespace {

constexpr unsigned block_threads = 256;
constexpr std::uint64_t most_blocks = 4096;  // several blocks per multiprocessor of the largest device

template <class Body>
__global__ void for_each(Body body, std::uint64_t count) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

template <class Body>
void for_each_on_host(void** arguments, unsigned, unsigned) {
  const Body& body = *static_cast<const Body*>(arguments[0]);
  const std::uint64_t count = *static_cast<const std::uint64_t*>(arguments[1]);
  for (std::uint64_t i = 0; i < count; ++i) body(i);
}

__host__ __device__ void note_wrong(Mismatches* found, std::uint64_t index) {
  cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>(found->wrong)
      .fetch_add(1, cuda::memory_order_relaxed);
  cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>(found->lowest)
      .fetch_min(index, cuda::memory_order_relaxed);
}

template <class T>
struct Fill {
  T* data;
  Pattern pattern;
  int rank;
  __host__ __device__ void operator()(std::uint64_t i) const { data[i] = input_element<T>(pattern, rank, i); }
};

template <class T>
struct Compare {
  Outputs outputs;
  Mismatches* found;

  // The segment with element `number`, the last one of those that are added up.
  __host__ __device__ const NumberedSegment& segment_of(std::uint64_t number) const {
    std::uint64_t first = 0, behind = outputs.segments_count;
    while (behind - first > 1) {
      const std::uint64_t middle = (first + behind) / 2;
      (outputs.segments[middle].begin <= number ? first : behind) = middle;
    }
    return outputs.segments[first];
  }

  __host__ __device__ static T contribution(const Pattern& pattern, const Segment& segment, std::uint64_t within) {
    const std::uint64_t source = segment.source_offset + within;
    return segment.source == Segment::reduced ? reduced_element<T>(pattern, source)
                                              : input_element<T>(pattern, segment.source, source);
  }

  __host__ __device__ void operator()(std::uint64_t i) const {
    const std::uint64_t output = i / outputs.elements, number = i % outputs.elements;
    const NumberedSegment* each = &segment_of(number);
    const Pattern& pattern = outputs.patterns[output];
    const std::uint64_t within = number - each->begin, at = each->segment.output_offset + within;
    T wanted = contribution(pattern, each->segment, within);
    for (; each->segment.added; --each)
      wanted = pattern::added(wanted, contribution(pattern, (each - 1)->segment, within));
    const T got = reinterpret_cast<const T*>(outputs.data[output])[at];
    if (distance_in_units<T>(wanted, got) > tolerance<T>(pattern)) note_wrong(found + output, at);
  }
};

// The elements are pieces; a row has `pieces`.
template <class T, int width>
struct AddRows {
  DeviceRows rows;
  std::uint64_t pieces;
  const Piece<T, width>* from;
  Piece<T, width>* to;

  __host__ __device__ void operator()(std::uint64_t i) const {
    const std::uint64_t row = i / pieces, at = i % pieces;
    const std::uint32_t begin = rows.first[row], end = rows.first[row + 1];
    Piece<T, width> piece = from[rows.sources[begin] * pieces + at];
    if (end - begin > 1) {
      SumOf<T> sums[width];
      for (int k = 0; k < width; ++k) sums[k] = widened(piece.values[k]);
      for (std::uint32_t source = begin + 1; source < end; ++source) {
        const Piece<T, width> more = from[rows.sources[source] * pieces + at];
        for (int k = 0; k < width; ++k) sums[k] = pattern::added(sums[k], widened(more.values[k]));
      }
      for (int k = 0; k < width; ++k) piece.values[k] = narrowed<T>(sums[k]);
    }
    to[(rows.first_row + row) * pieces + at] = piece;
  }
};

struct FillGuards {
  GuardedBuffers buffers;
  __host__ __device__ void operator()(std::uint64_t i) const {
    buffers.memory[buffers.position(i)] = std::byte{guard_value};
  }
};

struct CheckGuards {
  GuardedBuffers buffers;
  Mismatches* found;
  __host__ __device__ void operator()(std::uint64_t i) const {
    if (buffers.memory[buffers.position(i)] != std::byte{guard_value}) note_wrong(found, i);
  }
};

struct FillWords {
  std::uint64_t* words;
  std::uint64_t seed, random_bits, fixed_bits;
  __host__ __device__ void operator()(std::uint64_t i) const {
    words[i] = (pattern::hash(seed, 0, i) & random_bits) | fixed_bits;
  }
};

// Odd factors make it a permutation of all words, so that no two addresses have the same.
__host__ __device__ constexpr std::uint64_t pattern_at(std::uint64_t seed, std::uint64_t i) {
  return (i ^ seed) * 0x9e3779b97f4a7c15u;
}

struct FillMemoryPattern {
  std::uint64_t* words;
  std::uint64_t seed;
  __host__ __device__ void operator()(std::uint64_t i) const { words[i] = pattern_at(seed, i); }
};

struct CheckMemoryPattern {
  const std::uint64_t* words;
  std::uint64_t seed;
  Mismatches* found;
  __host__ __device__ void operator()(std::uint64_t i) const {
    if (words[i] != pattern_at(seed, i)) note_wrong(found, i);
  }
};

struct CompareWords {
  const std::uint64_t *words, *wanted;
  Mismatches* found;
  __host__ __device__ void operator()(std::uint64_t i) const {
    if (words[i] != wanted[i]) note_wrong(found, i);
  }
};

struct HashWords {
  const std::uint64_t* words;
  unsigned long long* sum;
  __host__ __device__ void operator()(std::uint64_t i) const {
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>(*sum).fetch_add(pattern::hash(words[i], 0, i),
                                                                                    cuda::memory_order_relaxed);
  }
};

using GateWord = cuda::atomic_ref<unsigned, cuda::thread_scope_system>;

__device__ std::uint64_t device_time_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void gate_kernel(Gate* gate, std::uint64_t patience_ns) {
  const std::uint64_t start = device_time_ns();
  while (GateWord(gate->open).load(cuda::memory_order_relaxed) == 0) {
    if (device_time_ns() - start < patience_ns) continue;
    GateWord(gate->gave_up).store(1, cuda::memory_order_relaxed);
    return;
  }
}

void gate_on_host(void** arguments, unsigned, unsigned) {
  Gate* const gate = *static_cast<Gate**>(arguments[0]);
  const std::chrono::nanoseconds patience(*static_cast<const std::uint64_t*>(arguments[1]));
  const auto start = std::chrono::steady_clock::now();
  while (GateWord(gate->open).load(cuda::memory_order_relaxed) == 0) {
    if (std::chrono::steady_clock::now() - start < patience) continue;
    GateWord(gate->gave_up).store(1, cuda::memory_order_relaxed);
    return;
  }
}

__global__ void pause_kernel(std::uint64_t ns) {
  const std::uint64_t start = device_time_ns();
  while (device_time_ns() - start < ns) {
  }
}

void pause_on_host(void** arguments, unsigned, unsigned) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(*static_cast<const std::uint64_t*>(arguments[0])));
}

__global__ void empty_kernel() {}
void empty_on_host(void**, unsigned, unsigned) {}

template <class Body>
void run(cudaStream_t stream, Body body, std::uint64_t count) {
  if (count == 0) return;
  const std::uint64_t blocks = std::min(most_blocks, (count + block_threads - 1) / block_threads);
  void* arguments[] = {&body, &count};
  launch(reinterpret_cast<const void*>(&for_each<Body>), static_cast<unsigned>(blocks), block_threads, arguments,
         stream);
}

template <class Body>
void register_body(RegisterTwin with) {
  const std::array<unsigned, 2> sizes{sizeof(Body), sizeof(std::uint64_t)};
  with(reinterpret_cast<const void*>(&for_each<Body>), &for_each_on_host<Body>, sizes.data(), 2);
}

}  // namespace

void fill(cudaStream_t stream, DataType type, std::byte* input, std::uint64_t elements, const Pattern& pattern,
          int rank) {
  with_type(type, [&]<class T>() { run(stream, Fill<T>{reinterpret_cast<T*>(input), pattern, rank}, elements); });
}

std::vector<NumberedSegment> number_elements(const std::vector<Segment>& segments) {
  std::vector<NumberedSegment> numbered;
  std::uint64_t begin = 0, end = 0;
  for (const Segment& segment : segments) {
    if (!segment.added) begin = end;
    if (segment.elements > 0) numbered.push_back({begin, segment});
    end = begin + segment.elements;
  }
  return numbered;
}

template <class T, int width>
static void add_pieces(cudaStream_t stream, const DeviceRows& rows, const std::byte* from, std::byte* to) {
  const std::uint64_t pieces = rows.elements / width;
  run(stream,
      AddRows<T, width>{rows, pieces, reinterpret_cast<const Piece<T, width>*>(from),
                        reinterpret_cast<Piece<T, width>*>(to)},
      rows.count * pieces);
}

// Pieces of 16 bytes where rows consist of them and begin at their multiples.
void add_rows(cudaStream_t stream, DataType type, const DeviceRows& rows, const std::byte* from, std::byte* to) {
  with_type(type, [&]<class T>() {
    const auto begins_at_a_piece = [](const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
    if (rows.elements % widest<T> == 0 && begins_at_a_piece(from) && begins_at_a_piece(to))
      add_pieces<T, widest<T>>(stream, rows, from, to);
    else
      add_pieces<T, 1>(stream, rows, from, to);
  });
}

void compare(cudaStream_t stream, DataType type, const Outputs& outputs, Mismatches* found) {
  with_type(type, [&]<class T>() {
    run(stream, Compare<T>{outputs, found}, static_cast<std::uint64_t>(outputs.count) * outputs.elements);
  });
}

void fill_guards(cudaStream_t stream, const GuardedBuffers& buffers) {
  run(stream, FillGuards{buffers}, buffers.buffers * buffers.guard_bytes());
}

void check_guards(cudaStream_t stream, const GuardedBuffers& buffers, Mismatches* found) {
  run(stream, CheckGuards{buffers, found}, buffers.buffers * buffers.guard_bytes());
}

void fill_words(cudaStream_t stream, void* memory, std::uint64_t words, std::uint64_t seed, std::uint64_t random_bits,
                std::uint64_t fixed_bits) {
  run(stream, FillWords{static_cast<std::uint64_t*>(memory), seed, random_bits, fixed_bits}, words);
}

void fill_memory_pattern(cudaStream_t stream, void* memory, std::uint64_t words, std::uint64_t seed) {
  run(stream, FillMemoryPattern{static_cast<std::uint64_t*>(memory), seed}, words);
}

void check_memory_pattern(cudaStream_t stream, const void* memory, std::uint64_t words, std::uint64_t seed,
                          Mismatches* found) {
  run(stream, CheckMemoryPattern{static_cast<const std::uint64_t*>(memory), seed, found}, words);
}

std::uint64_t memory_pattern(std::uint64_t seed, std::uint64_t word) { return pattern_at(seed, word); }

void compare_words(cudaStream_t stream, const void* memory, const void* wanted, std::uint64_t words,
                   Mismatches* found) {
  run(stream, CompareWords{static_cast<const std::uint64_t*>(memory), static_cast<const std::uint64_t*>(wanted), found},
      words);
}

void hash_words(cudaStream_t stream, const void* memory, std::uint64_t words, unsigned long long* sum) {
  run(stream, HashWords{static_cast<const std::uint64_t*>(memory), sum}, words);
}

void hold_at(cudaStream_t stream, Gate* gate) {
  std::uint64_t patience_ns = gate_patience_ns;
  void* arguments[] = {&gate, &patience_ns};
  launch(reinterpret_cast<const void*>(&gate_kernel), 1, 1, arguments, stream);
}

void pause(cudaStream_t stream, std::uint64_t ns) {
  void* arguments[] = {&ns};
  launch(reinterpret_cast<const void*>(&pause_kernel), 1, 1, arguments, stream);
}

void do_nothing(cudaStream_t stream) { launch(reinterpret_cast<const void*>(&empty_kernel), 1, 1, nullptr, stream); }

cudaError_t device_code() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&empty_kernel));
}

void register_twins() {
  const auto with = reinterpret_cast<RegisterTwin>(dlsym(RTLD_DEFAULT, "p5bench_fake_register_twin"));
  if (!with) return;
  for (std::size_t type = 0; type < data_type_names().size(); ++type)
    with_type(static_cast<DataType>(type), [&]<class T>() {
      register_body<Fill<T>>(with);
      register_body<Compare<T>>(with);
      register_body<AddRows<T, 1>>(with);
      register_body<AddRows<T, widest<T>>>(with);
    });
  register_body<FillGuards>(with);
  register_body<CheckGuards>(with);
  register_body<FillWords>(with);
  register_body<FillMemoryPattern>(with);
  register_body<CheckMemoryPattern>(with);
  register_body<CompareWords>(with);
  register_body<HashWords>(with);
  const std::array<unsigned, 2> sizes{sizeof(Gate*), sizeof(std::uint64_t)};
  with(reinterpret_cast<const void*>(&gate_kernel), &gate_on_host, sizes.data(), 2);
  with(reinterpret_cast<const void*>(&pause_kernel), &pause_on_host, &sizes[1], 1);
  with(reinterpret_cast<const void*>(&empty_kernel), &empty_on_host, nullptr, 0);
  register_peer_twins();
}

}  // namespace p5::nccl
