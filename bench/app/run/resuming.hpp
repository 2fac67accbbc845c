// run --resume: going on with a run that was ended before its plan. Its journal is what it measured, launch by launch;
// its report says what it was. At the leader only.
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
  reports::Report report;                                    // with what only the journal holds yet
  std::vector<std::pair<std::string, std::string>> journal;  // of each whole line its case, and the line
};

// The newest run in the folder of --out. Throws UsageError where there is none that could be gone on with.
EarlierRun find_earlier_run(const Options& options);

// A line of an earlier run's journal that stands.
struct KeptLine {
  CaseInLaunch place;
  reports::Result result;
  std::string text;
};

// What stands of an earlier run: what was measured, and what failed. Still to be measured are skipped cases and those
// that a signal interrupted. Throws UsageError naming what differs where `fresh`, the report as this run begins it, is
// of another job or machine, or where `planned` in these arms lacks a case that was measured; where the journal cannot
// be read; and where the run was complete.
std::vector<KeptLine> keep_results(const EarlierRun& earlier, const reports::Report& fresh,
                                   const std::vector<Case>& planned, const std::vector<Arm>& arms);

}  // namespace p5
