// Result of the tuner as a value of the report: "tuning" in report.json. Settings are texts ("ring/ll128/16"); a gain
// is the fraction of the default's time that is saved.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/base/statistics.hpp"

namespace p5::reports {

struct TuningGain {
  double default_s = 0, tuned_s = 0;  // medians
  double share = 0;                   // 1 - tuned / default
  std::optional<Interval> interval;   // 95 % interval of the share; null for a single process
};

// A setting that NCCL offered or the search tried for a size.
struct TuningSetting {
  std::string setting;  // or "default"
  std::optional<double> median_us;
  std::optional<double> launched_us;   // including the launch
  int samples = 0;                     // behind the median
  std::optional<double> predicted_us;  // NCCL's prediction, which determines its choice
  bool chosen = false;                 // NCCL's default
};

// One size in the search.
struct TuningSizePoint {
  std::string collective;
  std::uint64_t bytes = 0, tuner_bytes = 0;  // bytes of the case, and as NCCL reports them to tuners
  int candidates = 0, samples = 0;           // settings tried, and samples of them and of the default
  std::optional<std::string> winner;         // fastest setting of the search
  bool believed = false;                     // confirmed, and in the table
  std::optional<double> noise;               // relative standard deviation of the default's samples
  std::optional<TuningGain> gain;            // in the search
  std::string because;
  std::vector<TuningSetting> settings;  // the default first
};

struct TuningFailure {
  std::string collective;
  std::uint64_t bytes = 0;
  std::string setting;  // or "default"
  bool wrong_data = false;
  std::string because;
};

// An environment tried in fresh processes.
struct TuningArm {
  std::string name;
  std::map<std::string, std::string> environment;
  std::optional<double> speedup;     // null: it failed
  std::optional<Interval> interval;  // interval of the speed-up
  bool adopted = false;
};

// A call mode compared with plain calls in the same processes, at one size.
struct TuningCallModeSize {
  std::string collective;
  std::uint64_t bytes = 0;
  std::optional<TuningGain> gain;  // null: not measured
  std::string because;             // reason if not measured
  // True if the mode saves or costs at least 3 % of the time by its interval: worth a change of an application.
  bool pays() const { return gain && gain->interval && gain->interval->low >= 0.03; }
  bool costs() const { return gain && gain->interval && gain->interval->high <= -0.03; }
};
struct TuningCallMode {
  std::string name;  // "registered buffers"
  std::string how;   // instructions for a job
  std::vector<TuningCallModeSize> sizes;
};

struct TuningRow {
  std::string collective;
  std::uint64_t from = 0, to = 0;  // sizes as NCCL reports them to tuners
  std::string setting;
  double microseconds = 0;
};

// One size with the written files against the default, in fresh processes.
struct TuningConfirmation {
  std::string collective;
  std::uint64_t tuner_bytes = 0;
  std::optional<std::string> setting;       // in the final table; null: the default
  std::optional<TuningGain> gain;           // time on the device
  std::optional<TuningGain> launched_gain;  // including the launch
  std::string verdict;
};

struct TuningStage {
  std::string name;  // preparation, search, variables, ways of calling, confirmation
  double seconds = 0;
};

struct Tuning {
  std::string mode;     // quick, full, exhaustive
  std::string outcome;  // settings: the files set something; nothing: the default stays; refused: undecided
  std::string because;  // one sentence
  std::uint64_t seed = 0;
  double wall_s = 0;
  std::vector<TuningStage> stages;  // parts of wall_s, without the workers' teardown
  int nccl_version = 0;             // ncclGetVersion()
  int ranks = 0, nodes = 0;
  std::optional<double> drift;  // relative change of the default during tuning; in reports before 2026-11-23
  std::vector<TuningSizePoint> size_points;
  std::vector<TuningFailure> failures;
  std::vector<TuningArm> arms;
  std::vector<TuningCallMode> call_modes;
  std::map<std::string, std::string> environment;  // from the written files
  std::vector<TuningRow> rows;                     // from the written files
  std::vector<TuningConfirmation> confirmations;
  std::optional<TuningGain> step;     // of the job's step (--job), with all settings
  int processes = 0;                  // fresh launches per side in the confirmation
  std::vector<std::string> refusals;  // dropped rows, unknown variables, skipped work: a sentence each
  std::vector<std::string> files;     // names
  // Launcher name and the line that loads the settings into a job. If the files are not on all hosts, only "ssh" and
  // the line that copies them.
  std::vector<std::pair<std::string, std::string>> loading;
};

nlohmann::json to_json(const Tuning& tuning);
// Throws nlohmann's exceptions or UsageError when something is missing or wrong.
Tuning tuning_from_json(const nlohmann::json& j);

}  // namespace p5::reports
