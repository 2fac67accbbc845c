// The HTML pages, of a report and of a comparison: one file each that opens anywhere. A page draws itself from the JSON
// that stands inside it, so this file only puts page, style, script and data together.
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "bench/base/embedded.hpp"
#include "reports/writer.hpp"
#include "topo/platform.hpp"

namespace p5::reports {

namespace {

// The texts of all parts of the page with this ending, one after the other, those that all pages share first.
std::string parts(std::string_view page, std::string_view ending) {
  std::string text;
  for (const std::string_view prefix : {std::string_view("shared."), page})
    for (const embedded::File& file : embedded::report_files())
      if (file.name.starts_with(prefix) && file.name.ends_with(ending)) text.append(file.text).append("\n");
  return text;
}

// JSON that a script element holds safely: without "<" nothing in it can end the element or open a comment. The
// character occurs in strings only, where JSON has a second spelling for it.
std::string embeddable(const nlohmann::json& data) {
  constexpr auto replace_invalid = nlohmann::json::error_handler_t::replace;
  std::string text;
  for (const char c : data.dump(-1, ' ', false, replace_invalid)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

// The page whose parts begin with `name`.
std::string render(std::string_view name, const nlohmann::json& data, const nlohmann::json& published = {}) {
  const auto content_of = [&](std::string_view slot) {
    if (slot == "style") return parts(name, ".css");
    if (slot == "script") return parts(name, ".js");
    if (slot == "data") return embeddable(data);
    if (slot == "published") return embeddable(published);
    throw std::logic_error("a page has an unknown slot '" + std::string(slot) + "'");
  };
  const std::string page = parts(name, ".html");
  std::string text;
  std::size_t done = 0;
  // Only the page itself is searched for slots: what is put in may contain anything.
  for (std::size_t open; (open = page.find("{{", done)) != std::string::npos;) {
    const std::size_t close = page.find("}}", open);
    if (close == std::string::npos) throw std::logic_error("a page has a slot without an end");
    text.append(page, done, open - done);
    text += content_of(std::string_view(page).substr(open + 2, close - open - 2));
    done = close + 2;
  }
  return text.append(page, done);
}

}  // namespace

namespace {

// What others have shown of the same machine with as many nodes: the page puts this run's figures beside it.
nlohmann::json published_rows(const Report& report) {
  nlohmann::json rows = nlohmann::json::array();
  const topo::Platform* const platform = topo::platform_of_instance_type(report.topology.platform);
  if (!platform) return rows;
  for (const topo::Published& row : published_of(*platform)) {
    if (row.nodes != report.run.nodes || !row.busbw || row.gpus * row.nodes != report.run.ranks) continue;
    rows.push_back({{"collective", row.collective},
                    {"algorithm", row.algorithm},
                    {"nodes", row.nodes},
                    {"busbw_gb_per_s", row.busbw->count},
                    {"healthy", row.healthy},
                    {"note", row.note},
                    {"software", row.software},
                    {"date", row.date},
                    {"source", row.source}});
    rows.back()["bytes"] = row.bytes ? nlohmann::json(row.bytes->count) : nlohmann::json();
  }
  return rows;
}

}  // namespace

std::string render_html(const Report& report) {
  nlohmann::json data = to_json(report), ordered = nlohmann::json::array();
  for (const Result* result : in_reading_order(report))
    ordered.push_back(std::move(data["measurements"][static_cast<std::size_t>(result - report.results.data())]));
  data["measurements"] = std::move(ordered);
  return render("page.", data, published_rows(report));
}

std::string render_html(const Comparison& comparison) { return render("comparison.", to_json(comparison)); }

}  // namespace p5::reports
