// The end of a run: what it is compared with, and its last words on the console.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/model/options.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/report.hpp"

namespace p5 {

// Of a report with two arms and the lines of its journal, with their samples: is arm b slower than arm a? Nothing where
// there is nothing to compare; `why_not` then says why.
std::optional<reports::Comparison> compare_arms(const reports::Report& report,
                                                const std::vector<reports::Result>& journal, std::string& why_not);

// What a comparison says; one that cannot be made says why, and does not cost the run its report.
struct ComparisonOutput {
  ExitCode code = ExitCode::ok;
  std::string text;  // for the console
};

// The answer of an `ab`, in all wanted formats beside the report.
ComparisonOutput compare_own_arms(const reports::Report& report, const std::vector<reports::Result>& journal,
                                  const Options& options, const std::filesystem::path& folder);

// The same of a run whose report lies in the folder, against --baseline.
ComparisonOutput compare_with_baseline(const reports::Side& baseline, const reports::Report& report,
                                       const Options& options, const std::filesystem::path& folder);

// The whole on a console, or one line; of a check a line for each node. `comparison`: of the arms.
std::string closing_text(const reports::Report& report, const Options& options, const std::string& comparison);

}  // namespace p5
