// The options of a command as a value; app/command_line and app/run_options parse them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/model/case.hpp"
#include "bench/model/data_type.hpp"
#include "bench/model/tokens.hpp"
#include "bench/model/work.hpp"

namespace p5 {

struct Options {
  std::set<std::string> given;  // options that the command line sets: "--max"
  std::string command = "run";  // run, tune, ab, check, plan, list, report, compare, baseline, import, explain, topo

  // The measuring commands
  std::string backend = "auto";
  std::vector<std::string> collectives{"p2p", "all_reduce", "all_gather"};
  Bytes min{8};
  Bytes max = GiB(4);
  bool max_given = false;
  int factor = 2;
  std::vector<Bytes> sizes;  // replaces min, max and factor when not empty
  // The same where nothing gives sizes: those of a traffic file or of tokens come first.
  std::vector<Bytes> usual_sizes;
  bool per_rank = false;
  std::vector<DataType> types{DataType::float32};
  std::vector<ReduceOp> ops{ReduceOp::sum};
  int root = 0;
  bool every_root = false;  // instead of `root`
  bool in_place = false;
  CallOptions calls;
  std::string group = "world";
  // "", the text of a generator or the name of a file, whose content rank 0 shares with all.
  std::string traffic, traffic_file_content;
  int hidden = usual_hidden;  // elements of a token
  std::vector<Work> beside;   // what runs at the same time as each collective
  // tune, ab: "", or the file of a job's step (p5bench.job/1), whose content rank 0 shares with all.
  std::string job, job_file_content;
  std::optional<Work> gaps;   // as Replay::products
  bool within_nodes = false;  // p2p: only pairs within nodes, all of them at the largest size
  Seconds budget{600};
  int launches = 1;  // fresh processes and communicators, for each arm
  Seconds soak{0};   // not 0: as many launches as fit in this time, each within the budget
  Seconds timeout{30};
  std::string platform;  // "": detected
  int nodes = 1;         // sim only
  std::vector<std::string> faults;
  std::string cluster;              // "": the scheduler's, else platform and node count
  std::string out = "p5bench-out";  // "": no files
  std::vector<std::string> formats{"json", "html", "console"};
  std::optional<std::uint64_t> seed;
  bool resume = false;  // continue the newest run in `out`
  bool quiet = false;
  bool table = false;                // the full table on the console
  bool environment_of_rank0 = true;  // --env rank0: workers get rank 0's NCCL variables; local: each rank's own
  bool allow_shared_gpu = false;
  std::string memory = "auto";  // memory of data that NICs move without NCCL: auto, gpu, host
  std::string tune;  // off, quick, full, exhaustive (for developers); "": quick in a tunable run, full in tune

  std::string delivery = "plugin";  // plugin (and variables), env: variables alone, nvidia or calls
  std::string weights;              // "", or a file with lines "collective bytes share": the weights of tuning
  double alone_loss = 0.02;         // tune beside other work: share by which a setting may make operations slower alone
  std::string keep_table;           // "", or an earlier nccl-tuner.csv whose tables for other communicators are kept

  // ab: variables of the arms, over the operator's, see parse_arm()
  std::map<std::string, std::string> a, b;

  // check: wall time from the start of the process to its end, and how long each GPU multiplies matrices besides.
  // deadline is set by the program: waiting ranks abort then, which leaves time to report. The burn postpones it.
  Seconds limit{20};
  Seconds burn{0};
  std::optional<Clock::time_point> deadline;

  std::string list_what;               // list
  std::string report_file, report_as;  // report: the file, and the format for the terminal

  // compare: reports or folders of reports
  std::vector<std::string> base_files, new_files;
  std::string base_arm = "default", new_arm = "default";
  bool across_hardware = false;
  std::string history;  // instead of both: compares the newest run of this folder with the earlier ones

  std::vector<std::string> baseline_files;  // baseline: the reports it is built from
  std::string baseline;                     // run, report: the baseline to compare with; "": none

  std::string import_what, import_collective;
  std::vector<std::string> import_files;
  int import_ranks = 0, import_hosts = 0;  // 0: from the file
  std::string import_started;              // UTC; "": from the file

  std::vector<std::string> explain_files;  // explain: logs; "-": stdin
  bool explain_json = false;

  std::string load_file, record_file, rank_file;  // topo

  bool gives_sizes() const { return !sizes.empty() || given.contains("--min") || given.contains("--max"); }
  bool checks() const { return command == "check"; }
  bool wants(std::string_view format) const { return std::ranges::find(formats, format) != formats.end(); }
  // A check or plan whose standard output other programs read.
  bool prints_json() const { return (checks() || command == "plan") && wants("json") && !wants("console"); }
  Seconds limit_with_burn() const { return {limit.count + burn.count}; }
  bool requests_tuning() const { return command == "tune" || (!tune.empty() && tune != "off"); }
};

// Parses an arm, "KEY=VALUE,KEY=VALUE": variables of its processes, over those of the operator; an empty value removes
// a variable, an empty text has none. A value may contain commas, as NCCL's do: text behind a comma without "NAME="
// belongs to the value before. Throws UsageError that names the error.
std::map<std::string, std::string> parse_arm(const std::string& text);

}  // namespace p5
