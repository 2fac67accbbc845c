// Output of nccl-tests (its table, versions 2.0 to 2.20, or the JSON of -J) as a report with provenance "imported".
// Values that the output does not contain stay unset.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reports/report.hpp"
#include "topo/finding.hpp"

namespace p5::reports::nccl_tests {

// Largest rounding error of a printed figure, to either side; 0: not rounded.
struct Rounding {
  double time_us = 0, algbw = 0, busbw = 0;
};

struct Timing {
  double time_us = 0;                  // time per operation: burst time over operations, as printed
  std::optional<std::uint64_t> wrong;  // null: not checked, or not counted
  double algbw = 0, busbw = 0;         // GB/s, as printed; 0: not printed
  bool checked = true;                 // false: "N/A" stands in place of errors
  double deviation = 0;                // the largest, which versions up to 2.12 print in place of wrong elements
  std::vector<double> samples_us;      // iterations of -I, each the slowest process's
  Rounding rounding = {};
};

struct ResultRow {
  int line = 0;                       // line of the file, from 1; 0 in JSON
  std::size_t index = 0;              // in JSON's results
  std::uint64_t size = 0, count = 0;  // bytes; elements, as printed
  std::string type, op;               // nccl-tests' names; op is "" or "none" where nothing is reduced
  std::string timestamp = {};         // "2026-11-20 10:00:00", local time (-S); "" if not printed
  int root = -1;
  std::optional<Timing> out_of_place, in_place;
};

struct Device {
  int rank = 0, group = 0;
  std::string host, name;
  std::string process = {};  // its number, as printed
  std::string gpu = {};      // "0000:53:00" or, without the PCI domain, "2 [0x53]" with its number; "" if not printed
  bool operator==(const Device&) const = default;
};

// Sizes that a program was asked for; `factor` or `bytes` from one to the next. 0: not known.
struct Sizes {
  std::uint64_t least = 0, most = 0, factor = 0, bytes = 0;
};

// Output of one execution of a program.
struct Table {
  int line = 0;         // of the head; 0 in JSON
  std::string program;  // "all_reduce_perf"; "" if unknown
  std::string nccl;     // version of the library, as printed; "" if unknown
  std::vector<Device> devices;
  std::set<int> ranks;  // of the devices
  Sizes sizes;
  int iterations = 0, aggregated = 1, graphs = 0;
  CallOptions calls;  // of these, registration, CTA policy and offset, as far as they are known
  bool blocking = false;
  bool out_of_bounds = false;  // the footer says that data was wrong
  bool bounds_told = false;    // it says whether it was
  std::uint64_t values_out_of_bounds = 0;
  bool below_demanded = false;         // the average bandwidth is below NCCL_TESTS_MIN_BW
  std::vector<std::string> arguments;  // JSON only
  std::vector<ResultRow> rows;
};

struct Log {
  std::vector<Table> tables;
  std::map<std::string, std::string> context;  // versions; allow-listed variables
  std::vector<std::string> remarks;            // skipped parts, with line numbers
  std::string ended_by;                        // reason of an early end; "" if all programs finished
  std::string started;                         // "2026-11-20 10:00:00", local time; "" if not printed
};

// Program of a collective ("all_reduce_perf"; "" if there is none), and nccl-tests' name of an element type.
std::string program_of(const Collective& collective);
std::string type_of(DataType type);

// Parse a table or JSON. Throw UsageError naming the line.
Log read_text(std::string_view text);
Log read_json(std::string_view text);

struct Imported {
  Report report;
  std::vector<Result> journal;  // one entry per launch, with its samples
};
// Size of the job as given by the user, if the file lacks it; 0: not given.
struct JobSize {
  int ranks = 0, hosts = 0;
};
// Imports text or JSON. `collective` (p5bench's name) applies if the file does not name the program; "" for none.
// Throws UsageError naming the line or the missing option.
Imported import(std::string_view text, const std::string& collective, const std::string& cluster,
                const JobSize& job = {});

// Remarks of an import on what its figures are. Tables of imports have them as comments.
inline constexpr std::string_view of_simulator = "SIMULATED: the figures are of p5bench's simulator",
                                  means_over_ranks =
                                      "times are nccl-tests' means over ranks unless it ran with -a 3, not the slowest "
                                      "rank's",
                                  of_slowest_ranks = "a table of p5bench's: times are the slowest rank's",
                                  largest_over_ranks = "nccl-tests ran with -a 3: times are the slowest rank's";
// Key of an import's context: "yes" if operations were waited for one by one (-z).
inline constexpr std::string_view blocking_context = "nccl-tests.blocking";

// True for an import with this remark on its figures.
bool is_import_with(std::string_view remark, const Report& report);

// Finding of wrong data in a table that does not say where.
inline constexpr std::string_view out_of_bounds = "import.out_of_bounds";
// Kinds of the findings of import().
std::vector<topo::FindingKind> import_finding_kinds();

}  // namespace p5::reports::nccl_tests
