// The files that carry a tuning result to jobs, as texts: nccl.env, nccl.env.sh, nccl.conf, nccl-tuner.csv and others.
// Nothing here writes to a disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tuner/arms.hpp"
#include "tuner/candidates.hpp"
#include "tuner/gain.hpp"
#include "tuner/table.hpp"

namespace p5::tuner {

// One line of the gain table.
struct GainLine {
  std::string collective;
  std::uint64_t bytes = 0;
  std::string setting;  // "ring/ll128/16", or the variables
  Gain gain;
  std::optional<Gain> alone = {};  // of the operation alone, where `gain` is beside other work
};

struct StepGain {
  std::string job;
  Gain gain;
};

struct TuningResult {
  std::string cluster, date, version;  // `version`: p5bench's
  // Conditions of validity in the order of printing: {"NCCL", "2.28.3"}, {"driver", "580.95"}, ...
  std::vector<std::pair<std::string, std::string>> valid_for;
  // Variables that were set outside while it was measured. Jobs need them too: with others NCCL's default is another.
  Environment outside;
  // Work beside which the settings were found, in the form of --beside; empty: of operations alone.
  std::vector<std::string> beside = {};
  double alone_loss = 0;    // with `beside`: the share by which an operation may be slower alone
  bool decided = true;      // false: nothing was compared with the default, or nothing could be confirmed
  Environment environment;  // of the best arm
  // With `environment`, where it was compared with the default: by how much it was faster, and operations alone.
  std::optional<Objective> environment_speedup = {}, environment_speedup_alone = {};
  std::vector<SizePoint> environment_judged_at = {};  // where it was compared with the default, by collective
  Table table;                                        // confirmed; its nodes are NVLink domains, as NCCL counts
  int hosts = 0;                                      // of its communicators, where domains have several hosts; else 0
  std::vector<Table> kept;  // of earlier tunings; those for other communicators are kept in the same file
  std::vector<std::string> kept_conditions = {};  // of them, by conditions_of_tables()
  std::vector<GainLine> gains;
  std::optional<StepGain> step;  // of a job's step with all of it
  int size_points = 0;           // judged
  int candidates_tried = 0;      // at all of them, for the note on multiple comparisons
  std::string
      no_settings_reason;  // reason why nothing is set; "" where something is, or where nothing beat the default
  // Absolute paths as jobs see them: the files' folder, and the plugin's library. The plugin is used only where the
  // table has rows and both are given.
  std::string folder, plugin;
};

struct NamedFile {
  std::string name, text;
};

inline constexpr const char* plugin_file_name = "libnccl-tuner-p5bench.so";
// The library whose tuner our plugin asks about calls without a setting.
inline constexpr const char* chain_variable = "P5BENCH_TUNER_CHAIN";
// The variable of nccl.env that says beside which work the settings were found. NCCL does not read it; p5bench warns
// where it measures something else with them.
inline constexpr const char* beside_variable = "P5BENCH_TUNER_BESIDE";
// The value of that variable for these works, in the form of --beside. It needs no quotes: readers of nccl.env know
// none.
std::string beside_value(const std::vector<std::string>& works);

// The comments of a file that was put into an nccl-tuner.csv, as far as its settings cannot be in one file with others.
struct TableHead {
  std::string works;        // beside which they were found; "": operations alone
  bool registered = false;  // they are for calls on registered buffers too
};
std::vector<TableHead> heads_of_tables(std::string_view csv);

// The lines under "Valid for:" in the comments of the files that were put together in an nccl-tuner.csv.
std::vector<std::string> conditions_of_tables(std::string_view csv);

// The tables of an nccl-tuner.csv that a tuning keeps, and the conditions in it.
struct KeptTables {
  std::vector<Table> tables;
  std::vector<std::string> conditions;
};

// The variables of nccl.env: the environment's, with the chained tuner and what decides calls on registered buffers,
// and those that load the plugin with its table and the table's hash, with which no rank starts with another table.
Environment variables_of(const TuningResult& result);

// nccl.env, nccl.env.sh, nccl.conf, nccl-tuner.csv. If nothing beats the default they set nothing and say so. A value
// that a format cannot hold safely is replaced by a comment that names the file with the value. Throws
// std::invalid_argument when the name of a variable or the table is invalid.
std::vector<NamedFile> tuning_files(const TuningResult& result);
// nccl-tuner.csv alone.
NamedFile table_file(const TuningResult& result);

// Commands that start jobs with the settings, for the user to copy. Folders in them are quoted.
struct LoadCommand {
  std::string launcher, line;
};
std::vector<LoadCommand> load_commands(const TuningResult& result);

// The command that copies the files from this host to the hosts that do not have them.
LoadCommand copy_command(const TuningResult& result, const std::vector<NamedFile>& files,
                         const std::vector<std::string>& hosts);

// A Kubernetes ConfigMap (YAML) with the variables, for envFrom.
std::string config_map(const TuningResult& result);

// nccl-tuner-example.conf for the example plugin of NCCL's sources (plugins/tuner/example), which runs each call
// without a row with one channel. All calls therefore need a row with a channel count. `standard`: NCCL's own choices
// for all five functions at the measured sizes. `taken`: NCCL's choices with settings that leave the count open, at
// sizes within their rows. Returns a sentence where a count is not known.
std::variant<NamedFile, std::string> example_plugin_csv(const TuningResult& result, const std::vector<Row>& standard,
                                                        const std::vector<Row>& taken);

// nccl-tuned-calls.h: a C header with the settings for programs that give them to each call (ncclAllReduceConfig() and
// others, NCCL 2.31.2 on), which need no plugin. Returns a sentence where NCCL is too old or there is nothing to set.
std::variant<NamedFile, std::string> calls_header(const TuningResult& result);

// A double-quoted YAML scalar in ASCII, on one line. Null where the text is not UTF-8, which YAML requires.
std::optional<std::string> yaml_text(std::string_view text);

}  // namespace p5::tuner
