// Buffers of one rank in host memory: filled with a Pattern, guarded at both ends, checked element by element. Shared
// by the backends that move host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"
#include "bench/model/expected.hpp"

namespace p5 {

// Number of distinct buffers for a case: as many as fit `pool`, from one to `most`. Depends on the case alone, so it is
// equal on all ranks.
int slots_for(const Case& c, Bytes pool, int most);

// Bytes that HostBuffers allocates for a case with that many slots.
Bytes host_memory(const Case& c, int slots);

class HostBuffers {
 public:
  // In place, a slot has a single buffer for input and output.
  HostBuffers(const Case& c, int slots);

  int slots() const { return slots_; }
  std::byte* input(int slot, const RankInGroup& place) const;
  std::byte* output(int slot, const RankInGroup& place) const;
  // All memory, with the guards, in blocks: for those that keep the same elsewhere.
  std::vector<std::span<std::byte>> blocks() const;

  // Fills inputs with new data and poisons outputs. Collective within the group.
  void fill(const RankInGroup& place, int round);
  void poison_outputs();
  // Checks the outputs of `count` slots from `first`, wrapping round, and all guards.
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
  std::size_t front_ = 0;  // bytes of the guard before a buffer
  std::uint64_t fills_ = 0;
  int round_ = 0;
  std::vector<Block> inputs_, outputs_;
};

}  // namespace p5
