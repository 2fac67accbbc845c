#include "reports/case_names.hpp"

#include <fmt/format.h>

#include "reports/markup.hpp"

namespace p5::reports {

CaseNames::CaseNames(const Report& report) {
  for (const Result& each : report.results) add(each.measurement.measured_case);
}

CaseNames::CaseNames(const Comparison& comparison) {
  for (const SizeRow& row : comparison.sizes) add(row.measured_case);
  for (const FailedCase& trouble : comparison.troubles) add(trouble.measured_case);
}

// Cases that are measured to locate faults are of few ranks on purpose.
void CaseNames::add(const Case& c) {
  if (!c.for_parts) sizes_[describe(c)].emplace(c.ranks, c.nodes);
}

std::string CaseNames::of(const Case& c) const {
  std::string name = describe(c);
  if (const auto found = sizes_.find(name); found != sizes_.end() && found->second.size() > 1)
    name += fmt::format(", {} on {}", counted(c.ranks, "rank"), counted(c.nodes, "node"));
  return name;
}

}  // namespace p5::reports
