#include "bench/model/traffic.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/model/pattern.hpp"

namespace p5 {

namespace {

using std::size_t;
using std::uint64_t;

// Products of parts and elements exceed 64 bits.
__extension__ typedef unsigned __int128 Wide;

// Parts of the largest block of a generated matrix whose blocks are real numbers.
constexpr double resolution = 1 << 20;
// No larger block: sums of 1024 fit 64 bits.
constexpr uint64_t largest_block = std::uint64_t{1} << 50;

// ---- generators

// A generator's arguments, and its random numbers: counted, so that the same text gives the same matrix everywhere.
struct Draw {
  int ranks = 0;
  std::vector<double> numbers;
  uint64_t seed = 1;

  int count() const { return static_cast<int>(numbers.at(0)); }
  uint64_t random(uint64_t a, uint64_t b) const { return pattern::hash(seed, a, b); }
  double uniform(uint64_t a, uint64_t b) const { return static_cast<double>(random(a, b) >> 11) * 0x1p-53; }
  // The ranks in random order, the same for all senders.
  std::vector<int> shuffled() const {
    std::vector<int> order(static_cast<size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random(0, i) % i]);
    return order;
  }
};

// base^exponent by products and square roots alone, which are exact to the last bit on every machine: ranks on hosts
// with other mathematics libraries agree.
double power(double base, double exponent) {
  double result = 1;
  const double whole = std::floor(exponent);
  for (int i = 0; i < static_cast<int>(whole); ++i) result *= base;
  constexpr int binary_digits = 24;
  double root = base, rest = exponent - whole;
  for (int digit = 0; digit < binary_digits; ++digit) {
    root = std::sqrt(root);
    rest *= 2;
    if (rest >= 1) result *= root, rest -= 1;
  }
  return result;
}

uint64_t parts_of(double share) { return static_cast<uint64_t>(std::ceil(share * resolution)); }

uint64_t uniform_part(const Draw&, int, int) { return 1; }

// Experts of a model are chosen unevenly: the same ranks are popular with all senders.
TrafficMatrix zipf(const Draw& draw) {
  TrafficMatrix matrix{draw.ranks, {}};
  std::vector<uint64_t> popularity(static_cast<size_t>(draw.ranks));
  const std::vector<int> order = draw.shuffled();
  for (size_t place = 0; place < order.size(); ++place)
    popularity[static_cast<size_t>(order[place])] =
        parts_of(1 / power(static_cast<double>(place + 1), draw.numbers.at(0)));
  for (int from = 0; from < draw.ranks; ++from)
    matrix.parts.insert(matrix.parts.end(), popularity.begin(), popularity.end());
  return matrix;
}

template <uint64_t (*part)(const Draw&, int from, int to)>
TrafficMatrix each_block(const Draw& draw) {
  TrafficMatrix matrix{draw.ranks, {}};
  for (int from = 0; from < draw.ranks; ++from)
    for (int to = 0; to < draw.ranks; ++to) matrix.parts.push_back(part(draw, from, to));
  return matrix;
}

TrafficMatrix empty_matrix(int ranks) {
  return {ranks, std::vector<uint64_t>(static_cast<size_t>(ranks) * static_cast<size_t>(ranks))};
}

TrafficMatrix k_hot(const Draw& draw) {
  if (draw.count() > draw.ranks)
    throw UsageError(
        fmt::format("k-hot:{} has more hot ranks than there are: a group has {}", draw.count(), draw.ranks));
  TrafficMatrix matrix = empty_matrix(draw.ranks);
  const std::vector<int> order = draw.shuffled();
  for (int from = 0; from < draw.ranks; ++from)
    for (size_t hot = 0; std::cmp_less(hot, draw.count()); ++hot) matrix.at(from, order[hot]) = 1;
  return matrix;
}

uint64_t ragged_part(const Draw& draw, int from, int to) {
  return parts_of(draw.uniform(static_cast<uint64_t>(from) + 1, static_cast<uint64_t>(to)));
}

constexpr uint64_t burst_one_of = 16, burst_times = 64;
uint64_t burst_part(const Draw& draw, int from, int to) {
  return draw.random(static_cast<uint64_t>(from) + 1, static_cast<uint64_t>(to)) % burst_one_of == 0 ? burst_times : 1;
}

// Draws of one matrix; more take minutes.
constexpr double most_draws = 1 << 28;

// Calls visit(from, destinations) for each token, rank by rank: the ranks of its experts in ascending order, each once.
template <class Visitor>
void for_each_token(const Draw& draw, Visitor&& visit) {
  const int tokens = draw.count(), experts = static_cast<int>(draw.numbers.at(1)),
            top = static_cast<int>(draw.numbers.at(2));
  const auto said = [&] { return fmt::format("expert:{},{},{}", tokens, experts, top); };
  if (top > experts) throw UsageError(fmt::format("{}: a token cannot choose {} of {} experts", said(), top, experts));
  if (experts % draw.ranks != 0)
    throw UsageError(fmt::format("{}: {} experts do not divide among {} ranks; give a multiple of {}", said(), experts,
                                 draw.ranks, draw.ranks));
  if (static_cast<double>(tokens) * top * draw.ranks > most_draws)
    throw UsageError(
        fmt::format("{}: {} ranks would draw too long; give fewer tokens, sizes scale them", said(), draw.ranks));
  const int on_rank = experts / draw.ranks;
  std::vector<int> chosen;
  for (int from = 0; from < draw.ranks; ++from)
    for (int token = 0; token < tokens; ++token) {
      chosen.clear();
      for (uint64_t tries = 0; std::cmp_less(chosen.size(), top); ++tries) {
        const auto one = static_cast<int>(
            draw.random(static_cast<uint64_t>(from) + 1, (static_cast<uint64_t>(token) << 32) + tries) %
            static_cast<uint64_t>(experts));
        if (std::ranges::find(chosen, one) == chosen.end()) chosen.push_back(one);
      }
      for (int& each : chosen) each /= on_rank;
      std::ranges::sort(chosen);
      chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
      visit(from, chosen);
    }
}

TrafficMatrix expert(const Draw& draw) {
  TrafficMatrix matrix = empty_matrix(draw.ranks);
  for_each_token(draw, [&](int from, const std::vector<int>& destinations) {
    for (const int to : destinations) ++matrix.at(from, to);
  });
  return matrix;
}

TokenRouting routing_of(const Draw& draw) {
  TokenRouting routing{.ranks = draw.ranks, .tokens = draw.count(), .first = {0}, .to = {}};
  for_each_token(draw, [&](int, const std::vector<int>& destinations) {
    for (const int to : destinations) routing.to.push_back(static_cast<std::uint16_t>(to));
    routing.first.push_back(static_cast<std::uint32_t>(routing.to.size()));
    routing.most = std::max(routing.most, static_cast<int>(destinations.size()));
  });
  return routing;
}

struct Argument {
  std::string_view name;
  double least, most;
  bool whole = true;
};

struct Generator {
  std::string_view name;
  TrafficGenerator shown;
  std::vector<Argument> arguments;
  TrafficMatrix (*generate)(const Draw&);
  TokenRouting (*route)(const Draw&) = nullptr;  // where the matrix counts tokens
};

const std::vector<Generator>& generators() {
  static const std::vector<Generator> all{
      {"uniform", {"uniform", "blocks of one length: all_to_all as a matrix"}, {}, each_block<uniform_part>},
      {"zipf",
       {"zipf:A", "the k-th most popular receiver gets 1/k^A of the most popular one's bytes, from every rank"},
       {{"A", 0, 10, false}},
       zipf},
      {"k-hot", {"k-hot:K", "all ranks send to the same K ranks only"}, {{"K", 1, most_ranks_of_traffic}}, k_hot},
      {"ragged",
       {"ragged", "each block has a length of its own, from nothing to the longest"},
       {},
       each_block<ragged_part>},
      {"burst", {"burst", "one block of 16 is 64 times as long as the others"}, {}, each_block<burst_part>},
      {"expert",
       {"expert:TOKENS,EXPERTS,TOP_K",
        "each of a rank's tokens goes to TOP_K experts, which are spread evenly over the ranks; once to each rank"},
       {{"TOKENS", 1, 1 << 20}, {"EXPERTS", 1, 1 << 16}, {"TOP_K", 1, 1 << 10}},
       expert,
       routing_of}};
  return all;
}

// The generator that a text names, if it does, and its numbers.
struct NamedGenerator {
  const Generator* generator = nullptr;
  Draw draw;
};

std::string_view head_of(std::string_view text) { return text.substr(0, text.find_first_of(":@")); }

double number_of(std::string_view text, const Argument& wanted, const Generator& generator) {
  const std::optional<double> value = as_number<double>(text);
  const bool valid =
      value && *value >= wanted.least && *value <= wanted.most && (!wanted.whole || *value == std::floor(*value));
  if (!valid)
    throw UsageError(fmt::format("{} is not valid as {} of {}: give a {}number from {} to {}", in_quotes(text),
                                 wanted.name, generator.shown.form, wanted.whole ? "whole " : "", wanted.least,
                                 wanted.most));
  return *value;
}

NamedGenerator parse_generator(std::string_view text) {
  const auto found = std::ranges::find(generators(), head_of(text), &Generator::name);
  if (found == generators().end()) return {};
  NamedGenerator out{&*found, {}};
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    const std::string_view seed = text.substr(at + 1);
    const auto number = as_number<decltype(Draw::seed)>(seed);
    if (!number) throw UsageError(fmt::format("{} is no seed: give a whole number behind the @", in_quotes(seed)));
    out.draw.seed = *number;
    text = text.substr(0, at);
  }
  const size_t colon = text.find(':');
  const std::vector<std::string> numbers =
      colon == std::string_view::npos ? std::vector<std::string>() : split(text.substr(colon + 1));
  if (numbers.size() != found->arguments.size())
    throw UsageError(fmt::format("{} is written as {}", found->name, found->shown.form));
  for (size_t i = 0; i < numbers.size(); ++i)
    out.draw.numbers.push_back(number_of(numbers[i], found->arguments[i], *found));
  return out;
}

// ---- files

struct Cell {
  std::string_view file;
  size_t line = 0, number = 0;  // from 1

  UsageError refuse(const std::string& why) const {
    return UsageError(fmt::format("{}, line {}, cell {}: {}", in_quotes(file), line, number, why));
  }
};

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

uint64_t bytes_in(std::string_view text, const Cell& cell) {
  if (text.empty()) throw cell.refuse("it is empty; write 0 where nothing is sent");
  if (text.find_first_not_of('0') == std::string_view::npos) return 0;
  uint64_t value = 0;
  try {
    value = parse_bytes(text).count;
  } catch (const UsageError&) {
    throw cell.refuse(fmt::format("{} is no number of bytes; write one like 4096 or 4KiB", in_quotes(text)));
  }
  if (value > largest_block)
    throw cell.refuse(
        fmt::format("{} is beyond every machine; write at most {} bytes", in_quotes(text), largest_block));
  return value;
}

std::string hash_of(const TrafficMatrix& matrix) {
  uint64_t hash = static_cast<uint64_t>(matrix.ranks);
  for (const uint64_t part : matrix.parts) hash = pattern::hash(hash, 0, part);
  return fmt::format("{:08x}", hash >> 32);
}

// ---- places of blocks

// Blocks begin at multiples of this number of elements.
uint64_t alignment(std::size_t element) { return std::max<uint64_t>(1, 16 / element); }

uint64_t length_of(uint64_t part, uint64_t elements, uint64_t busiest) {
  return static_cast<uint64_t>((Wide{part} * elements + busiest - 1) / busiest);
}

// The place of a block, from the sum of the parts before it and the number of blocks before it. Two units of alignment
// for each block leave space for rounding up its length and its place.
uint64_t place_of(uint64_t parts_before, int blocks_before, const Shape& shape) {
  const auto before = static_cast<uint64_t>(Wide{parts_before} * shape.traffic_elements / shape.traffic->busiest);
  return (before / shape.traffic_alignment + 2 * static_cast<uint64_t>(blocks_before)) * shape.traffic_alignment;
}

}  // namespace

std::span<const TrafficGenerator> traffic_generators() {
  static const std::vector<TrafficGenerator> all = [] {
    std::vector<TrafficGenerator> shown;
    for (const Generator& each : generators()) shown.push_back(each.shown);
    return shown;
  }();
  return all;
}

bool is_generated(std::string_view text) {
  return std::ranges::find(generators(), head_of(text), &Generator::name) != generators().end();
}

void check_generator(std::string_view text) { parse_generator(text); }

MatrixTraffic generate_traffic(const std::string& text, int ranks) {
  NamedGenerator it = parse_generator(text);
  it.draw.ranks = ranks;
  return make_traffic(text, it.generator->generate(it.draw));
}

bool routes_tokens(std::string_view text) {
  const auto found = std::ranges::find(generators(), head_of(text), &Generator::name);
  return found != generators().end() && found->route;
}

MatrixTraffic route_tokens(const std::string& text, int ranks) {
  if (!routes_tokens(text)) throw UsageError(fmt::format("{} says nothing of tokens", in_quotes(text)));
  NamedGenerator it = parse_generator(text);
  it.draw.ranks = ranks;
  auto routing = std::make_shared<const TokenRouting>(it.generator->route(it.draw));
  TrafficMatrix matrix = empty_matrix(ranks);
  for (int from = 0; from < ranks; ++from)
    for (int token = 0; token < routing->tokens; ++token)
      for (const int to : routing->of(from, token)) ++matrix.at(from, to);
  MatrixTraffic traffic = make_traffic(text, std::move(matrix));
  traffic.routing = std::move(routing);
  return traffic;
}

MatrixTraffic traffic_from_csv(const std::string& file, std::string_view text, int ranks) {
  const auto refuse = [&](const std::string& why) { return UsageError(fmt::format("{}: {}", in_quotes(file), why)); };
  const std::string what_to_write =
      fmt::format("write {} lines of {} numbers of bytes with commas between them, one for each rank", ranks, ranks);
  TrafficMatrix matrix{ranks, {}};
  size_t number = 0;
  int rows = 0;
  for (const std::string& whole : split(text, '\n')) {
    ++number;
    const std::string_view line = trimmed(std::string_view(whole).substr(0, whole.find('#')));
    if (line.empty()) continue;
    const std::vector<std::string> cells = split(line);
    if (std::cmp_not_equal(cells.size(), ranks))
      throw refuse(
          fmt::format("line {} has {} cells, and the group {} ranks; {}", number, cells.size(), ranks, what_to_write));
    if (++rows > ranks)
      throw refuse(fmt::format("line {} is one too many for {} ranks; {}", number, ranks, what_to_write));
    for (size_t i = 0; i < cells.size(); ++i)
      matrix.parts.push_back(bytes_in(trimmed(cells[i]), {file, number, i + 1}));
  }
  if (rows < ranks)
    throw refuse(fmt::format("it has {} lines, and the group {} ranks; {}", rows, ranks, what_to_write));
  std::string name = fmt::format("{} {}", printable(std::filesystem::path(file).filename().string()), hash_of(matrix));
  try {
    MatrixTraffic traffic = make_traffic(std::move(name), std::move(matrix));
    traffic.counts_bytes = true;
    return traffic;
  } catch (const UsageError& problem) {
    throw refuse(problem.what());
  }
}

MatrixTraffic make_traffic(std::string name, TrafficMatrix matrix) {
  MatrixTraffic traffic;
  traffic.name = std::move(name);
  traffic.matrix = std::move(matrix);
  const TrafficMatrix& m = traffic.matrix;
  if (std::ranges::any_of(m.parts, [](uint64_t part) { return part > largest_block; }))
    throw UsageError("a block is beyond every machine");
  traffic.busiest = busiest_sum(m);
  traffic.sent_before.resize(m.parts.size());
  traffic.received_before.resize(m.parts.size());
  bool sends = false;
  for (int rank = 0; rank < m.ranks; ++rank) {
    uint64_t sent = 0, received = 0;
    for (int other = 0; other < m.ranks; ++other) {
      const auto row = static_cast<size_t>(rank) * static_cast<size_t>(m.ranks) + static_cast<size_t>(other);
      const auto column = static_cast<size_t>(other) * static_cast<size_t>(m.ranks) + static_cast<size_t>(rank);
      traffic.sent_before[row] = std::exchange(sent, sent + m.parts[row]);
      traffic.received_before[column] = std::exchange(received, received + m.parts[column]);
      sends = sends || (rank != other && m.parts[row] > 0);
    }
  }
  if (!sends) throw UsageError("no rank sends anything to another one; give a block outside the diagonal bytes");
  return traffic;
}

Shape shape_of(std::shared_ptr<const MatrixTraffic> traffic, Bytes size, std::size_t element) {
  const int n = traffic->matrix.ranks;
  Shape shape;
  shape.traffic_elements = std::max<uint64_t>(1, (size.count + element - 1) / element);
  shape.traffic_alignment = alignment(element);
  shape.traffic = std::move(traffic);
  uint64_t most = 0;
  std::vector<uint64_t> received(static_cast<size_t>(n));
  for (int from = 0; from < n; ++from) {
    uint64_t sent = 0;
    for (int to = 0; to < n; ++to) {
      const Block block = block_of_traffic(shape, from, to);
      shape.input_elements = std::max(shape.input_elements, block.input_offset + block.elements);
      shape.output_elements = std::max(shape.output_elements, block.output_offset + block.elements);
      sent += block.elements;
      received[static_cast<size_t>(to)] += block.elements;
    }
    most = std::max(most, sent);
  }
  most = std::max(most, *std::ranges::max_element(received));
  shape.bytes = shape.bytes_per_rank = {most * element};
  return shape;
}

Block block_of_traffic(const Shape& shape, int from, int to) {
  const MatrixTraffic& traffic = *shape.traffic;
  const auto at = static_cast<size_t>(from) * static_cast<size_t>(traffic.matrix.ranks) + static_cast<size_t>(to);
  const uint64_t part = traffic.matrix.parts[at];
  if (part == 0) return {};
  return {.elements = length_of(part, shape.traffic_elements, traffic.busiest),
          .input_offset = place_of(traffic.sent_before[at], to, shape),
          .output_offset = place_of(traffic.received_before[at], from, shape)};
}

}  // namespace p5
