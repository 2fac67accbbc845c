// Traffic matrices of all_to_allv and of collectives of tokens: a matrix from a file or a generator, and the place of
// each block in the buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/route.hpp"
#include "bench/base/units.hpp"
#include "bench/model/collective.hpp"

namespace p5 {

// Each rank keeps the whole matrix: 24 bytes per block.
inline constexpr int most_ranks_of_traffic = 1024;

// Which ranks each token goes to, once to each: those of its experts. Equal on all ranks.
struct TokenRouting {
  int ranks = 0, tokens = 0;         // tokens of each rank
  std::vector<std::uint32_t> first;  // of each rank's tokens one behind the other: its first destination; then the end
  std::vector<std::uint16_t> to;     // the destinations of a token in ascending order
  int most = 0;                      // destinations of a token

  std::span<const std::uint16_t> of(int rank, int token) const {
    const auto at = static_cast<std::size_t>(rank) * static_cast<std::size_t>(tokens) + static_cast<std::size_t>(token);
    return std::span(to).subspan(first[at], first[at + 1] - first[at]);
  }
};

struct MatrixTraffic {
  std::string name;           // "zipf:1.1", "moe.csv 5f0c33a1": file name and hash of the matrix
  TrafficMatrix matrix = {};  // without ranks in reports that were read
  bool counts_bytes =
      false;  // the parts are bytes, as a file says them: without sizes, the message is as large as there
  std::uint64_t busiest = 0;  // busiest_sum() of the matrix
  std::vector<std::uint64_t> sent_before = {},
                             received_before = {};        // sums of parts before each one in its row, its column
  std::shared_ptr<const TokenRouting> routing = nullptr;  // of route_tokens(), whose parts are tokens
};

// A generator that --traffic can name; `form` is how users write it: "zipf:A".
struct TrafficGenerator {
  std::string_view form, summary;
};
std::span<const TrafficGenerator> traffic_generators();

// True if --traffic names a generator, false if a file.
bool is_generated(std::string_view text);
// Throws UsageError if `text` begins like a generator and its numbers are wrong.
void check_generator(std::string_view text);

// The matrix of a generator, the same on every machine for the same text and number of ranks. `@N` at its end is the
// seed of another draw; default 1.
MatrixTraffic generate_traffic(const std::string& text, int ranks);
// True if --traffic names a generator of tokens, which route_tokens() takes.
bool routes_tokens(std::string_view text);
// The matrix of such a generator with the way of each token.
MatrixTraffic route_tokens(const std::string& text, int ranks);
// The matrix of a file: a line for each sender with a number of bytes for each receiver, separated by commas; "4KiB" is
// valid, empty lines and what follows a "#" do not count. Throws UsageError that names line, cell and remedy.
MatrixTraffic traffic_from_csv(const std::string& file, std::string_view text, int ranks);
// A matrix under a name; throws UsageError unless some rank sends to another one.
MatrixTraffic make_traffic(std::string name, TrafficMatrix matrix);

// Shape of a message of which the busiest rank sends or receives `size` bytes. A block that has a part has at least one
// element and is rounded up to whole ones; `bytes` is what the busiest rank then moves. Blocks begin at multiples of 16
// bytes, as those of applications do, so that buffers are a little longer.
Shape shape_of(std::shared_ptr<const MatrixTraffic> traffic, Bytes size, std::size_t element);
// The block in such a shape.
Block block_of_traffic(const Shape& shape, int from, int to);

}  // namespace p5
