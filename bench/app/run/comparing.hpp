// Comparisons: reading runs, comparing with a baseline or between arms, writing the result, and the text that ends a
// run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/model/options.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/report.hpp"

namespace p5 {

// All runs of these files and folders, each once. Throws UsageError.
std::vector<reports::Run> read_runs(const std::vector<std::string>& paths, reports::Reading reading);

// A remark for each baseline that a side passes over since its folder has runs (reports::find_baselines_beside_runs()).
std::vector<std::string> remarks_on_baselines(const char* side, const std::vector<std::string>& passed_over);

// Reads the baseline of a file or folder: the healthy runs of the hardware of `about`. `fresh` is the run that is
// compared, or that is continued, where it is on the disk: it counts only if there is no other. Throws UsageError, also
// if no run is left: before anything is measured.
reports::Side read_baseline(const std::string& path, const reports::Report& about, const reports::Run* fresh = nullptr);

// Writes the comparison in those of the formats that support one and are files; returns their paths.
std::vector<std::filesystem::path> write_comparison(const reports::Comparison& comparison,
                                                    const std::vector<std::string>& formats,
                                                    const std::filesystem::path& folder);

// Compares arm b with arm a, from a report with two arms and its journal with samples. Returns nothing if they cannot
// be compared, and sets `why_not`.
std::optional<reports::Comparison> compare_arms(const reports::Report& report,
                                                const std::vector<reports::Result>& journal, std::string& why_not);

// The outcome of a comparison. A comparison that fails puts the reason in `text` and does not cost the run its report.
struct ComparisonOutput {
  ExitCode code = ExitCode::ok;
  std::string text;      // printed on the console
  std::string headline;  // the answer in a sentence; "" if there is none
};

// The result of `ab`, written in all selected formats beside the report.
ComparisonOutput compare_own_arms(const reports::Report& report, const std::vector<reports::Result>& journal,
                                  const Options& options, const std::filesystem::path& folder);

// Compares the run whose report is in `folder` with --baseline.
ComparisonOutput compare_with_baseline(const reports::Side& baseline, const reports::Report& report,
                                       const Options& options, const std::filesystem::path& folder);

// The console text that ends a run: the whole report, one line, or for `check` one line per node. `comparison`: the
// text of the arms' comparison.
std::string closing_text(const reports::Report& report, const Options& options, const std::string& comparison);

}  // namespace p5
