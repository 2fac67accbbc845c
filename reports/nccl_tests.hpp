// What nccl-tests leaves (its table of versions 2.0 to 2.20, or the JSON of -J), read and turned into a report with
// provenance "imported". What it does not say is not made up.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports::nccl_tests {

// A figure of a table may have been this much smaller or larger before it was rounded; 0: it was not.
struct Rounding {
  double time_us = 0, algbw = 0, busbw = 0;
};

struct Timing {
  double time_us = 0;                  // one operation: a burst's time over its operations, as nccl-tests prints it
  std::optional<std::uint64_t> wrong;  // null: not checked, or not counted
  double algbw = 0, busbw = 0;         // GB/s, as printed; 0: not said
  std::vector<double> samples_us;      // -I: each iteration, the slowest process's
  Rounding rounding = {};
};

struct ResultRow {
  int line = 0;                       // of the file, from 1; 0 in JSON
  std::uint64_t size = 0, count = 0;  // bytes; elements, as printed
  std::string type, op;               // in nccl-tests' words; op "" or "none" where nothing is reduced
  int root = -1;
  std::optional<Timing> out_of_place, in_place;
};

struct Device {
  int rank = 0, group = 0;
  std::string host, name;
};

// One program that ran once.
struct Table {
  int line = 0;
  std::string program;  // "all_reduce_perf"; "" when nothing says it
  std::vector<Device> devices;
  int iterations = 0, aggregated = 1, graphs = 0;
  bool blocking = false;
  bool out_of_bounds = false;          // the footer says so
  std::vector<std::string> arguments;  // JSON only
  std::vector<ResultRow> rows;
};

struct Log {
  std::vector<Table> tables;
  std::map<std::string, std::string> context;  // versions; allow-listed variables
  std::vector<std::string> remarks;            // what was left out, with lines
  std::string ended_by;                        // why a program did not come to its end; "" where all did
};

// The program for a collective ("all_reduce_perf"), "" where there is none; an element type in nccl-tests' words.
std::string program_of(const Collective& collective);
std::string type_of(DataType type);

// Throw UsageError naming the line.
Log read_text(std::string_view text);
Log read_json(std::string_view text);

struct Imported {
  Report report;
  std::vector<Result> journal;  // each launch with its samples
};
// The user's word on the job, where the file has none; 0: nothing.
struct JobSize {
  int ranks = 0, hosts = 0;
};
// Of either. `collective` in p5bench's words stands where the file does not name the program; "" for none. Throws
// UsageError naming the line, or what has to be said.
Imported import(std::string_view text, const std::string& collective, const std::string& cluster,
                const JobSize& job = {});

}  // namespace p5::reports::nccl_tests
