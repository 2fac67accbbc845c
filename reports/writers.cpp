// The table of report formats.
#include "reports/writer.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "bench/base/names.hpp"

namespace p5::reports {

namespace {

const std::vector<Writer> table{
    {"json", "everything, for programs (schemas p5bench.report/1 and p5bench.compare/1)", render_json, render_json,
     ".json"},
    {"html", "a page in one file, for people", render_html, render_html, ".html"},
    {"console", "a table: of a run in the columns of nccl-tests, with limits and verdicts", render_console,
     render_console, ""},
    {"markdown", "of a comparison: for a pull request", nullptr, render_markdown, ".md"},
    {"junit", "of a comparison: JUnit XML for CI servers, a test case for each band", nullptr, render_junit, ".xml"},
    {"gbench", "of a run: Google Benchmark's JSON, for its compare.py", render_gbench, nullptr, ".gbench.json"},
};

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
  return to_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string render_json(const Comparison& comparison) {
  return to_json(comparison).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace p5::reports
