// What each GPU did by itself (Report::local_checks): how it is called, and which one differs from the others.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/report.hpp"
#include "topo/finding.hpp"

namespace p5::reports {

// A figure of one GPU.
struct LocalCheck {
  std::string_view name;   // in the report, with its unit: "device_copy_gb_per_s"
  std::string_view label;  // "device copy"
  std::string_view unit;   // "GB/s", "us"
  bool more_is_better = true;
  double tolerated = 0;     // share by which one may be worse than the median of the others
  double condemned = 0;     // share from which on that is an error, which rejects the GPU's host; 0: never
  std::string_view action;  // where one is worse than that
};
std::span<const LocalCheck> local_checks();

// The id of a finding, a warning or an error: a GPU that is worse than the median of all others of its model in the job
// by more than is tolerated.
inline constexpr std::string_view slow_alone_id = "gpu.slow_alone";
std::vector<topo::Finding> slow_alone(const Report& report);

// The id of findings of GPUs whose results or memory were wrong, errors; the run then ends with ExitCode::wrong_data.
inline constexpr std::string_view corrupt = "gpu.corrupt";
// A GPU that saw its own results differ or its memory change; else those whose result of the same matrix product
// differs from what most GPUs of their model have.
std::vector<topo::Finding> corruptions(const Report& report);

// "device copy 3905 to 3921 GB/s", for each figure that there is: of all GPUs the lowest and the highest.
std::vector<std::string> local_ranges(const Report& report);

// What --burn found, a row for each GPU of a host: TFLOP/s of the first and the last minute and of the slowest second;
// "" where nothing was burnt in.
std::string burn_table(const Report& report, std::size_t host);

// The id of a finding, an error: what a GPU does alone could not be measured, so the run is not finished.
inline constexpr std::string_view check_failed = "gpu.check_failed";

// For `list findings`.
std::vector<topo::FindingKind> local_finding_kinds();

}  // namespace p5::reports
