// The command line as a value. Parsing checks all that can be checked without knowing the job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/data_type.hpp"
#include "bench/units.hpp"

namespace p5 {

struct Options {
  std::string command = "run";  // run, tune, plan, list, report, topo

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
  std::string group = "world";
  Seconds budget{600};
  Seconds timeout{30};
  std::string platform;  // "" : detected
  int nodes = 1;         // sim only
  std::vector<std::string> faults;
  std::string cluster;  // "" : the scheduler's, else platform and node count
  std::string out = "p5bench-out";
  std::vector<std::string> formats{"json", "html", "console"};
  std::optional<std::uint64_t> seed;
  bool quiet = false;
  bool environment_of_rank0 = true;  // --env rank0: workers get rank 0's NCCL variables; local: each its own
  bool allow_shared_gpu = false;
  std::string tune;  // off, quick, full; "": quick in a run, full in tune. Without effect where nothing can be tuned

  std::string list_what;    // list
  std::string report_file;  // report

  std::string load_file, record_file, rank_file;  // topo
};

// A parse that ends the program without running a command: help and version.
struct EarlyText {
  std::string text;
};

struct Parsed {
  Options options;
  std::optional<EarlyText> early;
};

// arguments: without the program's name. Throws UsageError.
Parsed parse_options(const std::vector<std::string>& arguments);

std::string_view version();

}  // namespace p5
