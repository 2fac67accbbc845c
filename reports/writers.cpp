// The table of report formats.
#include "reports/writer.hpp"

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "bench/names.hpp"

namespace p5::reports {

namespace {

const std::array<Writer, 3> table{{
    {"json", "everything, for programs (schemas p5bench.report/1 and p5bench.compare/1)", render_json, render_json,
     ".json"},
    {"html", "a page in one file, for people", render_html, nullptr, ".html"},
    {"console", "a table: of a run in the columns of nccl-tests, with limits and verdicts", render_console,
     render_console, ""},
}};

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
