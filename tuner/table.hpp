// What libnccl-tuner-p5bench.so does for which call: the rows of nccl-tuner.csv. Standard library only, because the
// plugin is loaded into other people's programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace p5::tuner {

// What NCCL asks a tuner about, in the order of its plugin interface (ncclFunc_t).
enum class Function { broadcast, reduce, all_gather, reduce_scatter, all_reduce };
// In the order of the cost table's rows and columns.
enum class Algorithm { tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat };
enum class Protocol { ll, ll128, simple };

std::string_view name_of(Function function);
std::string_view name_of(Algorithm algorithm);
std::string_view name_of(Protocol protocol);
std::optional<Function> parse_function(std::string_view name);
std::optional<Algorithm> parse_algorithm(std::string_view name);
std::optional<Protocol> parse_protocol(std::string_view name);

// More than this NCCL does not have.
inline constexpr int most_channels = 64;
// NCCL rounds chunks down to what a protocol moves at once (up to 1920 bytes), and with chunks of nothing it hangs.
inline constexpr std::uint64_t least_chunk = 4096;

// One way to run a call. 0 channels, 0 bytes of chunk: NCCL's own choice.
struct Setting {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  int channels = 0;
  std::uint64_t chunk = 0;
  bool operator==(const Setting&) const = default;
};
inline bool same_kind(const Setting& a, const Setting& b) {
  return a.algorithm == b.algorithm && a.protocol == b.protocol;
}

// "ring/ll128", "ring/ll128/16", "ring/ll128/16/524288": at the edges, in cases and in reports.
std::string to_text(const Setting& setting);
std::optional<Setting> parse_setting(std::string_view text);

// Calls of a function whose bytes lie in [from, to]. Bytes as NCCL counts them for tuners: of all_gather the whole
// output, of reduce_scatter the whole input, else one rank's buffer.
struct Row {
  Function function = Function::all_reduce;
  std::uint64_t from = 0, to = 0;
  Setting setting;
  double microseconds = 0;  // measured, for a call in the middle of the range
  bool operator==(const Row&) const = default;
};

// Valid for exactly this library version, number of ranks and number of nodes.
struct Table {
  int nccl_version = 0;  // as ncclGetVersion counts: 22803
  int ranks = 0, nodes = 0;
  std::vector<Row> rows;  // of one function they do not overlap; calls in no row are NCCL's own business
  bool operator==(const Table&) const = default;
};

// 22803 is 2.28.3.
std::string version_text(int nccl_version);

// The table for such communicators, or null. Version 0: not known, any.
const Table* find_table(const std::vector<Table>& tables, int nccl_version, std::uint64_t ranks, std::uint64_t nodes);

// The row for a call, or null.
const Row* find_row(const Table& table, Function function, std::uint64_t bytes);

// The file: comment lines (#), then "format,1", "nccl,22803", "ranks,32", "nodes,4", the names of the columns, and one
// line for each row. Several files one after the other are a file too, of tables for different communicators. Throws
// std::invalid_argument when parse_csv would refuse the result.
std::string to_csv(const Table& table, std::string_view comment);
// The tables, one at least, or what is wrong with the text: "line 7: ...". Anything that is not exactly as to_csv
// writes it is refused, but for comments and empty lines anywhere.
std::variant<std::vector<Table>, std::string> parse_csv(std::string_view text);

// By which two copies of a file are told apart: 64 bits of FNV-1a, as 16 hexadecimal digits. Against accidents, not
// against anybody.
std::string fingerprint(std::string_view text);

}  // namespace p5::tuner
