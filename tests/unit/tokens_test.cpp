// Collectives of tokens against their definition, carried out on labels, and what their checks find.
#include "bench/model/tokens.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/model/expected.hpp"

namespace p5 {
namespace {

constexpr std::uint64_t hidden = 3;

// An element's origin as a number, so that sums of different origins differ.
std::int64_t label(int rank, std::uint64_t index) {
  return static_cast<std::int64_t>(pattern::hash(7, static_cast<std::uint64_t>(rank), index) >> 8);
}

struct Memory {
  std::vector<std::int64_t> input, output;
};

// The operation as backends perform it, by rows and blocks.
std::vector<Memory> performed(const Collective& collective, const Shape& shape, int ranks) {
  std::vector<Memory> all(static_cast<std::size_t>(ranks));
  const auto rows = [&](int rank) { return local_rows(collective, shape, {.rank = rank, .ranks = ranks}); };
  for (int rank = 0; rank < ranks; ++rank) {
    Memory& own = all[static_cast<std::size_t>(rank)];
    for (std::uint64_t i = 0; i < shape.input_elements; ++i) own.input.push_back(label(rank, i));
    own.output.resize(shape.output_elements);
    add_rows(DataType::int64, rows(rank).packs, reinterpret_cast<const std::byte*>(own.input.data()),
             reinterpret_cast<std::byte*>(own.output.data()));
  }
  for (Member from{.ranks = ranks}; from.rank < ranks; ++from.rank)
    for (Member to{.ranks = ranks}; to.rank < ranks; ++to.rank) {
      const Block block = collective.block(shape, from, to);
      const Memory& source = all[static_cast<std::size_t>(from.rank)];
      const std::vector<std::int64_t>& sent = collective.packs ? source.output : source.input;
      for (std::uint64_t i = 0; i < block.elements; ++i)
        all[static_cast<std::size_t>(to.rank)].output.at(block.output_offset + i) = sent.at(block.input_offset + i);
    }
  for (int rank = 0; rank < ranks; ++rank) {
    auto* const output = reinterpret_cast<std::byte*>(all[static_cast<std::size_t>(rank)].output.data());
    add_rows(DataType::int64, rows(rank).sums, output, output);
  }
  return all;
}

// The output by the segments of the result.
std::vector<std::int64_t> described(const Collective& collective, const Shape& shape, Member member) {
  std::vector<std::int64_t> output(shape.output_elements);
  for (const Segment& segment : collective.result(shape, member, ""))
    for (std::uint64_t i = 0; i < segment.elements; ++i) {
      std::int64_t& element = output.at(segment.output_offset + i);
      EXPECT_EQ(element != 0, segment.added) << "written twice, or nothing to add to";
      EXPECT_LT(segment.source_offset + i, shape.input_elements);
      element += label(segment.source, segment.source_offset + i);
    }
  return output;
}

// Where a rank keeps the token of another one: behind those of lower senders and earlier tokens.
std::uint64_t place_of(const TokenRouting& routing, int holder, int from, int token) {
  std::uint64_t before = 0;
  for (int other = 0; other <= from; ++other)
    for (int each = 0; each < (other == from ? token : routing.tokens); ++each)
      before += std::ranges::count(routing.of(other, each), holder);
  return before;
}

struct Layer {
  int ranks;
  const char* routing;
};
constexpr std::array layers{Layer{2, "expert:5,4,1"}, Layer{3, "expert:7,9,3@2"}, Layer{5, "expert:16,40,8"},
                            Layer{7, "expert:1,7,7"}};

TEST(Tokens, go_once_to_each_rank_with_one_of_their_experts) {
  for (const auto& [ranks, text] : layers) {
    const auto traffic = std::make_shared<const MatrixTraffic>(route_tokens(text, ranks));
    const TokenRouting& routing = *traffic->routing;
    EXPECT_EQ(traffic->matrix, generate_traffic(text, ranks).matrix) << text;
    const Shape shape = dispatch_shape(traffic, {traffic->busiest * hidden * 8}, 8);
    EXPECT_EQ(shape.hidden, hidden);
    const std::vector<Memory> all = performed(dispatch, shape, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<std::int64_t>& output = all[static_cast<std::size_t>(rank)].output;
      EXPECT_EQ(output, described(dispatch, shape, {.rank = rank, .ranks = ranks})) << text;
      for (int from = 0; from < ranks; ++from)
        for (int token = 0; token < routing.tokens; ++token) {
          if (std::ranges::count(routing.of(from, token), rank) == 0) continue;
          for (std::uint64_t i = 0; i < hidden; ++i)
            EXPECT_EQ(output.at(place_of(routing, rank, from, token) * hidden + i),
                      label(from, static_cast<std::uint64_t>(token) * hidden + i));
        }
    }
  }
}

TEST(Tokens, consist_of_words_of_16_bytes_where_a_size_decides_how_long_they_are) {
  const auto traffic = std::make_shared<const MatrixTraffic>(route_tokens("expert:7,9,3", 3));
  const auto elements = [&](std::uint64_t size, std::size_t element) {
    return dispatch_shape(traffic, {size}, element).hidden;
  };
  EXPECT_EQ(elements(traffic->busiest * 2 * 100 + 1, 2), 104U);
  EXPECT_EQ(elements(traffic->busiest * 2 * 101, 2), 101U);  // as --hidden 101 asks for
  EXPECT_EQ(elements(traffic->busiest * 100 + 1, 1), 112U);
  EXPECT_EQ(elements(traffic->busiest * 2 * 5 + 1, 2), 6U);
  EXPECT_EQ(elements(1, 2), 1U);
}

TEST(Tokens, come_back_and_are_added_up_in_their_own_rank) {
  for (const auto& [ranks, text] : layers) {
    const auto traffic = std::make_shared<const MatrixTraffic>(route_tokens(text, ranks));
    const TokenRouting& routing = *traffic->routing;
    const Shape shape = combine_shape(traffic, {traffic->busiest * hidden * 8}, 8);
    const std::vector<Memory> all = performed(combine, shape, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<std::int64_t>& output = all[static_cast<std::size_t>(rank)].output;
      EXPECT_EQ(output, described(combine, shape, {.rank = rank, .ranks = ranks})) << text;
      for (int token = 0; token < routing.tokens; ++token)
        for (std::uint64_t i = 0; i < hidden; ++i) {
          std::int64_t sum = 0;
          for (const int holder : routing.of(rank, token))
            sum += label(holder, place_of(routing, holder, rank, token) * hidden + i);
          EXPECT_EQ(output.at(static_cast<std::uint64_t>(token) * hidden + i), sum) << text;
        }
    }
  }
}

// The workspace keeps the received tokens, or those that a dispatch sent, and is checked too.
TEST(Tokens, of_which_each_element_is_checked) {
  for (const Collective* collective : {&dispatch, &combine}) {
    Case c;
    c.collective = collective;
    c.type = DataType::bfloat16;
    c.ranks = 4;
    const auto traffic = std::make_shared<const MatrixTraffic>(route_tokens("expert:6,8,3", c.ranks));
    c.shape = collective->by_traffic(traffic, {traffic->busiest * hidden * 2}, 2);
    const RankInGroup place{{0, 1, 2, 3}, {.rank = 1, .ranks = 4}};
    const Pattern pattern = pattern_for(c, place, 0, 0, 1);
    std::vector<std::byte> output(c.shape.output_elements * 2);
    write_expected(c, place, pattern, output.data(), 0, c.shape.output_elements);
    const auto wrong = [&] {
      Verification v;
      check_output(c, place, pattern, output.data(), 0, c.shape.output_elements, v);
      return v.wrong_elements;
    };
    EXPECT_EQ(wrong(), 0u);
    std::vector<bool> is_result(c.shape.output_elements);
    for (const Segment& segment : collective->result(c.shape, place.member, ""))
      std::fill_n(is_result.begin() + static_cast<std::ptrdiff_t>(segment.output_offset), segment.elements, true);
    EXPECT_GT(std::ranges::count(is_result, true), 0);
    for (std::uint64_t i = 0; i < c.shape.output_elements; ++i) {
      output[2 * i] ^= std::byte{1};
      EXPECT_EQ(wrong(), is_result[i] ? 1u : 0u) << collective->name << " " << i;
      output[2 * i] ^= std::byte{1};
    }
  }
}

// In any order: each partial sum is exact.
TEST(Tokens, have_sums_that_are_exact_in_any_order) {
  for (const std::string& name : data_type_names()) {
    const DataType type = parse_data_type(name);
    with_type(type, [&]<class T>() {
      const int terms = std::min(most_terms(type), 32);
      const Pattern pattern{.seed = 3, .ranks = terms, .terms = terms};
      for (std::uint64_t index = 0; index < 500; ++index) {
        T up{}, down{};
        for (int i = 0; i < terms; ++i) {
          up = pattern::added(up, input_element<T>(pattern, i, index));
          down = pattern::added(down, input_element<T>(pattern, terms - 1 - i, index));
        }
        EXPECT_EQ(distance_in_units(up, down), 0u) << name;
      }
    });
  }
  EXPECT_EQ(most_terms(DataType::bfloat16), 32);
  EXPECT_EQ(most_terms(DataType::float8_e4m3), 2);
  EXPECT_EQ(most_terms(DataType::float8_e5m2), 1);
}

TEST(Tokens, have_as_many_experts_as_divide_among_the_ranks) {
  EXPECT_EQ(usual_routings(8), (std::vector<std::string>{"expert:128,256,8", "expert:4096,256,8"}));
  EXPECT_EQ(usual_routings(3).front(), "expert:128,258,8");
  EXPECT_EQ(usual_routings(1000).front(), "expert:128,1000,8");
}

TEST(Tokens, have_no_way_without_a_routing) {
  EXPECT_THROW(route_tokens("zipf:1.1", 4), UsageError);
  EXPECT_THROW(route_tokens("tokens.csv", 4), UsageError);
  EXPECT_FALSE(routes_tokens("ragged"));
  EXPECT_TRUE(routes_tokens("expert:1,2,3@4"));
}

}  // namespace
}  // namespace p5
