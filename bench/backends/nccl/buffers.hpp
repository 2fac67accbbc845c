// Buffers of one case in device memory: slots with guards at both ends, filled with a Pattern and checked element by
// element on the device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/backends/nccl/engine.hpp"
#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/kernels.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"
#include "bench/model/expected.hpp"

namespace p5::nccl {

// Layout of the buffers: all inputs, then all outputs; in place only outputs, which contain the inputs. Depends only on
// the case and agreed values, so all ranks have the same number of slots.
struct Layout {
  std::uint64_t input_bytes = 0, output_bytes = 0;    // per buffer
  std::uint64_t input_stride = 0, output_stride = 0;  // including guards; input_stride is 0 in place
  std::uint64_t front = 0;                            // guard before each buffer
  int slots = 1;
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(slots) * (input_stride + output_stride); }
};
Layout layout_of(const Case& c, std::uint64_t usable_memory);

// The slots of successive operations, each the next one, wrapping round.
struct SlotsInTurn {
  int slots = 1;
  int next = 0;
  int first = 0, count = 0;  // those that the operations of the last take() wrote last

  // Takes the slots of so many operations, and returns that of the first one.
  int take(int operations) {
    const int start = next;
    count = std::min(operations, slots);
    first = (start + operations - count) % slots;
    next = (start + operations) % slots;
    return start;
  }
};

class Buffers {
 public:
  // `memory` has layout.bytes().
  Buffers(const Case& c, const Layout& layout, std::byte* memory, Queue& queue);

  int slots() const { return layout_.slots; }
  // The whole memory, for registration.
  std::byte* memory() const { return memory_; }
  std::uint64_t bytes() const { return layout_.bytes(); }
  std::byte* input(int slot, const RankInGroup& place) const;
  std::byte* output(int slot, const RankInGroup& place) const;

  // Fills inputs of slots [0, count), different for each fill number; poisons outputs unless in place; renews all
  // guards.
  void fill(const RankInGroup& place, int round, std::uint64_t fill, int count);
  // Poisons the outputs of `count` slots from `first`, wrapping round.
  void poison(int first, int count);
  // Checks the same outputs against fill number `fill`, and all guards.
  Verification check(const RankInGroup& place, int round, std::uint64_t fill, int first, int count);

 private:
  std::byte* output_memory(int slot) const;
  // Result of the last check per slot and for the guards, and the first wrong byte or element.
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
  std::size_t most_segments_ = 0;  // capacity of segments_
  PinnedMemory staging_;
};

}  // namespace p5::nccl
