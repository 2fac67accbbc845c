#include "tuner/calls.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <vector>

#include "tuner/alg_selection.hpp"

namespace p5::tuner {

namespace {

constexpr const char* calls_name = "nccl-tuned-calls.h";
// The first release in which ncclCollConfig_t has algSelection: 2.31.0a16 does not have it.
constexpr int first_with_selections = 23102;

// As in the text below.
constexpr std::array names_in_header{"P5BENCH_BROADCAST", "P5BENCH_REDUCE", "P5BENCH_ALL_GATHER",
                                     "P5BENCH_REDUCE_SCATTER", "P5BENCH_ALL_REDUCE"};

// @SINCE@ and @ROWS@ are replaced. C99 and C++11. With another NCCL than the tuned one it does nothing,
// whether that is known when it is compiled or only when it runs.
constexpr std::string_view calls_text = R"(#ifndef P5BENCH_NCCL_TUNED_CALLS_H
#define P5BENCH_NCCL_TUNED_CALLS_H

#include <nccl.h>
#include <stddef.h>

#if NCCL_VERSION_CODE >= @SINCE@
/* 1: p5bench_tuned_call() is there; 0: this NCCL has no settings for single calls. */
#define P5BENCH_NCCL_TUNED_CALLS 1

typedef enum {
  P5BENCH_BROADCAST,
  P5BENCH_REDUCE,
  P5BENCH_ALL_GATHER,
  P5BENCH_REDUCE_SCATTER,
  P5BENCH_ALL_REDUCE
} p5bench_function;

typedef struct {
  int nccl, ranks, nodes;
  p5bench_function function;
  unsigned long long from, to; /* bytes, both included */
  const char* algorithms;
  int channels; /* 0: NCCL's own number */
} p5bench_tuned_row;

/* Fills `config` for one call and returns 1, or leaves it alone and returns 0: then call as before.
 * nccl: of ncclGetVersion(); ranks: of ncclCommCount(); nodes: on how many hosts they are.
 * bytes: of all_gather the whole output, of reduce_scatter the whole input, else one rank's buffer.
 * All ranks of a communicator have to ask alike. `config` has to be NCCL_COLLCONFIG_INITIALIZER before. */
static inline int p5bench_tuned_call(int nccl, int ranks, int nodes, p5bench_function function, size_t bytes,
                                     ncclCollConfig_t* config) {
  static const p5bench_tuned_row rows[] = {
@ROWS@  };
  size_t i;
  for (i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    const p5bench_tuned_row* const row = &rows[i];
    if (row->nccl != nccl || row->ranks != ranks || row->nodes != nodes || row->function != function ||
        bytes < row->from || bytes > row->to)
      continue;
    config->algSelection = row->algorithms;
    config->forceAlgSelection = 0; /* where NCCL cannot run it so, it takes its own choice */
    if (row->channels > 0) config->minCTAs = config->maxCTAs = row->channels;
    return 1;
  }
  return 0;
}

#else
#define P5BENCH_NCCL_TUNED_CALLS 0
#endif

#endif
)";

std::string substituted(std::string text, std::string_view place, std::string_view value) {
  for (std::size_t at = text.find(place); at != std::string::npos; at = text.find(place, at + value.size()))
    text.replace(at, place.size(), value);
  return text;
}

// Without rows that no call can be told of: of chunks, and of kernels that NCCL does not have.
std::string row_lines(const Table& table) {
  std::string lines;
  if (table.nccl_version < first_with_selections) return lines;
  for (const Row& row : table.rows)
    if (const std::string selection = alg_selection(row.setting); !selection.empty() && row.setting.chunk == 0)
      lines += fmt::format("      {{{}, {}, {}, {}, {}ull, {}ull, \"{}\", {}}},\n", table.nccl_version, table.ranks,
                           table.nodes, names_in_header.at(static_cast<std::size_t>(row.function)), row.from, row.to,
                           selection, row.setting.channels);
  return lines;
}

}  // namespace

std::variant<NamedFile, std::string> calls_header(const TuningResult& result) {
  if (result.table.rows.empty()) return "There is nothing to set for single calls: nothing beats the default.";
  if (result.table.nccl_version < first_with_selections)
    return fmt::format("Settings for single calls need NCCL {}; this is {}.", version_text(first_with_selections),
                       version_text(result.table.nccl_version));
  std::string rows = row_lines(result.table);
  if (rows.empty()) return "None of the settings is one that NCCL takes for single calls.";
  for (const Table& each : kept_tables(result)) rows += row_lines(each);
  std::vector<std::string> lines = header_lines(result, calls_name);
  lines.push_back("");
  lines.push_back("For programs that call NCCL themselves and do not load the tuner plugin; not for both at once.");
  lines.push_back("The gains above were confirmed with the plugin, not with these calls. Such a call goes out alone:");
  lines.push_back("NCCL does not join it with others of its group.");
  lines.push_back("");
  for (const char* const line :
       {"    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;",
        "    p5bench_tuned_call(version, ranks, nodes, P5BENCH_ALL_REDUCE, bytes, &config);",
        "    ncclAllReduceConfig(send, receive, count, type, op, communicator, stream, &config);"})
    lines.emplace_back(line);
  std::string text = "/*\n";
  for (const std::string& line : lines)
    text += line.empty() ? " *\n" : " * " + substituted(substituted(line, "*/", "* /"), "/*", "/ *") + "\n";
  return NamedFile{calls_name, text + " */\n" +
                                   substituted(substituted(std::string(calls_text), "@SINCE@",
                                                           std::to_string(first_with_selections)),
                                               "@ROWS@", rows)};
}

}  // namespace p5::tuner
