#include "reports/headline.hpp"

#include <algorithm>

#include "bench/base/names.hpp"
#include "bench/base/printing.hpp"

namespace p5::reports {

std::string headline(const Report& report) {
  const auto judged =
      std::ranges::count_if(report.results, [](const Result& r) { return r.verdict.grade != Grade::unknown; });
  const std::string word =
      report.grade == Grade::unknown ? "NOT JUDGED" : upper_case(std::string(name_of(report.grade)));
  std::vector<std::string> parts;
  for (const Suspect& suspect : report.suspects) parts.push_back(suspect.kind + " " + suspect.name);
  std::string line = format_printable("Verdict: {}{} ({} of {} measurements judged)", word,
                                      parts.empty() ? "" : ": " + join(parts), judged, report.results.size());
  // A verdict over nodes alone says nothing of what joins them.
  const bool between = std::ranges::any_of(report.results, [](const Result& r) {
    return r.verdict.grade != Grade::unknown && r.measurement.measured_case.nodes > 1;
  });
  if (report.run.nodes > 1 && judged > 0 && !between) line += ", NONE OF THEM BETWEEN NODES";
  if (report.provenance != "measured") line += ", " + upper_case(report.provenance);
  if (report.status != "complete")
    line +=
        format_printable(", PARTIAL: {}", report.run.ended_by.empty() ? "the run did not end" : report.run.ended_by);
  return line;
}

}  // namespace p5::reports
