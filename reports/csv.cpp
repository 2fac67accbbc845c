// A row for each measurement, for spreadsheets and data frames: RFC 4180 with a head, numbers with a point, empty where
// there is nothing. A new column is a row of the table.
#include <array>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "reports/markup.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

namespace {

struct Column {
  std::string_view name;
  std::string (*value)(const Report& report, const Result& result);
};

std::string number(double value) { return fmt::format("{:.6g}", value); }
std::string number(std::optional<double> value) { return value ? number(*value) : ""; }
std::string whole(std::optional<int> value) { return value ? std::to_string(*value) : ""; }
std::string yes(bool value) { return value ? "1" : "0"; }

const Case& case_of(const Result& result) { return result.measurement.measured_case; }

std::string in_us(const std::optional<Series>& series, std::optional<double> (*value)(const Summary&)) {
  const std::optional<double> seconds = series ? value(series->summary) : std::nullopt;
  return seconds ? number(*seconds * 1e6) : "";
}
std::optional<double> median_of(const Summary& s) { return s.median; }
std::optional<double> low_of(const Summary& s) { return s.interval ? std::optional(s.interval->low) : std::nullopt; }
std::optional<double> high_of(const Summary& s) { return s.interval ? std::optional(s.interval->high) : std::nullopt; }
std::string bandwidth(const Result& result, GBps (*rate)(const Case&, Seconds)) {
  const std::optional<Series>& found = result.measurement.throughput;
  return found ? number(rate(case_of(result), {found->summary.median}).count) : "";
}

constexpr std::array columns{
    Column{"cluster", [](const Report& report, const Result&) { return for_csv(report.run.cluster); }},
    Column{"started", [](const Report& report, const Result&) { return for_csv(report.run.started); }},
    Column{"provenance", [](const Report& report, const Result&) { return for_csv(report.provenance); }},
    Column{"backend", [](const Report&, const Result& r) { return for_csv(case_of(r).backend); }},
    Column{"arm", [](const Report&, const Result& r) { return for_csv(case_of(r).arm); }},
    Column{"collective", [](const Report&, const Result& r) { return std::string(case_of(r).collective->name); }},
    Column{"pattern", [](const Report&, const Result& r) { return for_csv(case_of(r).pattern); }},
    Column{"pair", [](const Report&, const Result& r) { return for_csv(case_of(r).pair); }},
    Column{"nic", [](const Report&, const Result& r) { return whole(case_of(r).nic); }},
    Column{"group", [](const Report&, const Result& r) { return for_csv(case_of(r).group); }},
    Column{"ranks", [](const Report&, const Result& r) { return whole(case_of(r).ranks); }},
    Column{"nodes", [](const Report&, const Result& r) { return whole(case_of(r).nodes); }},
    Column{"type", [](const Report&, const Result& r) { return std::string(name_of(case_of(r).type)); }},
    Column{"op",
           [](const Report&, const Result& r) { return case_of(r).op ? std::string(name_of(*case_of(r).op)) : ""; }},
    Column{"root", [](const Report&, const Result& r) { return whole(case_of(r).root); }},
    Column{"in_place", [](const Report&, const Result& r) { return yes(case_of(r).in_place); }},
    Column{"cuda_graph", [](const Report&, const Result& r) { return yes(case_of(r).cuda_graph); }},
    Column{"register", [](const Report&, const Result& r) { return for_csv(case_of(r).registration); }},
    Column{"bytes", [](const Report&, const Result& r) { return std::to_string(case_of(r).bytes.count); }},
    Column{"outcome", [](const Report&, const Result& r) { return std::string(name_of(r.measurement.outcome)); }},
    Column{"time_us", [](const Report&, const Result& r) { return in_us(r.measurement.throughput, median_of); }},
    Column{"time_low_us", [](const Report&, const Result& r) { return in_us(r.measurement.throughput, low_of); }},
    Column{"time_high_us", [](const Report&, const Result& r) { return in_us(r.measurement.throughput, high_of); }},
    Column{"algbw_gb_per_s", [](const Report&, const Result& r) { return bandwidth(r, algorithm_bandwidth); }},
    Column{"busbw_gb_per_s", [](const Report&, const Result& r) { return bandwidth(r, bus_bandwidth); }},
    Column{"latency_us", [](const Report&, const Result& r) { return in_us(r.measurement.latency, median_of); }},
    Column{"wrong_elements",
           [](const Report&, const Result& r) { return std::to_string(r.measurement.wrong_elements); }},
    Column{"limit_gb_per_s",
           [](const Report&, const Result& r) { return r.verdict.limit ? number(r.verdict.limit->count) : ""; }},
    Column{"fraction_of_limit", [](const Report&, const Result& r) { return number(r.verdict.fraction); }},
    Column{"grade", [](const Report&, const Result& r) { return std::string(name_of(r.verdict.grade)); }},
    Column{"because",
           [](const Report&, const Result& r) {
             return for_csv(r.measurement.because.empty() ? r.verdict.because : r.measurement.because);
           }},
};

}  // namespace

std::string render_csv(const Report& report) {
  std::string text;
  for (const Column& column : columns) text += fmt::format("{}{}", text.empty() ? "" : ",", column.name);
  text += "\r\n";
  for (const Result* result : in_reading_order(report)) {
    bool first = true;
    for (const Column& column : columns) {
      if (!first) text += ',';
      first = false;
      text += column.value(report, *result);
    }
    text += "\r\n";
  }
  return text;
}

}  // namespace p5::reports
