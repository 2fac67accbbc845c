// Input and output buffers of one rank in host memory: filled with a Pattern, guarded at both ends, checked element by
// element. The backends that move host memory share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"
#include "bench/model/expected.hpp"

namespace p5 {

// Distinct buffers for a case: as many as fit `pool`, at most `most`, at least one. A rule of the case alone.
int slots_for(const Case& c, Bytes pool, int most);

// Bytes that HostBuffers takes for a case with that many slots.
Bytes host_memory(const Case& c, int slots);

class HostBuffers {
 public:
  // In place, a slot has one buffer with both input and output in it.
  HostBuffers(const Case& c, int slots);

  int slots() const { return slots_; }
  std::byte* input(int slot, const RankInGroup& place) const;
  std::byte* output(int slot, const RankInGroup& place) const;

  // New data for a round, different in each fill; outputs poisoned. All ranks of the group fill together.
  void fill(const RankInGroup& place, int round);
  void poison_outputs();
  // The outputs of `count` slots from `first` on, wrapping round, and all guards.
  Verification check(const RankInGroup& place, int first, int count) const;

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  using Block = std::unique_ptr<std::byte, Free>;

  std::byte* output_memory(int slot) const;
  void check_guards(const Block& block, std::size_t bytes, int rank, Verification& v) const;

  Case case_;
  int slots_ = 1;
  std::size_t input_bytes_ = 0, output_bytes_ = 0;
  std::uint64_t fills_ = 0;
  int round_ = 0;
  std::vector<Block> inputs_, outputs_;
};

}  // namespace p5
