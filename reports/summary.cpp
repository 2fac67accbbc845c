#include "reports/summary.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "reports/writer.hpp"

namespace p5::reports {

namespace {

std::string title_of(const Case& c) {
  std::string title = operation_of(c);
  if (c.group != "world") title += ", group " + c.group;
  if (c.arm != "default") title += ", arm " + c.arm;
  return title;
}

Bytes bytes_of(const Result& result) { return result.measurement.measured_case.bytes; }

}  // namespace

std::vector<SummaryRow> summary_of(const Report& report) {
  struct Ends {
    const Result *small = nullptr, *large = nullptr;
  };
  // What is not as it should be stands for its operation; of that, what was measured with most pairs; and the largest.
  const auto weight = [](const Result* each) {
    const Grade grade = each->verdict.grade;
    const std::size_t pairs =
        each->measurement.measured_case.collective->pairwise ? each->measurement.groups.size() : 0;
    return std::tuple{grade != Grade::ok && grade != Grade::unknown, pairs, bytes_of(*each).count};
  };
  std::vector<std::string> order;
  std::map<std::string, Ends> ends;
  for (const Result* result : in_reading_order(report)) {
    const Measurement& m = result->measurement;
    if (m.outcome != Outcome::measured || !m.throughput) continue;
    const std::string title = title_of(m.measured_case);
    Ends& its = ends[title];
    if (!its.large) order.push_back(title);
    if (!its.large || weight(result) > weight(its.large)) its.large = result;
    if (m.latency && (!its.small || bytes_of(*result) < bytes_of(*its.small))) its.small = result;
  }
  std::vector<SummaryRow> rows;
  for (const std::string& title : order) {
    const auto [small, large] = ends.at(title);
    const Measurement& m = large->measurement;
    rows.push_back({.operation = title,
                    .ranks = m.measured_case.ranks,
                    .latency = small ? fmt::format("{:.2f} us ({})", small->measurement.latency->summary.median * 1e6,
                                                   to_text(bytes_of(*small)))
                                     : "",
                    .size = to_text(m.measured_case.bytes),
                    .busbw = bus_bandwidth(m.measured_case, {m.throughput->summary.median}).count,
                    .of_limit = large->verdict.fraction ? fmt::format("{:.0f} %", 100 * *large->verdict.fraction) : "",
                    .grade = large->verdict.grade,
                    .for_parts = m.measured_case.for_parts});
  }
  return rows;
}

std::string_view shown(Grade grade) { return grade == Grade::unknown ? "not judged" : name_of(grade); }

}  // namespace p5::reports
