#include "bench/model/tokens.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/model/pattern.hpp"

namespace p5 {

namespace {

using std::size_t;
using std::uint64_t;

// Numbers are of tokens. The direction of `traffic` is that of the collective.
struct BlockOfTokens {
  uint64_t count = 0, sent_before = 0, received_before = 0;
};

BlockOfTokens tokens_between(const Shape& shape, int from, int to) {
  const MatrixTraffic& traffic = *shape.traffic;
  const auto at = static_cast<size_t>(from) * static_cast<size_t>(traffic.matrix.ranks) + static_cast<size_t>(to);
  return {traffic.matrix.parts[at], traffic.sent_before[at], traffic.received_before[at]};
}

struct MostTokens {
  uint64_t sent = 0, received = 0;
};

MostTokens most_tokens(const MatrixTraffic& traffic) {
  const int n = traffic.matrix.ranks;
  MostTokens most;
  for (int rank = 0; rank < n; ++rank) {
    const auto last_sent = static_cast<size_t>(rank) * static_cast<size_t>(n) + static_cast<size_t>(n - 1);
    const auto last_received = static_cast<size_t>(n - 1) * static_cast<size_t>(n) + static_cast<size_t>(rank);
    most.sent = std::max(most.sent, traffic.sent_before[last_sent] + traffic.matrix.parts[last_sent]);
    most.received =
        std::max(most.received, traffic.received_before[last_received] + traffic.matrix.parts[last_received]);
  }
  return most;
}

// The part of the shape that both halves share.
Shape tokens_of(const MatrixTraffic& traffic, Bytes size, size_t element) {
  Shape shape;
  const uint64_t bytes_of_one = traffic.busiest * element;
  shape.tokens = static_cast<uint64_t>(traffic.routing->tokens);
  shape.hidden = std::max<uint64_t>(1, size.count / bytes_of_one);
  if (shape.hidden * bytes_of_one < size.count) {
    // If a message size determines the length of tokens, tokens of more than 16 bytes consist of whole words of 16
    // bytes, as those of models do, because a thread copies such a word at once.
    const uint64_t word = shape.hidden < 16 / element ? 1 : 16 / element;
    shape.hidden = (shape.hidden / word + 1) * word;
  }
  shape.bytes = shape.bytes_per_rank = {shape.hidden * bytes_of_one};
  return shape;
}

MatrixTraffic transposed(const MatrixTraffic& traffic) {
  TrafficMatrix matrix = traffic.matrix;
  for (int from = 0; from < matrix.ranks; ++from)
    for (int to = 0; to < matrix.ranks; ++to) matrix.at(from, to) = traffic.matrix.at(to, from);
  MatrixTraffic back = make_traffic(traffic.name, std::move(matrix));
  back.routing = traffic.routing;
  return back;
}

// The traffic of a group without a routing of its own.
std::shared_ptr<const MatrixTraffic> usual_traffic(int ranks) {
  if (ranks > most_ranks_of_traffic)
    throw UsageError(
        fmt::format("tokens go around at most {} ranks, and a group has {}", most_ranks_of_traffic, ranks));
  return std::make_shared<const MatrixTraffic>(route_tokens(usual_routings(ranks).front(), ranks));
}

// Calls visit(token, other rank, number of the token among those between both) for a rank's own tokens.
template <class Visitor>
void for_each_own_token(const TokenRouting& routing, int rank, Visitor&& visit) {
  std::vector<uint64_t> numbers(static_cast<size_t>(routing.ranks));
  for (int token = 0; token < routing.tokens; ++token)
    for (const int to : routing.of(rank, token)) visit(token, to, numbers[static_cast<size_t>(to)]++);
}

// Adds a segment of tokens, or makes the last one longer that ends where it begins on both sides.
void append(std::vector<Segment>& segments, const Segment& next) {
  if (!segments.empty()) {
    Segment& last = segments.back();
    if (last.source == next.source && last.output_offset + last.elements == next.output_offset &&
        last.source_offset + last.elements == next.source_offset) {
      last.elements += next.elements;
      return;
    }
  }
  segments.push_back(next);
}

}  // namespace

std::vector<std::string> usual_routings(int ranks) {
  const int experts = (usual_experts + ranks - 1) / ranks * ranks;
  std::vector<std::string> texts;
  for (const int tokens : {tokens_of_decode, tokens_of_prefill})
    texts.push_back(fmt::format("expert:{},{},{}", tokens, experts, usual_top));
  return texts;
}

Shape dispatch_shape(std::shared_ptr<const MatrixTraffic> traffic, Bytes size, size_t element) {
  Shape shape = tokens_of(*traffic, size, element);
  const MostTokens most = most_tokens(*traffic);
  shape.input_elements = shape.tokens * shape.hidden;
  shape.workspace = most.received * shape.hidden;
  shape.output_elements = shape.workspace + most.sent * shape.hidden;
  shape.traffic = std::move(traffic);
  return shape;
}

Shape combine_shape(std::shared_ptr<const MatrixTraffic> traffic, Bytes size, size_t element) {
  Shape shape = tokens_of(*traffic, size, element);
  const MostTokens most = most_tokens(*traffic);
  shape.input_elements = most.received * shape.hidden;
  shape.workspace = shape.tokens * shape.hidden;
  shape.output_elements = shape.workspace + most.sent * shape.hidden;
  shape.traffic = std::make_shared<const MatrixTraffic>(transposed(*traffic));
  return shape;
}

Shape usual_dispatch_shape(Bytes size, bool /*per_rank*/, size_t element, int ranks) {
  return dispatch_shape(usual_traffic(ranks), size, element);
}

Shape usual_combine_shape(Bytes size, bool /*per_rank*/, size_t element, int ranks) {
  return combine_shape(usual_traffic(ranks), size, element);
}

Block dispatch_block(const Shape& shape, Member from, Member to) {
  const BlockOfTokens tokens = tokens_between(shape, from.rank, to.rank);
  return {.elements = tokens.count * shape.hidden,
          .input_offset = shape.workspace + tokens.sent_before * shape.hidden,
          .output_offset = tokens.received_before * shape.hidden};
}

Block combine_block(const Shape& shape, Member from, Member to) {
  const BlockOfTokens tokens = tokens_between(shape, from.rank, to.rank);
  return {.elements = tokens.count * shape.hidden,
          .input_offset = tokens.sent_before * shape.hidden,
          .output_offset = shape.workspace + tokens.received_before * shape.hidden};
}

std::vector<Segment> dispatch_result(const Shape& shape, Member member, std::string_view) {
  const TokenRouting& routing = *shape.traffic->routing;
  const uint64_t hidden = shape.hidden;
  std::vector<Segment> segments;
  uint64_t at = 0;
  for (int from = 0; from < member.ranks; ++from)
    for (int token = 0; token < routing.tokens; ++token)
      if (std::ranges::binary_search(routing.of(from, token), member.rank))
        append(segments, {hidden * at++, hidden, from, hidden * static_cast<uint64_t>(token)});
  const Rows packed = packed_tokens(shape, member);
  for (uint64_t row = 0; row < packed.count(); ++row)
    append(segments, {hidden * (packed.first_row + row), hidden, member.rank, hidden * packed.sources[row]});
  return segments;
}

Rows packed_tokens(const Shape& shape, Member member) {
  const TokenRouting& routing = *shape.traffic->routing;
  const BlockOfTokens last = tokens_between(shape, member.rank, member.ranks - 1);
  Rows rows{.elements = shape.hidden, .first_row = shape.workspace / shape.hidden};
  rows.sources.resize(last.sent_before + last.count);
  for_each_own_token(routing, member.rank, [&](int token, int to, uint64_t number) {
    rows.sources[tokens_between(shape, member.rank, to).sent_before + number] = static_cast<std::uint32_t>(token);
  });
  for (std::uint32_t row = 0; row <= rows.sources.size(); ++row) rows.first.push_back(row);
  return rows;
}

std::vector<Segment> combine_result(const Shape& shape, Member member, std::string_view) {
  const TokenRouting& routing = *shape.traffic->routing;
  const uint64_t hidden = shape.hidden;
  std::vector<Segment> segments;
  int token_before = -1;
  for_each_own_token(routing, member.rank, [&](int token, int from, uint64_t number) {
    segments.push_back({.output_offset = hidden * static_cast<uint64_t>(token),
                        .elements = hidden,
                        .source = from,
                        .source_offset = hidden * (tokens_between(shape, from, member.rank).sent_before + number),
                        .added = token == std::exchange(token_before, token)});
  });
  for (Member from{.rank = 0, .ranks = member.ranks}; from.rank < member.ranks; ++from.rank)
    if (const Block block = combine_block(shape, from, member); block.elements > 0)
      segments.push_back({block.output_offset, block.elements, from.rank, block.input_offset});
  return segments;
}

Rows added_tokens(const Shape& shape, Member member) {
  const TokenRouting& routing = *shape.traffic->routing;
  Rows rows{.elements = shape.hidden};
  int token_before = -1;
  for_each_own_token(routing, member.rank, [&](int token, int from, uint64_t number) {
    if (token != std::exchange(token_before, token))
      rows.first.push_back(static_cast<std::uint32_t>(rows.sources.size()));
    rows.sources.push_back(static_cast<std::uint32_t>(
        shape.workspace / shape.hidden + tokens_between(shape, from, member.rank).received_before + number));
  });
  rows.first.push_back(static_cast<std::uint32_t>(rows.sources.size()));
  return rows;
}

LocalRows local_rows(const Collective& collective, const Shape& shape, Member member) {
  LocalRows rows;
  if (collective.packs) rows.packs = collective.packs(shape, member);
  if (collective.sums) rows.sums = collective.sums(shape, member);
  return rows;
}

void add_rows(DataType type, const Rows& rows, const std::byte* from, std::byte* to) {
  with_type(type, [&]<class T>() {
    for (uint64_t row = 0; row < rows.count(); ++row) {
      T* const out = reinterpret_cast<T*>(to) + (rows.first_row + row) * rows.elements;
      for (auto at = rows.first[row]; at < rows.first[row + 1]; ++at) {
        const T* const source = reinterpret_cast<const T*>(from) + rows.sources[at] * rows.elements;
        if (at == rows.first[row])
          std::copy_n(source, rows.elements, out);
        else
          std::transform(source, source + rows.elements, out, out, pattern::added<T>);
      }
    }
  });
}

int most_terms(const Collective& collective, const Shape& shape) {
  return collective.sums ? shape.traffic->routing->most : 1;
}

int most_terms(DataType type) {
  constexpr int least_bound = 8;  // of the magnitude of an input
  return with_type(type, []<class T>() {
    if constexpr (pattern::is_floating<T>)
      return static_cast<int>(std::min<std::int64_t>((std::int64_t{1} << precision<T>) / least_bound, 1 << 30));
    else
      return 1 << 30;
  });
}

}  // namespace p5
