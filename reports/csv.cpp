// A row for each measurement, for spreadsheets and data frames: RFC 4180 with a head, numbers with a point, empty where
// there is nothing. A new column is a row of the table.
#include <array>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "reports/markup.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

namespace {

struct CsvColumn {
  std::string_view name;
  std::string (*value)(const Report& report, const Result& result);
};

std::string number(double value) { return fmt::format("{:.6g}", value); }
std::string number(std::optional<double> value) { return value ? number(*value) : ""; }
std::string whole(std::optional<int> value) { return value ? std::to_string(*value) : ""; }
std::string yes(bool value) { return value ? "1" : "0"; }

const Case& measured(const Result& result) { return result.measurement.measured_case; }

std::string in_us(const std::optional<Series>& series, std::optional<double> (*value)(const Summary&)) {
  const std::optional<double> seconds = series ? value(series->summary) : std::nullopt;
  return seconds ? number(*seconds * 1e6) : "";
}
std::optional<double> median_of(const Summary& s) { return s.median; }
std::optional<double> low_of(const Summary& s) { return s.interval ? std::optional(s.interval->low) : std::nullopt; }
std::optional<double> high_of(const Summary& s) { return s.interval ? std::optional(s.interval->high) : std::nullopt; }
std::string bandwidth(const Result& result, GBps (*rate)(const Case&, Seconds)) {
  const std::optional<Series>& found = result.measurement.throughput;
  return found ? number(rate(measured(result), {found->summary.median}).count) : "";
}

constexpr std::array csv_columns{
    CsvColumn{"cluster", [](const Report& report, const Result&) { return for_csv(report.run.cluster); }},
    CsvColumn{"started", [](const Report& report, const Result&) { return for_csv(report.run.started); }},
    CsvColumn{"provenance", [](const Report& report, const Result&) { return for_csv(report.provenance); }},
    CsvColumn{"backend", [](const Report&, const Result& r) { return for_csv(measured(r).backend); }},
    CsvColumn{"arm", [](const Report&, const Result& r) { return for_csv(measured(r).arm); }},
    CsvColumn{"collective", [](const Report&, const Result& r) { return std::string(measured(r).collective->name); }},
    CsvColumn{"pattern", [](const Report&, const Result& r) { return for_csv(measured(r).pattern); }},
    CsvColumn{"pair", [](const Report&, const Result& r) { return for_csv(measured(r).pair); }},
    CsvColumn{"nic", [](const Report&, const Result& r) { return whole(measured(r).nic); }},
    CsvColumn{"group", [](const Report&, const Result& r) { return for_csv(measured(r).group); }},
    CsvColumn{"for_parts", [](const Report&, const Result& r) { return yes(measured(r).for_parts); }},
    CsvColumn{"ranks", [](const Report&, const Result& r) { return whole(measured(r).ranks); }},
    CsvColumn{"nodes", [](const Report&, const Result& r) { return whole(measured(r).nodes); }},
    CsvColumn{"type", [](const Report&, const Result& r) { return std::string(name_of(measured(r).type)); }},
    CsvColumn{"op", [](const Report&,
                       const Result& r) { return measured(r).op ? std::string(name_of(*measured(r).op)) : ""; }},
    CsvColumn{"root", [](const Report&, const Result& r) { return whole(measured(r).root); }},
    CsvColumn{"in_place", [](const Report&, const Result& r) { return yes(measured(r).in_place); }},
    CsvColumn{"cuda_graph", [](const Report&, const Result& r) { return yes(measured(r).cuda_graph); }},
    CsvColumn{"register", [](const Report&, const Result& r) { return for_csv(measured(r).registration); }},
    CsvColumn{"bytes", [](const Report&, const Result& r) { return std::to_string(measured(r).bytes.count); }},
    CsvColumn{"outcome", [](const Report&, const Result& r) { return std::string(name_of(r.measurement.outcome)); }},
    CsvColumn{"time_us", [](const Report&, const Result& r) { return in_us(r.measurement.throughput, median_of); }},
    CsvColumn{"time_low_us", [](const Report&, const Result& r) { return in_us(r.measurement.throughput, low_of); }},
    CsvColumn{"time_high_us", [](const Report&, const Result& r) { return in_us(r.measurement.throughput, high_of); }},
    CsvColumn{"algbw_gb_per_s", [](const Report&, const Result& r) { return bandwidth(r, algorithm_bandwidth); }},
    CsvColumn{"busbw_gb_per_s", [](const Report&, const Result& r) { return bandwidth(r, bus_bandwidth); }},
    CsvColumn{"latency_us", [](const Report&, const Result& r) { return in_us(r.measurement.latency, median_of); }},
    CsvColumn{"wrong_elements",
              [](const Report&, const Result& r) { return std::to_string(r.measurement.wrong_elements); }},
    CsvColumn{"limit_gb_per_s",
              [](const Report&, const Result& r) { return r.verdict.limit ? number(r.verdict.limit->count) : ""; }},
    CsvColumn{"fraction_of_limit", [](const Report&, const Result& r) { return number(r.verdict.fraction); }},
    CsvColumn{"grade", [](const Report&, const Result& r) { return std::string(name_of(r.verdict.grade)); }},
    CsvColumn{"because",
              [](const Report&, const Result& r) {
                return for_csv(r.measurement.because.empty() ? r.verdict.because : r.measurement.because);
              }},
};

}  // namespace

std::string render_csv(const Report& report) {
  std::string text;
  for (const CsvColumn& column : csv_columns) text += fmt::format("{}{}", text.empty() ? "" : ",", column.name);
  text += "\r\n";
  for (const Result* result : in_reading_order(report)) {
    bool first = true;
    for (const CsvColumn& column : csv_columns) {
      if (!first) text += ',';
      first = false;
      text += column.value(report, *result);
    }
    text += "\r\n";
  }
  return text;
}

}  // namespace p5::reports
