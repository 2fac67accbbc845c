// What the user wants, as a value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/base/clock.hpp"
#include "bench/base/units.hpp"
#include "bench/model/data_type.hpp"

namespace p5 {

struct Options {
  std::set<std::string> given;  // names of the options that the command line has a value for: "--max"
  std::string command = "run";  // run, tune, ab, check, plan, list, report, compare, baseline, import, explain, topo

  // The measuring commands
  std::string backend = "auto";
  std::vector<std::string> collectives{"p2p", "all_reduce", "all_gather"};
  Bytes min{8};
  Bytes max = GiB(4);
  bool max_given = false;
  int factor = 2;
  std::vector<Bytes> sizes;  // instead of min, max and factor when not empty
  bool per_rank = false;
  std::vector<DataType> types{DataType::float32};
  std::vector<ReduceOp> ops{ReduceOp::sum};
  int root = 0;
  bool in_place = false;
  bool cuda_graph = false;
  std::string registration = "none";
  std::string group = "world";
  bool within_nodes = false;  // p2p: pairs within nodes alone, all of them at the largest size
  Seconds budget{600};
  int launches = 1;  // fresh processes and communicators, of each arm
  Seconds soak{0};   // not 0: as many launches as fit in this time, each within the budget
  Seconds timeout{30};
  std::string platform;  // "" : detected
  int nodes = 1;         // sim only
  std::vector<std::string> faults;
  std::string cluster;              // "" : the scheduler's, else platform and node count
  std::string out = "p5bench-out";  // "": no files
  std::vector<std::string> formats{"json", "html", "console"};
  std::optional<std::uint64_t> seed;
  bool resume = false;  // go on with the newest run in `out`
  bool quiet = false;
  bool table = false;                // the full table on the console
  bool environment_of_rank0 = true;  // --env rank0: workers get rank 0's NCCL variables; local: each its own
  bool allow_shared_gpu = false;
  std::string tune;  // off, quick, full, exhaustive (developers'); "": quick in a run where there is something to tune,
                     // full in tune

  std::string delivery =
      "plugin";            // what tuning may use: plugin (and variables), env: variables alone, nvidia or calls
  std::string weights;     // "", or a file: lines "collective bytes share", what tuning counts
  std::string keep_table;  // "", or an earlier nccl-tuner.csv, whose tables for others stay in the new one

  // ab: variables of the arms' processes over the operator's, see parse_arm()
  std::map<std::string, std::string> a, b;

  // check: the whole of it, from the start of the process to its end; and, filled in by the program, when whoever still
  // waits gives up, so that there is time to tell of it
  Seconds limit{20};
  Seconds burn{0};  // of a check: how long each GPU multiplies matrices besides; `limit` includes it
  std::optional<Clock::time_point> deadline;

  std::string list_what;               // list
  std::string report_file, report_as;  // report: the file, and the format for the terminal

  // compare: reports or folders of them
  std::vector<std::string> base_files, new_files;
  std::string base_arm = "default", new_arm = "default";
  bool across_hardware = false;
  std::string history;  // instead of both: the newest run of this folder against those before

  std::vector<std::string> baseline_files;  // baseline: what it is built from
  std::string baseline;                     // run, report: what it is compared with; "": nothing

  std::string import_what, import_file, import_collective;
  int import_ranks = 0, import_hosts = 0;  // 0: the file says it

  std::vector<std::string> explain_files;  // explain: logs; "-": stdin
  bool explain_json = false;

  std::string load_file, record_file, rank_file;  // topo

  bool checks() const { return command == "check"; }
  bool asks_for_tuning() const { return command == "tune" || (!tune.empty() && tune != "off"); }
};

}  // namespace p5
