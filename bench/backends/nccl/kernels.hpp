// The worker's own kernels: filling buffers, comparing results, and a gate that delays a stream. Their bodies are per
// element, so that the same code runs on the host in tests without a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/model/collective.hpp"
#include "bench/model/data_type.hpp"
#include "bench/model/pattern.hpp"

namespace p5::nccl {

// Result of a comparison, in device memory. `lowest` is the smallest wrong index.
struct Mismatches {
  unsigned long long wrong = 0;
  unsigned long long lowest = ~0ull;
};

// Buffers at equal distances with guard bytes: `front` bytes before each, and behind it up to the end of the stride.
struct GuardedBuffers {
  std::byte* memory = nullptr;  // start of the first front guard
  std::uint64_t buffers = 0;
  std::uint64_t stride = 0;
  std::uint64_t front = 0;
  std::uint64_t bytes = 0;  // per buffer, without guards

  constexpr std::uint64_t guard_bytes() const { return stride - bytes; }
  // Position in memory of byte `i` of all guards.
  constexpr std::uint64_t position(std::uint64_t i) const {
    const std::uint64_t within = i % guard_bytes();
    return i / guard_bytes() * stride + (within < front ? within : within + bytes);
  }
};
inline constexpr unsigned char guard_value = 0xdb;
inline constexpr unsigned char poison_value = 0xa5;

// Segments of an output with consecutively numbered elements, so that one kernel checks all of them. Those that are
// added to the one before them have its numbers.
struct NumberedSegment {
  std::uint64_t begin = 0;  // number of the first element
  Segment segment;
};
std::vector<NumberedSegment> number_elements(const std::vector<Segment>& segments);

// Outputs with the same segments and different patterns.
struct Outputs {
  static constexpr int most = 32;
  int count = 0;
  std::array<const std::byte*, most> data{};
  std::array<Pattern, most> patterns{};
  // At least one, in device memory.
  const NumberedSegment* segments = nullptr;
  std::uint64_t segments_count = 0;
  std::uint64_t elements = 0;  // in all segments
};

// The gate's flags, in host memory that the device can address.
struct Gate {
  unsigned open = 0;
  unsigned gave_up = 0;  // the device timed out after gate_patience_ns and continued
};
inline constexpr std::uint64_t gate_patience_ns = 5'000'000'000;

// Rows (collective.hpp) whose numbers are in device memory.
struct DeviceRows {
  std::uint64_t elements = 0, first_row = 0, count = 0;
  const std::uint32_t* first = nullptr;
  const std::uint32_t* sources = nullptr;
};

// All of these functions queue work and return.
void fill(cudaStream_t stream, DataType type, std::byte* input, std::uint64_t elements, const Pattern& pattern,
          int rank);
// Makes each row of `to` the sum of its sources in `from`; both begin at row 0. Sources and rows do not overlap.
void add_rows(cudaStream_t stream, DataType type, const DeviceRows& rows, const std::byte* from, std::byte* to);
// Compares outputs with one kernel, however many segments they have. `found`: one per output; Mismatches::lowest is an
// element of the output.
void compare(cudaStream_t stream, DataType type, const Outputs& outputs, Mismatches* found);
void fill_guards(cudaStream_t stream, const GuardedBuffers& buffers);
// Mismatches::lowest is a byte of all guards together.
void check_guards(cudaStream_t stream, const GuardedBuffers& buffers, Mismatches* found);
// Work queued after it waits until gate->open is set or gate_patience_ns have passed.
void hold_at(cudaStream_t stream, Gate* gate);
// Work queued after it waits for that time, on one thread of the device.
void pause(cudaStream_t stream, std::uint64_t ns);

// The functions below work on 64-bit words at `memory`, whose number is `words`.

// Pseudo-random words by `seed` and position; only the bits of `random_bits` vary, the others are those of
// `fixed_bits`. So operands get random mantissas and signs at a bounded exponent: a device's power depends on its
// operands' bits.
void fill_words(cudaStream_t stream, void* memory, std::uint64_t words, std::uint64_t seed, std::uint64_t random_bits,
                std::uint64_t fixed_bits);
// A pattern that differs at each address and for each `seed`, as cheap as the memory is fast; and its check.
void fill_memory_pattern(cudaStream_t stream, void* memory, std::uint64_t words, std::uint64_t seed);
void check_memory_pattern(cudaStream_t stream, const void* memory, std::uint64_t words, std::uint64_t seed,
                          Mismatches* found);
std::uint64_t memory_pattern(std::uint64_t seed, std::uint64_t word);
// Bit by bit.
void compare_words(cudaStream_t stream, const void* memory, const void* wanted, std::uint64_t words, Mismatches* found);
// Adds a hash of the words and their positions to *sum, in device memory.
void hash_words(cudaStream_t stream, const void* memory, std::uint64_t words, unsigned long long* sum);

// Queues an empty kernel.
void do_nothing(cudaStream_t stream);

// cudaSuccess if this program has code for the current device.
cudaError_t device_code();

// Registers the host version of each kernel with a fake CUDA runtime; no effect with the real one.
void register_twins();

}  // namespace p5::nccl
