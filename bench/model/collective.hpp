// Description of a collective: bytes moved, bus factor, source of each part of a result. Backends run it; nothing here
// does. A new collective is an entry of collectives.cpp and a row in its table.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/route.hpp"
#include "bench/base/units.hpp"
#include "bench/model/data_type.hpp"

namespace p5 {

struct MatrixTraffic;

// Elements of one rank's input and output, and the bytes that the message size counts.
struct Shape {
  std::uint64_t input_elements = 0;
  std::uint64_t output_elements = 0;
  // The message, which algorithm bandwidth divides by time. For collectives that NCCL passes to tuners it is also
  // NCCL's size: the larger of one rank's input and output.
  Bytes bytes;
  Bytes bytes_per_rank;  // one rank's share where ranks share the message, else all of it
  // Blocks by a matrix (traffic.hpp): elements of its busiest rank before blocks are rounded up, and the elements to
  // whose multiples they are aligned; null: the collective's own blocks.
  std::shared_ptr<const MatrixTraffic> traffic = nullptr;
  std::uint64_t traffic_elements = 0, traffic_alignment = 1;
  // Collectives of tokens (tokens.hpp) only: tokens of each rank, elements of a token, and elements of the output
  // before its workspace; 0 elsewhere.
  std::uint64_t tokens = 0, hidden = 0, workspace = 0;
};

// A rank within the group that performs the operation.
struct Member {
  int rank = 0;   // 0 .. ranks-1, within the group
  int ranks = 1;  // group size
  int root = 0;   // within the group
};

// Neighbours of a member in the ring of its group; a single member is both.
constexpr int previous_in_ring(Member member) { return (member.rank + member.ranks - 1) % member.ranks; }
constexpr int next_in_ring(Member member) { return (member.rank + 1) % member.ranks; }

// Consecutive output elements that are copies of a rank's input, or the reduction over all ranks' inputs.
struct Segment {
  std::uint64_t output_offset = 0;  // elements
  std::uint64_t elements = 0;
  int source = reduced;  // a rank of the group, or `reduced`
  std::uint64_t source_offset = 0;
  bool added = false;  // to the segment before it, which has the same elements: the output is their sum
  static constexpr int reduced = -1;
};

// In place, input and output share one buffer, as long as the longer of them, and begin at these elements.
struct InPlaceOffset {
  std::uint64_t input = 0, output = 0;
};

// The block that one member sends another: elements, with offsets in the sender's input (its output, where it packs the
// blocks there) and the receiver's output.
struct Block {
  std::uint64_t elements = 0, input_offset = 0, output_offset = 0;
};

// Work of a rank on rows of equal length in its own memory: each row of the output, from `first_row` on, becomes the
// sum of its sources. Row i has the sources from first[i] up to first[i + 1].
struct Rows {
  std::uint64_t elements = 0;  // of a row
  std::uint64_t first_row = 0;
  std::vector<std::uint32_t> first = {};
  std::vector<std::uint32_t> sources = {};

  std::uint64_t count() const { return first.empty() ? 0 : first.size() - 1; }
};

struct Collective {
  std::string_view name;
  std::string_view summary;
  bool reduces = false;        // takes a reduction operation
  bool rooted = false;         // takes a root
  bool pairwise = false;       // performed by pairs of ranks, in rounds; others by the whole group
  bool powers_of_two = false;  // only for groups of 1, 2, 4, 8, ... ranks
  bool chained = false;        // its steps wait for one another
  bool moves_data = true;      // false: its patterns are steps with a duration, without a rate and without results
  bool of_tokens = false;      // moves tokens by a routing (tokens.hpp), without which it has no meaning
  bool replays = false;        // performs the operations of Case::replay
  // Kernels of p5bench perform it, which load from and store into the memory of the group's other GPUs (NCCL's
  // load/store accessible memory, LSA). Its groups lie within NVLink domains, and NCCL chooses nothing.
  bool device_initiated = false;
  Route route = Route::ring;
  DataType usual_type = DataType::float32;  // unless --type names others
  std::vector<std::string> patterns = {};   // variants that are separate cases; empty: only one

  // Shape for a message of `size` bytes (all ranks' bytes; one rank's with per_rank) in elements of `element` bytes.
  // Where ranks share the message it is rounded up to the same number of elements, at least one, for each rank.
  Shape (*shape)(Bytes size, bool per_rank, std::size_t element, int ranks) = nullptr;

  // Shape for blocks by a matrix (--traffic), of which the busiest rank sends or receives `size` bytes. Null: blocks
  // follow none.
  Shape (*by_traffic)(std::shared_ptr<const MatrixTraffic> traffic, Bytes size, std::size_t element) = nullptr;

  // Bus bandwidth = algorithm bandwidth * factor, as in nccl-tests, doc/PERFORMANCE.md.
  double (*bus_factor)(int ranks) = nullptr;

  // Sequential message hops of a ring implementation, by which the simulator multiplies the latency.
  int (*steps)(int ranks) = nullptr;

  // Sources of a member's output; no segment where a member receives nothing.
  std::vector<Segment> (*result)(const Shape& shape, Member member, std::string_view pattern) = nullptr;

  // The block that `from` sends `to`, if the collective only exchanges blocks; else null. Both have the same root.
  Block (*block)(const Shape& shape, Member from, Member to) = nullptr;

  // packs: rows that a rank copies from its input to its output, from which blocks are then sent; null: blocks are sent
  // from the input. sums: rows of its output that a rank adds up after it has received the blocks; null: the received
  // blocks are the result.
  Rows (*packs)(const Shape& shape, Member member) = nullptr;
  Rows (*sums)(const Shape& shape, Member member) = nullptr;

  // Null: the collective has no in-place form. In-place forms are those of nccl-tests (NCCL's documentation of each
  // call).
  InPlaceOffset (*in_place_offset)(const Shape& shape, Member member) = nullptr;

  // True if several operations can be one group of NCCL's, in which all sends and receives run at the same time.
  bool fits_a_group(std::string_view pattern = "") const {
    return moves_data && !chained && !replays && !device_initiated && pattern != "ping_pong";
  }
};

// Elements of the shared buffer in place.
constexpr std::uint64_t in_place_elements(const Shape& shape) {
  return shape.input_elements > shape.output_elements ? shape.input_elements : shape.output_elements;
}

// All collectives that can be chosen, in listing order: all but job_step.
std::span<const Collective* const> collectives();
std::vector<std::string> collective_names();
// Looks up a name of p5bench or nccl-tests, including nccl-tests' programs: "all_to_all", "alltoall", "alltoall_perf",
// "alltoall_perf_mpi". Null when there is none.
const Collective* try_find_collective(std::string_view name);
// The same; throws UsageError that suggests the nearest name.
const Collective& find_collective(std::string_view name);
bool is_device_initiated(std::string_view name);
// "alltoall"; "" where nccl-tests has no such program.
std::string_view name_in_nccl_tests(const Collective& collective);

extern const Collective p2p;
extern const Collective all_reduce;
extern const Collective all_gather;
extern const Collective reduce_scatter;
extern const Collective broadcast;
extern const Collective reduce;
extern const Collective all_to_all;
extern const Collective all_to_allv;
extern const Collective dispatch;
extern const Collective combine;
extern const Collective gather;
extern const Collective scatter;
extern const Collective send_recv;
extern const Collective hypercube;
extern const Collective lsa_all_reduce;
extern const Collective lsa_all_to_all;
extern const Collective communicator;
extern const Collective job_step;

}  // namespace p5
