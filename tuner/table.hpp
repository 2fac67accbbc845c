// Settings of single NCCL calls, and the rows of nccl-tuner.csv, which libnccl-tuner-p5bench.so reads. Standard library
// only, because the plugin is loaded into other people's programs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace p5::tuner {

// Functions that NCCL queries a tuner about, in the order of ncclFunc_t.
enum class Function { broadcast, reduce, all_gather, reduce_scatter, all_reduce };
// Rows and columns of NCCL's cost table, in its order.
enum class Algorithm { tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat };
enum class Protocol { ll, ll128, simple };

inline constexpr std::array all_functions{Function::broadcast, Function::reduce, Function::all_gather,
                                          Function::reduce_scatter, Function::all_reduce};
inline constexpr std::array all_algorithms{
    Algorithm::tree,      Algorithm::ring, Algorithm::collnet_direct, Algorithm::collnet_chain, Algorithm::nvls,
    Algorithm::nvls_tree, Algorithm::pat};
inline constexpr std::array all_protocols{Protocol::ll, Protocol::ll128, Protocol::simple};

std::string_view name_of(Function function);
std::string_view name_of(Algorithm algorithm);
std::string_view name_of(Protocol protocol);
std::optional<Function> parse_function(std::string_view name);
std::optional<Algorithm> parse_algorithm(std::string_view name);
std::optional<Protocol> parse_protocol(std::string_view name);

// NCCL's own limit (MAXCHANNELS).
inline constexpr int most_channels = 64;
// NCCL rounds chunks down to multiples of a protocol's step (up to 1920 bytes), and hangs where that leaves 0.
inline constexpr std::uint64_t least_chunk = 4096;

// The way in which NCCL runs one call. 0 channels and a chunk of 0 bytes leave the choice to NCCL.
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

// Text form in options, cases and reports: "ring/ll128", "ring/ll128/16", "ring/ll128/16/524288".
std::string to_text(const Setting& setting);
std::optional<Setting> parse_setting(std::string_view text);

// Value of algSelection in ncclCollConfig_t (NCCL 2.31.2) that leaves only the setting's algorithm and protocol; ""
// where NCCL has no such kernel.
std::string alg_selection(const Setting& setting);

// With the value "rows", rows decide calls on registered buffers and in CUDA graphs too. The same on all ranks.
inline constexpr const char* registered_variable = "P5BENCH_TUNER_REGISTERED";
inline constexpr std::string_view rows_for_registered = "rows";
// The first version of NCCL, and of its interface for tuners, that tells a tuner of registered buffers.
inline constexpr int first_nccl_with_registration = 22400, first_interface_with_registration = 4;
// Variables by which PyTorch registers each segment of its allocator (torch/csrc/distributed/c10d).
inline constexpr std::array allocator_hooks{"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
                                            "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"};
// True for what PyTorch takes for "on" (getCvarBool).
bool is_on(std::string_view value);

// True where all ranks give NCCL an input and an output, so that all are told alike whether these are registered: of
// broadcast and reduce only the root needs both.
inline bool has_both_buffers_everywhere(Function function) {
  return function != Function::broadcast && function != Function::reduce;
}

// Calls of a function whose bytes lie in [from, to]. NCCL counts bytes for tuners so: the whole output of all_gather,
// the whole input of reduce_scatter, else one rank's buffer.
struct Row {
  Function function = Function::all_reduce;
  std::uint64_t from = 0, to = 0;
  Setting setting;
  double microseconds = 0;  // measured, for a call in the middle of the range
  bool operator==(const Row&) const = default;
};

// Valid for exactly this NCCL version, number of ranks and number of nodes.
struct Table {
  int nccl_version = 0;  // as ncclGetVersion counts: 22803
  int ranks = 0, nodes = 0;
  std::vector<Row> rows;  // rows of one function do not overlap; NCCL decides about calls in no row
  bool operator==(const Table&) const = default;
};

// "2.28.3" for 22803.
std::string version_text(int nccl_version);

// The table for such communicators, or null. Version 0 is an unknown one, which no table is for.
const Table* find_table(const std::vector<Table>& tables, int nccl_version, std::uint64_t ranks, std::uint64_t nodes);

// The row for a call, or null.
const Row* find_row(const Table& table, Function function, std::uint64_t bytes);

// Writes comment lines (#), then "format,1", "nccl,22803", "ranks,32", "nodes,4", the names of the columns, and one
// line for each row. Concatenated files are a valid file with several tables. Throws std::invalid_argument when
// parse_csv would refuse the result.
std::string to_csv(const Table& table, std::string_view comment);
// Returns the tables, at least one, or an error: "line 7: ...". Refuses anything that is not exactly as to_csv writes
// it, except for comments and empty lines anywhere.
std::variant<std::vector<Table>, std::string> parse_csv(std::string_view text);

// 64-bit FNV-1a hash as 16 hexadecimal digits. It detects accidental differences between copies, not attacks.
std::string fingerprint(std::string_view text);

}  // namespace p5::tuner
