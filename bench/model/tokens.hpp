// Collectives of tokens, the two halves of a layer of experts: dispatch takes each token to the ranks of its experts,
// combine brings their results back and adds them up. Shapes, blocks, results and what ranks do in their own memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/model/collective.hpp"
#include "bench/model/data_type.hpp"
#include "bench/model/traffic.hpp"

namespace p5 {

// The two operating points: tokens of each rank while a model generates text (decode), whose time is latency, and while
// it reads some (prefill).
inline constexpr int tokens_of_decode = 128, tokens_of_prefill = 4096;
// Elements of a token, experts and choices of DeepSeek-V3, whose figures DeepEP publishes.
inline constexpr int usual_hidden = 7168, usual_experts = 256, usual_top = 8;
inline constexpr int most_hidden = 1 << 20;

// The generators of both points for a group, for as many experts as divide among its ranks.
std::vector<std::string> usual_routings(int ranks);

// Shapes by the traffic of route_tokens(). Tokens have as many elements as the size needs, at least one. Blocks of
// combine are those of dispatch, the other way round.
Shape dispatch_shape(std::shared_ptr<const MatrixTraffic> traffic, Bytes size, std::size_t element);
Shape combine_shape(std::shared_ptr<const MatrixTraffic> traffic, Bytes size, std::size_t element);
// The same by the usual routing of decode.
Shape usual_dispatch_shape(Bytes size, bool per_rank, std::size_t element, int ranks);
Shape usual_combine_shape(Bytes size, bool per_rank, std::size_t element, int ranks);

Block dispatch_block(const Shape& shape, Member from, Member to);
Block combine_block(const Shape& shape, Member from, Member to);

// A rank's output of dispatch: the tokens that came, by sender; behind them, in the workspace, those to be sent, packed
// by receiver. The workspace is a part of the output, so that it is poisoned and checked like a result.
std::vector<Segment> dispatch_result(const Shape& shape, Member member, std::string_view pattern);
Rows packed_tokens(const Shape& shape, Member member);

// A rank's input of combine is laid out as its output of dispatch. Its output: the sums, token by token; behind them,
// in the workspace, what came, by sender.
std::vector<Segment> combine_result(const Shape& shape, Member member, std::string_view pattern);
Rows added_tokens(const Shape& shape, Member member);

// Work of a rank in its own memory before and after the blocks are exchanged; nothing in most collectives.
struct LocalRows {
  Rows packs = {}, sums = {};
};
LocalRows local_rows(const Collective& collective, const Shape& shape, Member member);
// In host memory.
void add_rows(DataType type, const Rows& rows, const std::byte* from, std::byte* to);

// Values that an element of a result adds up, at most.
int most_terms(const Collective& collective, const Shape& shape);
// As many as can be verified: inputs of fewer bits would hardly differ.
int most_terms(DataType type);

}  // namespace p5
