// The HTML pages of a report and of a comparison, one self-contained file each. Scripts in a page draw it from embedded
// JSON; this file joins page, style, script and data.
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "bench/base/embedded.hpp"
#include "reports/json_values.hpp"
#include "reports/writer.hpp"
#include "topo/platform.hpp"

namespace p5::reports {

namespace {

// Concatenates all parts of a page with this suffix, shared parts first.
std::string parts(std::string_view page, std::string_view ending) {
  std::string text;
  for (const std::string_view prefix : {std::string_view("shared."), page})
    for (const embedded::File& file : embedded::report_files())
      if (file.name.starts_with(prefix) && file.name.ends_with(ending)) text.append(file.text).append("\n");
  return text;
}

// JSON that is safe in a script element: "<", which occurs in strings only, is escaped, so that nothing can end the
// element or open a comment.
std::string embeddable(const nlohmann::json& data) {
  constexpr auto replace_invalid = nlohmann::json::error_handler_t::replace;
  std::string text;
  for (const char& c : data.dump(-1, ' ', false, replace_invalid))
    text += c == '<' ? "\\u003c" : std::string_view(&c, 1);
  return text;
}

// Renders the page whose parts begin with `name`; `slots` maps slot names to embedded data.
std::string render(std::string_view name, const std::map<std::string_view, nlohmann::json>& slots) {
  const auto content_of = [&](std::string_view slot) {
    if (slot == "style") return parts(name, ".css");
    if (slot == "script") return parts(name, ".js");
    if (const auto data = slots.find(slot); data != slots.end()) return embeddable(data->second);
    throw std::logic_error("a page has an unknown slot '" + std::string(slot) + "'");
  };
  const std::string page = parts(name, ".html");
  std::string text;
  std::size_t done = 0;
  // Embedded data is not searched for slots: it may contain anything.
  for (std::size_t open; (open = page.find("{{", done)) != std::string::npos;) {
    const std::size_t close = page.find("}}", open);
    if (close == std::string::npos) throw std::logic_error("a page has a slot without an end");
    text.append(page, done, open - done);
    text += content_of(std::string_view(page).substr(open + 2, close - open - 2));
    done = close + 2;
  }
  return text.append(page, done);
}

// Published figures of the same machine with as many nodes, shown beside this run's figures.
nlohmann::json published_rows(const Report& report) {
  nlohmann::json rows = nlohmann::json::array();
  const topo::Platform* const platform = topo::platform_of_instance_type(report.topology.platform);
  if (!platform) return rows;
  for (const topo::Published& row : published_of(*platform)) {
    if (row.nodes != report.run.nodes || row.gpus * row.nodes != report.run.ranks) continue;
    if (!row.busbw && !row.tokens) continue;
    rows.push_back({{"collective", row.collective},
                    {"algorithm", row.algorithm},
                    {"nodes", row.nodes},
                    {"healthy", row.healthy},
                    {"note", row.note},
                    {"software", row.software},
                    {"date", row.date},
                    {"source", row.source}});
    if (row.busbw) rows.back()["busbw_gb_per_s"] = row.busbw->count;
    if (row.tokens) rows.back()["tokens"] = *row.tokens, rows.back()["latency_us"] = row.latency->count * 1e6;
    rows.back()["bytes"] = row.bytes ? nlohmann::json(row.bytes->count) : nlohmann::json();
  }
  return rows;
}

// Removes absent values, which make up most of the text of thousands of hosts.
void remove_absent(nlohmann::json& j) {
  for (auto each = j.begin(); each != j.end();) {
    if (each->is_structured()) remove_absent(*each);
    const bool absent = each->is_null() || (each->is_structured() && each->empty()) ||
                        (each->is_string() && each->get_ref<const std::string&>().empty());
    each = absent && j.is_object() ? j.erase(each) : std::next(each);
  }
}

// Five significant digits: more than the page shows, fewer than the report has.
constexpr int shown_digits = 5;

// Rounds times of pairs, the bulk of runs with thousands of pairs.
void shorten_times_of_pairs(nlohmann::json& measurement) {
  for (const char* const list : {"pairs", "groups"})
    if (const auto rows = measurement.find(list); rows != measurement.end())
      for (nlohmann::json& row : *rows) row.back() = rounded(row.back().get<double>(), shown_digits);
}

// Limit of samples per series on the page; taken evenly.
constexpr std::size_t most_shown_samples = 1000;

nlohmann::json samples_json(const std::optional<Series>& series) {
  if (!series || series->samples.empty()) return nullptr;
  const std::size_t count = series->samples.size(), shown = std::min(count, most_shown_samples);
  nlohmann::json times = nlohmann::json::array();
  for (std::size_t i = 0; i < shown; ++i)
    times.push_back(rounded(series->samples[i * count / shown] * 1e6, shown_digits));
  return {{"us", std::move(times)}, {"of", count}};
}

}  // namespace

std::string render_html(const Report& report) {
  nlohmann::json data = to_json(report), ordered = nlohmann::json::array(), samples = nlohmann::json::object();
  for (const Result* result : in_reading_order(report)) {
    const Measurement& m = result->measurement;
    nlohmann::json of_series;
    for (const auto& [name, series] : {std::pair{"latency", &m.latency}, {"throughput", &m.throughput}})
      if (nlohmann::json times = samples_json(*series); !times.is_null()) of_series[name] = std::move(times);
    if (!of_series.is_null()) samples[std::to_string(ordered.size())] = std::move(of_series);
    ordered.push_back(std::move(data["measurements"][static_cast<std::size_t>(result - report.results.data())]));
    shorten_times_of_pairs(ordered.back());
  }
  data["measurements"] = std::move(ordered);
  for (nlohmann::json& host : data["topology"]["hosts"]) remove_absent(host);
  return render("page.", {{"data", data}, {"published", published_rows(report)}, {"samples", samples}});
}

std::string render_html(const Comparison& comparison) { return render("comparison.", {{"data", to_json(comparison)}}); }

}  // namespace p5::reports
