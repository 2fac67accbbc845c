// run --resume: going on with a run that was ended before its plan. At the leader only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

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

// What stands of an earlier run, with the lines of its journal: what was measured, and what failed. Still to be
// measured are skipped cases and the one that a signal interrupted.
struct Kept {
  std::vector<reports::Result> results;
  std::string journal;
};
// Throws UsageError naming what differs where `fresh`, the report as this run begins it, is of another job or machine,
// or where `planned` lacks a case that was measured; and where nothing is left to measure.
Kept keep_results(const EarlierRun& earlier, const reports::Report& fresh, const std::vector<Case>& planned);

// Places in `planned` of what is still to be measured.
std::vector<std::size_t> left_to_measure(const std::vector<Case>& planned, const Kept& kept);

}  // namespace p5
