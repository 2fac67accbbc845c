// What the tuner found, as the report's value: the tuner knows nothing of reports, and reports nothing of the tuner.
#pragma once

#include "bench/app/tuning/call_modes.hpp"
#include "reports/tuning.hpp"
#include "tuner/arms.hpp"
#include "tuner/confirm.hpp"
#include "tuner/files.hpp"

namespace p5 {

// What a tuning went through, as far as it came.
struct TuningCourse {
  std::string mode = "quick";  // or "full"
  std::uint64_t seed = 0;
  double wall_s = 0;
  std::vector<reports::TuningStage> stages;
  tuner::SearchResult search;
  bool left_out = false;  // for want of time, or of a way to confirm anything
  std::vector<tuner::JudgedArm> arms;
  std::vector<CallModeResult> call_modes;
  std::vector<tuner::ConfirmedSizePoint> confirmations;
  std::vector<std::string> dropped;  // rows and parts of rows that did not hold up
  int processes = 0;                 // that confirmed each side
  std::vector<std::string> remarks;  // of constraints, and whatever else was not done
};

reports::Tuning tuning_report(const TuningCourse& course, const tuner::TuningResult& result,
                              const std::vector<tuner::NamedFile>& files);

// The gain table of the files: the cells of the final table that were faster.
std::vector<tuner::GainLine> gain_lines(const std::vector<tuner::ConfirmedSizePoint>& confirmed);

}  // namespace p5
