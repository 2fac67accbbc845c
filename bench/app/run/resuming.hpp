// `run --resume`: continues a run that ended early. Its journal has its results launch by launch; its report has its
// configuration. At the leader only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/measure/runner.hpp"
#include "bench/model/case.hpp"
#include "bench/model/options.hpp"
#include "reports/report.hpp"

namespace p5 {

struct EarlierRun {
  std::filesystem::path folder;
  reports::Report report;  // may lack results that only the journal has
};

// The newest run in --out. Throws UsageError if there is none to continue.
EarlierRun find_earlier_run(const Options& options);

// A journal line of an earlier run that is kept.
struct KeptLine {
  CaseInLaunch place;
  reports::Result result;
  std::string text;
};

// Results kept of an earlier run: measured and failed cases. Skipped cases and those that a signal interrupted are
// measured again. Throws UsageError, naming the difference, if `fresh` (the report at the start of this run) is of
// another job or machine, if `planned` in these arms lacks a measured case, if the journal cannot be read, or if the
// run was complete.
std::vector<KeptLine> keep_results(const EarlierRun& earlier, const reports::Report& fresh,
                                   const std::vector<Case>& planned, const std::vector<Arm>& arms);

}  // namespace p5
