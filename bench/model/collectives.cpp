// The collectives and their table: shapes, bus factors, steps of a ring implementation, and sources of each result.
#include "bench/model/collective.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/model/tokens.hpp"
#include "bench/model/traffic.hpp"

namespace p5 {

namespace {

using std::uint64_t;

// --- shapes

// The message is the buffer of one rank.
Shape undivided(Bytes size, bool /*per_rank*/, std::size_t element, int /*ranks*/) {
  const uint64_t count = (size.count + element - 1) / element;
  return {count, count, {count * element}, {count * element}};
}

// The message is divided into equal shares, one for each rank, of at least one element. A buffer has one share or all.
enum class Buffer { share, whole };
template <Buffer input, Buffer output>
Shape divided(Bytes size, bool per_rank, std::size_t element, int ranks) {
  const auto n = static_cast<uint64_t>(ranks);
  const uint64_t share = ((per_rank ? size.count : (size.count + n - 1) / n) + element - 1) / element;
  const uint64_t all = share * n;
  return {
      input == Buffer::whole ? all : share, output == Buffer::whole ? all : share, {all * element}, {share * element}};
}
constexpr auto shares_to_whole = divided<Buffer::share, Buffer::whole>;
constexpr auto whole_to_shares = divided<Buffer::whole, Buffer::share>;
constexpr auto whole_to_whole = divided<Buffer::whole, Buffer::whole>;

// --- bus factors

double unit_factor(int) { return 1.0; }
// One of n parts stays on its rank.
double remote_parts(int ranks) { return static_cast<double>(ranks - 1) / ranks; }
// Each rank sends and receives at least 2(n-1)/n of the message.
double all_reduce_factor(int ranks) { return 2 * remote_parts(ranks); }

// --- steps

int one_step(int) { return 1; }
int ring_steps(int ranks) { return ranks - 1; }
int all_reduce_steps(int ranks) { return 2 * (ranks - 1); }
int hypercube_steps(int ranks) {
  int count = 0;
  while (1 << count < ranks) ++count;
  return count;
}

// --- results

std::vector<Segment> no_result(const Shape&, Member, std::string_view) { return {}; }

std::vector<Segment> all_inputs(const Shape& shape, Member member, std::string_view) {
  std::vector<Segment> segments;
  for (int rank = 0; rank < member.ranks; ++rank)
    segments.push_back({static_cast<uint64_t>(rank) * shape.input_elements, shape.input_elements, rank, 0});
  return segments;
}

// The result of a collective that exchanges blocks.
template <Block (*block)(const Shape& shape, Member from, Member to)>
std::vector<Segment> received_blocks(const Shape& shape, Member member, std::string_view) {
  std::vector<Segment> segments;
  for (Member from{.rank = 0, .ranks = member.ranks, .root = member.root}; from.rank < member.ranks; ++from.rank) {
    const Block received = block(shape, from, member);
    if (received.elements > 0)
      segments.push_back({received.output_offset, received.elements, from.rank, received.input_offset});
  }
  return segments;
}

std::vector<Segment> p2p_result(const Shape& shape, Member member, std::string_view pattern) {
  if (member.rank == 0 && pattern == "one_way") return {};
  return {{0, shape.output_elements, 1 - member.rank, 0}};
}

std::vector<Segment> send_recv_result(const Shape& shape, Member member, std::string_view) {
  return {{0, shape.output_elements, previous_in_ring(member), 0}};
}

std::vector<Segment> all_reduce_result(const Shape& shape, Member, std::string_view) {
  return {{0, shape.output_elements, Segment::reduced, 0}};
}

std::vector<Segment> reduce_result(const Shape& shape, Member member, std::string_view pattern) {
  return member.rank == member.root ? all_reduce_result(shape, member, pattern) : std::vector<Segment>();
}

std::vector<Segment> reduce_scatter_result(const Shape& shape, Member member, std::string_view) {
  return {{0, shape.output_elements, Segment::reduced, static_cast<uint64_t>(member.rank) * shape.output_elements}};
}

std::vector<Segment> broadcast_result(const Shape& shape, Member member, std::string_view) {
  return {{0, shape.output_elements, member.root, 0}};
}

// --- blocks

Block gather_block(const Shape& shape, Member from, Member to) {
  if (to.rank != to.root) return {};
  return {shape.input_elements, 0, static_cast<uint64_t>(from.rank) * shape.input_elements};
}

Block scatter_block(const Shape& shape, Member from, Member to) {
  if (from.rank != from.root) return {};
  return {shape.output_elements, static_cast<uint64_t>(to.rank) * shape.output_elements, 0};
}

// A group smaller than the case's largest divides the same input among fewer ranks.
Block all_to_all_block(const Shape& shape, Member from, Member to) {
  const uint64_t elements = shape.input_elements / static_cast<uint64_t>(from.ranks);
  return {elements, static_cast<uint64_t>(to.rank) * elements, static_cast<uint64_t>(from.rank) * elements};
}

// Elements for all ranks less than `distance` further on in the ring: the first `distance` of parts in the proportion
// 0, 1, .. n-1.
uint64_t elements_nearer_than(int distance, const Shape& shape, int ranks) {
  const auto n = static_cast<uint64_t>(ranks), d = static_cast<uint64_t>(distance);
  if (d == 0) return 0;
  if (n == 1) return shape.input_elements;
  // Quotient and remainder are scaled separately, because the product of the whole would not fit 64 bits.
  const uint64_t triangle = n * (n - 1), part = d * (d - 1);
  return shape.input_elements / triangle * part + shape.input_elements % triangle * part / triangle;
}

// By a matrix where the shape has one, else the default traffic of nccl-tests' alltoallv. Blocks lie in the order of
// the other member's rank. Distances count from 0 at the member itself, and continue at rank 0 after the last rank.
Block all_to_allv_block(const Shape& shape, Member from, Member to) {
  if (shape.traffic) return block_of_traffic(shape, from.rank, to.rank);
  const int n = from.ranks, distance = (to.rank - from.rank + n) % n;
  const auto nearer = [&](int than) { return elements_nearer_than(than, shape, n); };
  const uint64_t all = shape.input_elements;
  return {.elements = nearer(distance + 1) - nearer(distance),
          .input_offset = nearer(distance) + (to.rank >= from.rank ? all : 0) - nearer(n - from.rank),
          .output_offset = nearer(to.rank + 1) + (from.rank > to.rank ? all : 0) - nearer(distance + 1)};
}

// --- in place

InPlaceOffset same_place(const Shape&, Member) { return {}; }

// The share of a rank lies at its place in the whole.
InPlaceOffset input_in_output(const Shape& shape, Member member) {
  return {.input = static_cast<uint64_t>(member.rank) * shape.input_elements, .output = 0};
}
InPlaceOffset output_in_input(const Shape& shape, Member member) {
  return {.input = 0, .output = static_cast<uint64_t>(member.rank) * shape.output_elements};
}

}  // namespace

// Bandwidth counts one direction.
const Collective p2p{.name = "p2p",
                     .summary = "pairs of ranks: one_way, both_ways, ping_pong (half a round trip)",
                     .pairwise = true,
                     .route = Route::point_to_point,
                     .patterns = {"one_way", "both_ways", "ping_pong"},
                     .shape = undivided,
                     .bus_factor = unit_factor,
                     .steps = one_step,
                     .result = p2p_result};

const Collective all_reduce{.name = "all_reduce",
                            .summary = "every rank gets the reduction over all ranks",
                            .reduces = true,
                            .route = Route::tree_or_ring,
                            .shape = undivided,
                            .bus_factor = all_reduce_factor,
                            .steps = all_reduce_steps,
                            .result = all_reduce_result,
                            .in_place_offset = same_place};

const Collective all_gather{.name = "all_gather",
                            .summary = "every rank gets the inputs of all ranks",
                            .shape = shares_to_whole,
                            .bus_factor = remote_parts,
                            .steps = ring_steps,
                            .result = all_inputs,
                            .in_place_offset = input_in_output};

const Collective reduce_scatter{.name = "reduce_scatter",
                                .summary = "every rank gets its share of the reduction over all ranks",
                                .reduces = true,
                                .shape = whole_to_shares,
                                .bus_factor = remote_parts,
                                .steps = ring_steps,
                                .result = reduce_scatter_result,
                                .in_place_offset = output_in_input};

// Out of place, the root's output is written too.
const Collective broadcast{.name = "broadcast",
                           .summary = "every rank gets the input of the root",
                           .rooted = true,
                           .shape = undivided,
                           .bus_factor = unit_factor,
                           .steps = ring_steps,
                           .result = broadcast_result,
                           .in_place_offset = same_place};

const Collective reduce{.name = "reduce",
                        .summary = "the root gets the reduction over all ranks",
                        .reduces = true,
                        .rooted = true,
                        .shape = undivided,
                        .bus_factor = unit_factor,
                        .steps = ring_steps,
                        .result = reduce_result,
                        .in_place_offset = same_place};

const Collective all_to_all{.name = "all_to_all",
                            .summary = "every rank sends a block of its own to every rank",
                            .route = Route::all_to_all,
                            .shape = whole_to_whole,
                            .bus_factor = remote_parts,
                            .steps = ring_steps,
                            .result = received_blocks<all_to_all_block>,
                            .block = all_to_all_block};

// Bus bandwidth counts as in nccl-tests, as if one of n blocks stayed on its rank.
const Collective all_to_allv{.name = "all_to_allv",
                             .summary = "every rank sends the others blocks of different length (--traffic)",
                             .route = Route::all_to_allv,
                             .shape = whole_to_whole,
                             .by_traffic = shape_of,
                             .bus_factor = remote_parts,
                             .steps = ring_steps,
                             .result = received_blocks<all_to_allv_block>,
                             .block = all_to_allv_block};

// The blocks cannot be sent before the tokens are packed, nor the tokens be added before the blocks have come.
const Collective dispatch{.name = "dispatch",
                          .summary = "tokens go to the ranks of their experts (--traffic expert, --hidden)",
                          .chained = true,
                          .of_tokens = true,
                          .route = Route::all_to_allv,
                          .usual_type = DataType::bfloat16,
                          .shape = usual_dispatch_shape,
                          .by_traffic = dispatch_shape,
                          .bus_factor = remote_parts,
                          .steps = ring_steps,
                          .result = dispatch_result,
                          .block = dispatch_block,
                          .packs = packed_tokens};

const Collective combine{.name = "combine",
                         .summary = "tokens come back from the ranks of their experts, and are added up",
                         .chained = true,
                         .of_tokens = true,
                         .route = Route::all_to_allv,
                         .usual_type = DataType::bfloat16,
                         .shape = usual_combine_shape,
                         .by_traffic = combine_shape,
                         .bus_factor = remote_parts,
                         .steps = ring_steps,
                         .result = combine_result,
                         .block = combine_block,
                         .sums = added_tokens};

const Collective gather{.name = "gather",
                        .summary = "the root gets the inputs of all ranks",
                        .rooted = true,
                        .route = Route::rooted,
                        .shape = shares_to_whole,
                        .bus_factor = remote_parts,
                        .steps = ring_steps,
                        .result = received_blocks<gather_block>,
                        .block = gather_block,
                        .in_place_offset = input_in_output};

const Collective scatter{.name = "scatter",
                         .summary = "every rank gets its share of the root's input",
                         .rooted = true,
                         .route = Route::rooted,
                         .shape = whole_to_shares,
                         .bus_factor = remote_parts,
                         .steps = ring_steps,
                         .result = received_blocks<scatter_block>,
                         .block = scatter_block,
                         .in_place_offset = output_in_input};

const Collective send_recv{.name = "send_recv",
                           .summary = "a ring: every rank sends to the next and receives from the previous",
                           .route = Route::point_to_point,
                           .shape = undivided,
                           .bus_factor = unit_factor,
                           .steps = one_step,
                           .result = send_recv_result};

// In each step a rank exchanges all its data with the rank whose number differs in one bit. Bus bandwidth is that of
// nccl-tests, which prints it as algorithm bandwidth too.
const Collective hypercube{.name = "hypercube",
                           .summary = "an all_gather in which ranks exchange what they have, twice as much each time",
                           .powers_of_two = true,
                           .chained = true,
                           .route = Route::all_to_all,
                           .shape = shares_to_whole,
                           .bus_factor = remote_parts,
                           .steps = hypercube_steps,
                           .result = all_inputs,
                           .in_place_offset = input_in_output};

// Bytes, bus factors and limits are those of the collectives that NCCL's host functions start.
const Collective lsa_all_reduce{.name = "lsa_all_reduce",
                                .summary = "an all_reduce by kernels that load from the others' memory (NCCL 2.28)",
                                .reduces = true,
                                .device_initiated = true,
                                .route = Route::tree_or_ring,
                                .shape = undivided,
                                .bus_factor = all_reduce_factor,
                                .steps = one_step,
                                .result = all_reduce_result,
                                .in_place_offset = same_place};

const Collective lsa_all_to_all{.name = "lsa_all_to_all",
                                .summary = "an all_to_all by kernels that store into the others' memory (NCCL 2.28)",
                                .device_initiated = true,
                                .route = Route::all_to_all,
                                .shape = whole_to_whole,
                                .bus_factor = remote_parts,
                                .steps = one_step,
                                .result = received_blocks<all_to_all_block>,
                                .block = all_to_all_block};

// Its bytes are those of the operation that a step performs; 0 without one. Patterns are those of communicator_steps().
const Collective communicator{.name = "communicator",
                              .summary = "no transfer: what it takes to make, use first and destroy a communicator",
                              .moves_data = false,
                              .patterns = {"init", "first", "init_again", "split", "split_first", "capture", "register",
                                           "shrink", "grow", "revoke", "destroy", "abort"},
                              .shape = undivided,
                              .bus_factor = unit_factor,
                              .steps = one_step,
                              .result = no_result};

// Its bytes are those of the operations of the rank that has most (Case::replay). Times are of whole steps.
const Collective job_step{.name = "job_step",
                          .summary = "one step of a recorded job (--job)",
                          .replays = true,
                          .shape = undivided,
                          .bus_factor = unit_factor,
                          .steps = one_step,
                          .result = no_result};

namespace {

constexpr std::array table{&p2p,        &all_reduce,  &all_gather,     &reduce_scatter, &broadcast,   &reduce,
                           &all_to_all, &all_to_allv, &dispatch,       &combine,        &gather,      &scatter,
                           &send_recv,  &hypercube,   &lsa_all_reduce, &lsa_all_to_all, &communicator};

// Collectives with another name in nccl-tests; "": nccl-tests has no such program. Of the lsa_ ones its programs for
// the host's functions have the same under -D.
struct NcclTestsName {
  const Collective* collective;
  std::string_view name;
};
constexpr std::array nccl_tests_names{NcclTestsName{&p2p, ""},
                                      NcclTestsName{&communicator, ""},
                                      NcclTestsName{&dispatch, ""},
                                      NcclTestsName{&combine, ""},
                                      NcclTestsName{&lsa_all_reduce, ""},
                                      NcclTestsName{&lsa_all_to_all, ""},
                                      NcclTestsName{&all_to_all, "alltoall"},
                                      NcclTestsName{&all_to_allv, "alltoallv"},
                                      NcclTestsName{&send_recv, "sendrecv"}};

}  // namespace

std::span<const Collective* const> collectives() { return table; }

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const Collective* each : table) names.emplace_back(each->name);
  return names;
}

std::string_view name_in_nccl_tests(const Collective& collective) {
  const auto found = std::ranges::find(nccl_tests_names, &collective, &NcclTestsName::collective);
  return found == nccl_tests_names.end() ? collective.name : found->name;
}

const Collective* try_find_collective(std::string_view name) {
  const auto called = [](std::string_view wanted) {
    const auto found = std::ranges::find_if(table, [&](const Collective* each) {
      return each->name == wanted || (!wanted.empty() && name_in_nccl_tests(*each) == wanted);
    });
    return found == table.end() ? nullptr : *found;
  };
  if (const Collective* const found = called(name)) return found;
  constexpr std::string_view mpi = "_mpi", program = "_perf";
  if (name.ends_with(mpi)) name.remove_suffix(mpi.size());
  if (!name.ends_with(program)) return nullptr;
  name.remove_suffix(program.size());
  return called(name);
}

bool is_device_initiated(std::string_view name) { return find_collective(name).device_initiated; }

const Collective& find_collective(std::string_view name) {
  if (const Collective* const found = try_find_collective(name)) return *found;
  if (name == job_step.name) return job_step;
  throw UsageError(unknown_name("collective", name, collective_names()));
}

}  // namespace p5
