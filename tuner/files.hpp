// The files that carry a tuning result to jobs: nccl.env, nccl.env.sh, nccl.conf, nccl-tuner.csv, and what loads them.
// One value in, texts out; nothing here touches a disk.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tuner/constraints.hpp"
#include "tuner/gain.hpp"
#include "tuner/table.hpp"

namespace p5::tuner {

// One line of the gain table.
struct GainLine {
  std::string collective;
  std::uint64_t bytes = 0;
  std::string setting;  // "ring/ll128/16", or the variables
  Gain gain;
};

struct TuningResult {
  std::string cluster, date, version;  // of p5bench
  // What it is valid for, in the order in which it is to be shown: {"NCCL", "2.28.3"}, {"driver", "580.95"}, ...
  std::vector<std::pair<std::string, std::string>> valid_for;
  Environment environment;  // of the arm that won
  Table table;              // confirmed
  std::vector<Table> kept;  // of earlier tunings, that stand in the same file where they are for other communicators
  std::vector<GainLine> gains;
  int size_points = 0;  // judged, and what was tried in them: for the warning about chance
  int candidates_tried = 0;
  std::string nothing_because;  // why nothing is set; "" where something is, or where nothing beat the default
  // Where the files will lie for the jobs, absolute. The plugin is used only where the table has rows and both are
  // given.
  std::string folder, plugin;
};

struct NamedFile {
  std::string name, text;
};

inline constexpr const char* plugin_file_name = "libnccl-tuner-p5bench.so";

// The variables of nccl.env: of the environment, and those that load the plugin with its table, of which they tell the
// hash, so that no rank starts with another.
Environment variables_of(const TuningResult& result);

// nccl.env, nccl.env.sh, nccl.conf, nccl-tuner.csv. If nothing beats the default they set nothing and say so. What a
// format cannot hold safely is left out there, and the file says where it is. Throws std::invalid_argument when a
// variable's name is none or the table is wrong.
std::vector<NamedFile> tuning_files(const TuningResult& result);
// The last of them.
NamedFile table_file(const TuningResult& result);

// What every file says first, without marks of a comment, in printable ASCII.
std::vector<std::string> header_lines(const TuningResult& result, const std::string& name);
// The tables of earlier tunings that stand in the file too.
std::vector<Table> kept_tables(const TuningResult& result);

// Lines to copy, for jobs that are to run with the settings. No value stands in any of them but the quoted folder.
struct LoadingLine {
  std::string launcher, line;
};
std::vector<LoadingLine> loading_lines(const TuningResult& result);

// For hosts that do not have the files: the line that copies them there, from the host where they are.
LoadingLine copying_line(const TuningResult& result, const std::vector<NamedFile>& files,
                         const std::vector<std::string>& hosts);

// A Kubernetes ConfigMap with the variables, for envFrom. YAML.
std::string config_map(const TuningResult& result);

// The table for the example plugin of NCCL's sources (plugins/tuner/example), which runs every call that it finds no
// row for with one channel. So all calls need a row with a channel count: `standard` says what NCCL chooses by itself
// at the sizes measured, of all five functions; `taken` what it takes with the settings that leave the count open, at
// sizes within their rows. A sentence where that is not known.
std::variant<NamedFile, std::string> example_plugin_csv(const TuningResult& result, const std::vector<Row>& standard,
                                                        const std::vector<Row>& taken);

}  // namespace p5::tuner
