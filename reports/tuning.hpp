// What the tuner tried, believed and left behind, as a value of the report: "tuning" in report.json. Settings are texts
// here
// ("ring/ll128/16"); a gain is the share of the default's time that is saved.
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
  std::optional<Interval> interval;   // of the share, 95 %; null where one process alone was measured
};

// What NCCL offered or the search tried for a size.
struct TuningSetting {
  std::string setting;  // or "default"
  std::optional<double> median_us;
  std::optional<double> launched_us;   // with the time to launch it
  int samples = 0;                     // of the median
  std::optional<double> predicted_us;  // by NCCL, whose choice follows from it
  bool chosen = false;                 // by NCCL: what the default runs with
};

// One size in the search.
struct TuningSizePoint {
  std::string collective;
  std::uint64_t bytes = 0, tuner_bytes = 0;  // of the case, and as NCCL counts for tuners
  int candidates = 0, samples = 0;           // settings tried, and samples of them and the default
  std::optional<std::string> winner;         // of the race
  bool believed = false;                     // confirmed: in the table
  std::optional<double> noise;               // of the default's samples, as a standard deviation, relative
  std::optional<TuningGain> gain;            // in the race
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

// An environment that was tried in fresh processes.
struct TuningArm {
  std::string name;
  std::map<std::string, std::string> environment;
  std::optional<double> speedup;     // null: it failed
  std::optional<Interval> interval;  // of the speed-up
  bool adopted = false;
};

// A way of calling NCCL that is no setting, over plain calls in the same processes.
struct TuningCallModeSize {
  std::string collective;
  std::uint64_t bytes = 0;
  std::optional<TuningGain> gain;  // null: not measured
  std::string because;             // unless measured
  // Whether it is worth a change to an application, or costs one something: at least 3 % of the time, by its interval.
  bool pays() const { return gain && gain->interval && gain->interval->low >= 0.03; }
  bool costs() const { return gain && gain->interval && gain->interval->high <= -0.03; }
};
struct TuningCallMode {
  std::string name;  // "registered buffers"
  std::string how;   // a job gets it
  std::vector<TuningCallModeSize> sizes;
};

struct TuningRow {
  std::string collective;
  std::uint64_t from = 0, to = 0;  // as NCCL counts for tuners
  std::string setting;
  double microseconds = 0;
};

// One size with the files alone against the default, in fresh processes.
struct TuningConfirmation {
  std::string collective;
  std::uint64_t tuner_bytes = 0;
  std::optional<std::string> setting;       // of the final table; null: the default
  std::optional<TuningGain> gain;           // of the device
  std::optional<TuningGain> launched_gain;  // with the time to launch
  std::string verdict;
};

struct TuningStage {
  std::string name;  // preparation, search, variables, ways of calling, confirmation
  double seconds = 0;
};

struct Tuning {
  std::string mode;     // quick, full, exhaustive
  std::string outcome;  // settings: files set something; nothing: the default stays; refused: nobody can tell
  std::string because;  // one sentence
  std::uint64_t seed = 0;
  double wall_s = 0;
  std::vector<TuningStage> stages;  // what it is made of, but for the workers' end
  int nccl_version = 0;             // as ncclGetVersion counts
  int ranks = 0, nodes = 0;
  std::optional<double> drift;  // of the default while it was tuned, relative; in reports before 2026-11-23
  std::vector<TuningSizePoint> size_points;
  std::vector<TuningFailure> failures;
  std::vector<TuningArm> arms;
  std::vector<TuningCallMode> call_modes;
  std::map<std::string, std::string> environment;  // of the files
  std::vector<TuningRow> rows;                     // of the files
  std::vector<TuningConfirmation> confirmations;
  int processes = 0;  // fresh launches of each side in the confirmation
  std::vector<std::string>
      refusals;                    // rows dropped, variables not understood, what did not fit the time: a sentence each
  std::vector<std::string> files;  // names
  // What loads the settings into a job: a launcher's name and a line to copy. Where the files are not on all hosts
  // only "ssh" and the line that puts them there.
  std::vector<std::pair<std::string, std::string>> loading;
};

nlohmann::json to_json(const Tuning& tuning);
// Throws nlohmann's exceptions or UsageError when something is missing or wrong.
Tuning tuning_from_json(const nlohmann::json& j);

}  // namespace p5::reports
