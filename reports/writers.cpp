// The table of formats, and what all formats share.
#include <algorithm>
#include <tuple>

#include <nlohmann/json.hpp>

#include "bench/base/names.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

namespace {

const std::vector<Writer> table{
    {"json", "everything, for programs (schemas p5bench.report/1 and p5bench.compare/1)", render_json, render_json,
     ".json"},
    {"html", "a page in one file, for people", render_html, render_html, ".html"},
    {"console", "the decision, what to do, and a row for each operation; of a run with --table for each size",
     render_console, render_console, ""},
    {"markdown", "the verdict and what it rests on, for an issue or a pull request", render_markdown, render_markdown,
     ".md"},
    {"junit", "JUnit XML for CI servers: a test case for each measurement or band", render_junit, render_junit, ".xml"},
    {"csv", "of a run: a row for each measurement", render_csv, nullptr, ".csv"},
    {"prometheus", "of a run: metrics for node exporter's textfile collector", render_prometheus, nullptr, ".prom"},
    {"nccl-tests", "of a run: the columns of nccl-tests, and the commands that show the same figures with it",
     render_nccl_tests, nullptr, ".nccl-tests.txt"},
    {"gbench", "of a run: Google Benchmark's JSON, for its compare.py", render_gbench, nullptr, ".gbench.json"},
};

constexpr auto replace_invalid = nlohmann::json::error_handler_t::replace;

// Writes one line per measurement, host and finding: one per value would double large reports and be harder to read.
void write_lines(const nlohmann::json& j, std::size_t depth, std::string& text) {
  constexpr std::size_t deepest = 2;
  const bool list = j.is_array() && !j.empty() && j.front().is_object();
  if (depth > deepest || j.empty() || !(list || (j.is_object() && depth < deepest))) {
    text += j.dump(-1, ' ', false, replace_invalid);
    return;
  }
  text += list ? '[' : '{';
  for (auto each = j.begin(); each != j.end(); ++each) {
    if (each != j.begin()) text += ',';
    text += '\n';
    text.append(2 * depth + 2, ' ');
    if (!list) text += nlohmann::json(each.key()).dump(-1, ' ', false, replace_invalid) + ": ";
    write_lines(*each, list ? deepest + 1 : depth + 1, text);
  }
  text += '\n';
  text.append(2 * depth, ' ');
  text += list ? ']' : '}';
}

}  // namespace

std::span<const Writer> writers() { return table; }

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Writer& writer : table) names.push_back(writer.name);
  return names;
}

const Writer& find_writer(std::string_view name) {
  const auto found = std::ranges::find(table, name, &Writer::name);
  if (found == table.end()) throw UsageError(unknown_name("format", name, format_names()));
  return *found;
}

std::string render_json(const Report& report) {
  std::string text;
  write_lines(to_json(report), 0, text);
  return text + "\n";
}

std::string render_json(const Comparison& comparison) {
  return to_json(comparison).dump(2, ' ', false, replace_invalid) + "\n";
}

std::vector<const Result*> in_reading_order(const Report& report) {
  std::vector<const Result*> rows;
  for (const Result& result : report.results) rows.push_back(&result);
  const auto key = [](const Result* r) {
    const Case& c = r->measurement.measured_case;
    const auto all = collectives();
    return std::tuple(std::ranges::find(all, c.collective) - all.begin(), c.pattern, leaves_domain(c), c.pair, c.nic,
                      c.group, c.nodes, c.ranks, c.arm, c.type, c.op, c.in_place, c.bytes);
  };
  std::ranges::stable_sort(rows, {}, key);
  return rows;
}

}  // namespace p5::reports
