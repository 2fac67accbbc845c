// The input and output buffers of one case in device memory: a number of slots, each guarded at both ends, filled with
// a Pattern and checked element by element on the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/kernels.hpp"
#include "bench/backends/nccl/queue.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"
#include "bench/model/expected.hpp"

namespace p5::nccl {

// Where the buffers lie: all inputs, then all outputs. In place there are only outputs, with the inputs in them. A rule
// of the case and of what all ranks agree on, so that all have the same number of slots.
struct Layout {
  std::uint64_t input_bytes = 0, output_bytes = 0;    // of one buffer
  std::uint64_t input_stride = 0, output_stride = 0;  // with guards; input_stride is 0 in place
  int slots = 1;
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(slots) * (input_stride + output_stride); }
};
Layout layout_of(const Case& c, std::uint64_t usable_memory);

class Buffers {
 public:
  // `memory` holds layout.bytes().
  Buffers(const Case& c, const Layout& layout, std::byte* memory, Queue& queue);

  int slots() const { return layout_.slots; }
  // All of them, for NCCL to know.
  std::byte* memory() const { return memory_; }
  std::uint64_t bytes() const { return layout_.bytes(); }
  std::byte* input(int slot, const RankInGroup& place) const;
  std::byte* output(int slot, const RankInGroup& place) const;

  // New inputs in slots [0, count), different for each number of the fill, outputs poisoned out of place, all guards
  // renewed.
  void fill(const RankInGroup& place, int round, std::uint64_t fill, int count);
  // The outputs of `count` slots from `first` on, wrapping round.
  void poison(int first, int count);
  // The same outputs, filled by fill number `fill`, and all guards.
  Verification check(const RankInGroup& place, int round, std::uint64_t fill, int first, int count);

 private:
  std::byte* output_memory(int slot) const;
  // What the last check of one slot, or of all guards, found; where its first wrong byte or element can be read.
  struct Staging {
    static constexpr std::size_t most_slots = 64;
    Mismatches found[most_slots];
    std::byte element[16];
  };
  GuardedBuffers inputs() const;
  GuardedBuffers outputs() const;
  Staging& staging() const { return *static_cast<Staging*>(staging_.get()); }
  const NumberedSegment* on_device(const std::vector<NumberedSegment>& segments);
  const std::byte* fetch(const std::byte* at, std::size_t bytes);
  void add_elements(Verification& v, const RankInGroup& place, const Pattern& pattern, int slot,
                    const Mismatches& found);
  void add_guards(Verification& v, const RankInGroup& place, const GuardedBuffers& buffers, const Mismatches& found);

  const Case& case_;
  Layout layout_;
  std::byte* memory_;
  Queue& queue_;
  DeviceMemory found_, segments_;
  std::size_t most_segments_ = 0;  // that segments_ has room for
  PinnedMemory staging_;
};

}  // namespace p5::nccl
