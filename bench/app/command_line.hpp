// The command line becomes Options. Parsing checks all that can be checked without knowing the job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/model/options.hpp"

namespace p5 {

// What the options are when the command line does not say. ab: sizes by factor 4 in the two collectives that show a
// slower library or fabric, so that seven launches an arm take less than three minutes on one node.
Options defaults_of(const std::string& command);

// Whether a command takes options of a run: all of them, or, as `check`, a few.
bool measures(const std::string& command);

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

}  // namespace p5
