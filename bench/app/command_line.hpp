// Converts the command line to Options, and checks all that does not depend on the job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/model/options.hpp"

namespace p5 {

// The options of a command by default. ab: sizes by factor 4 in the two collectives that show a slower library or
// fabric, so that seven launches per arm take less than three minutes on one node.
Options defaults_of(const std::string& command);

// True if a command takes options of a run: all, or a few as `check`.
bool measures(const std::string& command);

// Text that is printed instead of running a command: help, version, descriptions.
struct EarlyText {
  std::string text;
};

struct Parsed {
  Options options;
  std::optional<EarlyText> early;
};

// arguments: without the program name. Throws UsageError.
Parsed parse_options(const std::vector<std::string>& arguments);

// Content of the file that --traffic names; "" without one. Throws UsageError.
std::string read_traffic_file(const Options& options);
// The same for --job.
std::string read_job_file(const Options& options);

}  // namespace p5
