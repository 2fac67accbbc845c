// Formats: pure functions from a Report, or from a Comparison, to text. A new one is one file and a row in writers.cpp.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/compare/comparison.hpp"
#include "reports/report.hpp"

namespace p5::reports {

struct Writer {
  std::string name;  // as in --format
  std::string summary;
  std::string (*render)(const Report& report) = nullptr;
  std::string (*render_comparison)(const Comparison& comparison) = nullptr;  // null: it is not for comparisons
  std::string suffix;  // of its files, report.SUFFIX or comparison.SUFFIX; "" for the console's
  std::string file_name(std::string_view stem) const { return suffix.empty() ? "" : std::string(stem) + suffix; }
};

std::span<const Writer> writers();
std::vector<std::string> format_names();
// Throws UsageError with the nearest name.
const Writer& find_writer(std::string_view name);

// By collective, pattern, kind of pair, NIC, group, arm, type, operation, place, size.
std::vector<const Result*> in_reading_order(const Report& report);

// One per file.
std::string render_json(const Report& report);
std::string render_html(const Report& report);
std::string render_console(const Report& report);
// The same with a row for each measurement, in the columns of nccl-tests.
std::string render_table(const Report& report);
std::string render_markdown(const Report& report);
std::string render_junit(const Report& report);
std::string render_csv(const Report& report);
std::string render_prometheus(const Report& report);
std::string render_gbench(const Report& report);
std::string render_nccl_tests(const Report& report);
// The same without its table, limits and verdict: what stands above a comparison of its arms.
std::string render_outline(const Report& report);
std::string render_json(const Comparison& comparison);
std::string render_html(const Comparison& comparison);
std::string render_markdown(const Comparison& comparison);
std::string render_junit(const Comparison& comparison);
std::string render_console(const Comparison& comparison);

}  // namespace p5::reports
