// Converts the tuner's result to the report's type: tuner and reports do not know each other.
#pragma once

#include "bench/app/tuning/alternatives.hpp"
#include "reports/tuning.hpp"
#include "tuner/arms.hpp"
#include "tuner/confirm.hpp"
#include "tuner/files.hpp"

namespace p5 {

// The course of a tuning, possibly incomplete.
struct TuningCourse {
  std::string mode = "quick";  // or "full"
  std::uint64_t seed = 0;
  double wall_s = 0;
  std::vector<reports::TuningStage> stages;
  tuner::SearchResult search;
  bool skipped = false;  // skipped: no time, or no way to confirm a result
  std::vector<tuner::JudgedArm> arms;
  std::vector<CallModeResult> call_modes;
  std::vector<tuner::ConfirmedSizePoint> confirmations;
  std::vector<std::string> dropped;  // rows and parts of rows that were not confirmed
  std::optional<tuner::Gain> step;   // of the job's step (--job), with everything that is set
  int processes = 0;                 // processes that confirmed each side
  std::vector<std::string> remarks;  // constraints and other omissions
};

reports::Tuning tuning_report(const TuningCourse& course, const tuner::TuningResult& result,
                              const std::vector<tuner::NamedFile>& files);

// The gain table of the files: size points of the final table that were faster.
std::vector<tuner::GainLine> gain_lines(const std::vector<tuner::ConfirmedSizePoint>& confirmed);

}  // namespace p5
