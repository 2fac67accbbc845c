// Formats: pure functions from a Report, or from a Comparison, to text. A new format is a function and a row in
// writers.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/compare/comparison.hpp"
#include "reports/report.hpp"
#include "topo/binding.hpp"
#include "topo/finding.hpp"
#include "topo/topology.hpp"

namespace p5::reports {

struct Writer {
  std::string name;  // name for --format
  std::string summary;
  std::string (*render)(const Report& report) = nullptr;
  std::string (*render_comparison)(const Comparison& comparison) = nullptr;  // null: not for comparisons
  std::string suffix;  // suffix of report.SUFFIX or comparison.SUFFIX; "" for the console
  std::string file_name(std::string_view stem) const { return suffix.empty() ? "" : std::string(stem) + suffix; }
};

std::span<const Writer> writers();
std::vector<std::string> format_names();
// Throws UsageError with the nearest name.
const Writer& find_writer(std::string_view name);

// Sorted by collective, pattern, kind of pair, NIC, group, arm, type, operation, place and size.
std::vector<const Result*> in_reading_order(const Report& report);

// One renderer per format.
std::string render_json(const Report& report);
std::string render_html(const Report& report);
std::string render_console(const Report& report);
// Like render_console(), with a row per measurement in the columns of nccl-tests.
std::string render_table(const Report& report);
std::string render_markdown(const Report& report);
std::string render_junit(const Report& report);
std::string render_csv(const Report& report);
std::string render_prometheus(const Report& report);
std::string render_gbench(const Report& report);
std::string render_nccl_tests(const Report& report);
// Heading, findings and reasons only: printed above a comparison of arms.
std::string render_outline(const Report& report);
std::string render_json(const Comparison& comparison);
std::string render_html(const Comparison& comparison);
std::string render_markdown(const Comparison& comparison);
std::string render_junit(const Comparison& comparison);
std::string render_console(const Comparison& comparison);

// Adds ANSI escape sequences to the output of render_console() and similar functions.
std::string with_colours(std::string_view text);

// Adds colours if stdout is a terminal that supports them.
std::string coloured_for_terminal(std::string_view text);

// Cases with work beside them, an operation a row; "" without any.
std::string concurrency_table(const Report& report);
// The time of each replayed step of a job, a line each; "" without any.
std::string job_steps_text(const Report& report);

struct SummaryRow {
  std::string operation;
  int ranks = 0;
  std::string latency;  // "18.1 us (8 B)"; "" if not measured
  std::string size;     // largest message, or the largest that is slow or wrong; the figures below are its
  double busbw = 0;     // GB/s
  std::string of_limit;
  Grade grade = Grade::unknown;
  bool for_parts = false;  // measured to locate faults, not by the plan
};

// One row per operation, in reading order.
std::vector<SummaryRow> summary_of(const Report& report);

// Columns of a text on a terminal, one for each character.
std::size_t width_of(std::string_view text);
// Breaks lines of more columns than `widest` between words; continuation lines are indented by `hanging` more. Longer
// words stay whole.
std::string wrapped(std::string_view text, std::size_t widest = 100, std::size_t hanging = 2);

// Displayed grade: "not judged" for unknown.
std::string_view shown(Grade grade);

std::string render_topology(const topo::Topology& topology, const std::vector<topo::Finding>& findings,
                            const std::vector<topo::Binding>& bindings);

}  // namespace p5::reports
