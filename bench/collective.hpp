// A collective as a description: how many bytes move, how bandwidth is counted, where each part of a result comes from.
// Backends know how to run it; nothing here does. A new one is one file in collectives/ and a row in collectives.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/data_type.hpp"
#include "bench/units.hpp"

namespace p5 {

// Elements of one rank's input and output, and the bytes that the message size counts.
struct Shape {
  std::uint64_t input_elements = 0;
  std::uint64_t output_elements = 0;
  Bytes bytes;           // the message: what the algorithm bandwidth divides by time
  Bytes bytes_per_rank;  // what one rank brings
};

// The place of a rank in the group that performs the operation together.
struct Member {
  int rank = 0;   // 0 .. ranks-1, within the group
  int ranks = 1;  // group size
  int root = 0;
};

// A run of output elements that are copies of a rank's input, or the reduction over all ranks' inputs.
struct Segment {
  std::uint64_t output_offset = 0;  // elements
  std::uint64_t elements = 0;
  int source = reduced;  // a rank of the group, or `reduced`
  std::uint64_t source_offset = 0;
  static constexpr int reduced = -1;
};

struct Collective {
  std::string_view name;
  std::string_view summary;
  bool reduces = false;               // takes a reduction operation
  bool rooted = false;                // takes a root
  bool pairwise = false;              // performed by pairs of ranks, in rounds; the others by the whole group
  std::vector<std::string> patterns;  // kinds of traffic that are separate cases; empty: only one

  // Shape for a message of `size` bytes (all ranks' bytes; one rank's with per_rank) of `element` bytes each. Where
  // ranks share the message it is rounded up to the same number of elements, at least one, for each rank.
  Shape (*shape)(Bytes size, bool per_rank, std::size_t element, int ranks) = nullptr;

  // Bus bandwidth = algorithm bandwidth * factor. Definition: nccl-tests, doc/PERFORMANCE.md.
  double (*bus_factor)(int ranks) = nullptr;

  // Sequential message hops of a ring implementation: what the simulator multiplies the latency by.
  int (*steps)(int ranks) = nullptr;

  // Where the output of a member comes from; no segment where a member receives nothing.
  std::vector<Segment> (*result)(const Shape& shape, Member member, std::string_view pattern) = nullptr;

  // In place, the input lies in the output buffer at this element. Null: the collective has no in-place form.
  std::uint64_t (*in_place_offset)(const Shape& shape, Member member) = nullptr;
};

// All collectives, in the order in which they are listed.
std::span<const Collective* const> collectives();
std::vector<std::string> collective_names();
// Throws UsageError with the nearest name.
const Collective& find_collective(std::string_view name);

// One per file in collectives/.
extern const Collective p2p;
extern const Collective all_reduce;
extern const Collective all_gather;

}  // namespace p5
