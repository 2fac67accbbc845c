// The table of a terminal: nccl-tests' columns, then the limit and the verdict, then what it all means.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <ranges>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/printing.hpp"
#include "bench/base/text.hpp"
#include "reports/headline.hpp"
#include "reports/local_checks.hpp"
#include "reports/suspects.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

namespace {

constexpr std::string_view none = "N/A";

// Four significant digits, as wide as nccl-tests' columns.
std::string compact(double value) {
  return value < 10     ? format_printable("{:.2f}", value)
         : value < 1000 ? format_printable("{:.1f}", value)
                        : format_printable("{:.0f}", value);
}

// What a column shows of a measurement; "N/A" where it has nothing.
using Cell = std::string (*)(const Result& result);
enum class Half { neither, out_of_place, in_place };
struct Column {
  std::string_view title, unit;
  std::size_t width;
  Cell cell;
  Half half = Half::neither;
};

const Measurement& of(const Result& result) { return result.measurement; }
const Case& case_of(const Result& result) { return result.measurement.measured_case; }
Seconds median_time(const Result& result) { return {of(result).throughput->summary.median}; }

// In the half that the measurement is of.
template <Half half, Cell cell>
std::string in_half(const Result& result) {
  return of(result).throughput && case_of(result).in_place == (half == Half::in_place) ? cell(result)
                                                                                       : std::string(none);
}
constexpr Cell time_cell = [](const Result& r) { return compact(microseconds(median_time(r))); };
constexpr Cell algbw_cell = [](const Result& r) {
  return compact(algorithm_bandwidth(case_of(r), median_time(r)).count);
};
constexpr Cell busbw_cell = [](const Result& r) { return compact(bus_bandwidth(case_of(r), median_time(r)).count); };
constexpr Cell wrong_cell = [](const Result& r) { return std::to_string(of(r).wrong_elements); };

template <Half half>
constexpr std::array columns_of_half{Column{"time", "(us)", 9, in_half<half, time_cell>, half},
                                     Column{"algbw", "(GB/s)", 7, in_half<half, algbw_cell>, half},
                                     Column{"busbw", "(GB/s)", 7, in_half<half, busbw_cell>, half},
                                     Column{"#wrong", "", 6, in_half<half, wrong_cell>, half}};

// nccl-tests' columns, then ours.
std::vector<Column> all_columns() {
  std::vector<Column> columns{
      {"size", "(B)", 12, [](const Result& r) { return std::to_string(case_of(r).bytes.count); }},
      {"count", "(elements)", 13, [](const Result& r) { return std::to_string(elements(case_of(r))); }},
      {"type", "", 9, [](const Result& r) { return std::string(name_of(case_of(r).type)); }},
      {"redop", "", 6, [](const Result& r) { return std::string(case_of(r).op ? name_of(*case_of(r).op) : none); }},
      {"root", "", 5,
       [](const Result& r) { return case_of(r).root ? std::to_string(*case_of(r).root) : std::string(none); }}};
  for (const auto& half : {columns_of_half<Half::out_of_place>, columns_of_half<Half::in_place>})
    columns.insert(columns.end(), half.begin(), half.end());
  columns.push_back({"latency", "(us)", 9, [](const Result& r) {
                       return of(r).latency ? compact(of(r).latency->summary.median * 1e6) : std::string(none);
                     }});
  columns.push_back({"of limit", "", 9, [](const Result& r) {
                       return r.verdict.fraction ? format_printable("{:.1f} %", *r.verdict.fraction * 100)
                                                 : std::string(none);
                     }});
  return columns;
}

std::string verdict_of(const Result& result) {
  const Measurement& m = of(result);
  return m.outcome == Outcome::measured ? std::string(name_of(result.verdict.grade))
                                        : format_printable("{}: {}", name_of(m.outcome), m.because);
}

std::string title_of_table(const Case& c) {
  std::string title = operation_of(c);
  if (c.collective->pairwise) title += " (slowest pair)";
  if (c.group != "world") title += format_printable(", group {} (slowest group)", c.group);
  if (c.arm != "default") title += format_printable(", arm {}", c.arm);
  return format_printable("\n# {}, {} ranks on {} {}\n", title, c.ranks, c.nodes, c.nodes == 1 ? "node" : "nodes");
}

// Of measurements of one operation; columns in which none has anything are left out.
std::string table_of(const std::vector<const Result*>& results) {
  std::vector<Column> columns = all_columns();
  std::erase_if(columns, [&](const Column& column) {
    return std::ranges::all_of(results, [&](const Result* result) { return column.cell(*result) == none; });
  });
  std::string halves = "#", titles = "#", units = "#";
  Half last = Half::neither;
  for (const Column& column : columns) {
    // The sign takes the first column's first place.
    const std::size_t width = column.width - (&column == &columns.front() ? 1 : 0);
    const std::string_view half = column.half == last                 ? ""
                                  : column.half == Half::in_place     ? "in-place"
                                  : column.half == Half::out_of_place ? "out-of-place"
                                                                      : "";
    last = column.half;
    halves += format_printable(" {:>{}}", half, width);
    titles += format_printable(" {:>{}}", column.title, width);
    units += format_printable(" {:>{}}", column.unit, width);
  }
  std::string text = title_of_table(case_of(*results.front()));
  for (std::string* line : {&halves, &units}) line->erase(line->find_last_not_of(' ') + 1);
  if (std::ranges::find(columns, Half::in_place, &Column::half) != columns.end()) text += halves + "\n";
  text += titles + "  verdict\n" + units + "\n";
  for (const Result* result : results) {
    for (const Column& column : columns) text += format_printable(" {:>{}}", column.cell(*result), column.width);
    text += format_printable("  {}\n", verdict_of(*result));
  }
  return text;
}

std::string results_table(const Report& report) {
  const auto same_table = [](const Result* a, const Result* b) {
    const Case &one = case_of(*a), &other = case_of(*b);
    return std::tie(one.collective, one.pattern, one.pair, one.nic, one.group, one.arm) ==
           std::tie(other.collective, other.pattern, other.pair, other.nic, other.group, other.arm);
  };
  std::string text;
  std::vector<const Result*> results;
  for (const Result* result : in_reading_order(report)) {
    if (!results.empty() && !same_table(results.back(), result)) text += table_of(results), results.clear();
    results.push_back(result);
  }
  return results.empty() ? text : text + table_of(results);
}

// What each arm was given, and what it really ran on.
std::string arms_lines(const Report& report) {
  std::string text;
  for (const ArmInfo& arm : report.arms) {
    std::vector<std::string> settings;
    for (const auto& [name, value] : arm.settings) settings.push_back(name + "=" + value);
    text += format_printable("# arm {}: {}; {} {}", arm.name, settings.empty() ? "nothing set" : join(settings, ","),
                             arm.launches, arm.launches == 1 ? "launch" : "launches");
    for (const char* const key : {"nccl", "nccl.path", "model"})
      if (const auto found = arm.context.find(key); found != arm.context.end()) text += "; " + printable(found->second);
    text += "\n";
    if (!arm.problem.empty()) text += format_printable("# arm {}: {}\n", arm.name, arm.problem);
  }
  return text;
}

// The sentences behind bad grades, each once, with how many sizes it stands for.
std::string reasons(const Report& report) {
  std::string text;
  for (const topo::Finding& finding : report.findings)
    if (topo::condemns(finding))
      text += format_printable("  {} {}: {}\n", name_of(Grade::faulty), finding.id, finding.evidence);
  for (const Suspect& suspect : report.suspects) text += format_printable("  suspect {}\n", sentence_about(suspect));
  constexpr std::size_t most = 8;
  std::size_t shown = 0, bad = 0;
  for (const Result* result : in_reading_order(report)) {
    if (result->verdict.grade == Grade::ok || result->verdict.grade == Grade::unknown) continue;
    ++bad;
    if (shown++ < most)
      text += format_printable("  {} {}: {}\n", name_of(result->verdict.grade),
                               describe(result->measurement.measured_case), result->verdict.because);
  }
  if (bad > most) text += format_printable("  and {} more\n", bad - most);
  return text;
}

// Why measurements were not judged, each reason once, and what would change that.
std::string unjudged_lines(const Report& report) {
  struct Reason {
    std::size_t measurements = 0;
    std::vector<std::string> operations;
  };
  std::map<std::string, Reason> reasons;
  for (const Result& result : report.results) {
    if (result.verdict.grade != Grade::unknown) continue;
    Reason& reason = reasons[result.verdict.because];
    ++reason.measurements;
    if (const std::string name(result.measurement.measured_case.collective->name);
        std::ranges::find(reason.operations, name) == reason.operations.end())
      reason.operations.push_back(name);
  }
  std::vector<const decltype(reasons)::value_type*> sorted;
  for (const auto& each : reasons) sorted.push_back(&each);
  std::ranges::stable_sort(sorted, std::greater{}, [](const auto* each) { return each->second.measurements; });
  constexpr std::size_t most = 8;
  std::string text;
  for (const auto* each : sorted | std::views::take(most))
    text += format_printable("  {} {}: {}\n", each->second.measurements, join(each->second.operations), each->first);
  if (sorted.size() > most) text += format_printable("  and {} reasons more\n", sorted.size() - most);
  if (report.grade == Grade::unknown && !report.results.empty() && report.provenance != "imported")
    text += format_printable(
        "  What would judge it: --baseline FILE, of healthy runs of the same machines (p5bench baseline){}\n",
        report.topology.platform.empty() ? "; --platform NAME, if it is one of those in p5bench list platforms" : "");
  return text;
}

// Those that pay somewhere, where they cost, and how a job gets them.
std::string ways_lines(const Tuning& tuning) {
  std::string text;
  for (const TuningWay& way : tuning.ways) {
    std::vector<std::string> faster, slower;
    for (const TuningWaySize& size : way.sizes) {
      const auto shown = [&](std::string_view more_or_less) {
        return format_printable("{} {} {:.0f} % {}", size.collective, to_text(Bytes{size.bytes}),
                                100 * std::abs(size.gain->share), more_or_less);
      };
      if (size.pays()) faster.push_back(shown("less"));
      if (size.costs()) slower.push_back(shown("more"));
    }
    if (faster.empty()) continue;
    text += format_printable("  no setting, but worth it: {}: {}{}\n    {}\n", way.name, join(faster),
                             slower.empty() ? "" : "; but " + join(slower), way.how);
  }
  return text;
}

// What tuning found: the sizes that gain and what brings it, the whole table stands in the report.
std::string tuning_lines(const Report& report) {
  if (!report.tuning) return "";
  const Tuning& tuning = *report.tuning;
  std::string text = format_printable("Tuning ({}, {:.0f} s): {}\n", tuning.mode, tuning.wall_s, tuning.because);
  for (const TuningRow& row : tuning.rows)
    text += format_printable("  {} {} to {}: {}\n", row.collective, to_text(Bytes{row.from}), to_text(Bytes{row.to}),
                             row.setting);
  for (const TuningConfirmation& cell : tuning.confirmations)
    if (cell.setting && cell.gain)
      text += format_printable(
          "  {} {}: {:.2f} -> {:.2f} us, {:.1f} % less{}\n", cell.collective, to_text(Bytes{cell.tuner_bytes}),
          1e6 * cell.gain->default_s, 1e6 * cell.gain->tuned_s, 100 * cell.gain->share,
          cell.gain->interval
              ? format_printable(" ({:.1f} to {:.1f})", 100 * cell.gain->interval->low, 100 * cell.gain->interval->high)
              : "");
  for (const TuningArm& arm : tuning.arms)
    text +=
        format_printable("  {}: {}{}\n", arm.name,
                         arm.speedup ? format_printable("{:.3f} times as fast", *arm.speedup) : std::string("failed"),
                         arm.adopted ? ", adopted" : "");
  text += ways_lines(tuning);
  for (const std::string& refusal : tuning.refusals) text += format_printable("  {}\n", refusal);
  for (const auto& [launcher, line] : tuning.loading) text += format_printable("  with {}: {}\n", launcher, line);
  return text;
}

std::string local_line(const Report& report) {
  const std::vector<std::string> ranges = local_ranges(report);
  return ranges.empty() ? "" : format_printable("Each GPU alone: {}\n", join(ranges));
}

std::string heading(const Report& report) {
  const RunInfo& run = report.run;
  std::string text =
      format_printable("# p5bench {} on {}: {} ranks on {} {}, backend {}{}, seed {}{}\n", run.version, run.cluster,
                       run.ranks, run.nodes, run.nodes == 1 ? "node" : "nodes", run.backend,
                       report.provenance == "measured" ? "" : ", " + upper_case(report.provenance), run.seed,
                       run.launches == 1 ? "" : format_printable(", {} launches", run.launches));
  text += arms_lines(report);
  for (const std::string& remark : run.remarks) text += format_printable("# {}\n", remark);
  return text;
}

std::string findings_lines(const Report& report) {
  std::string text;
  for (const topo::Finding& finding : report.findings)
    text += format_printable("{} {}{}{}: {}. {}\n", topo::name_of(finding.severity), finding.id,
                             finding.about ? format_printable(" ({})", topo::name_of(*finding.about)) : "",
                             finding.subject.host.empty() ? "" : " on " + finding.subject.host, finding.evidence,
                             finding.action);
  return text;
}

}  // namespace

std::string render_outline(const Report& report) { return heading(report) + findings_lines(report) + reasons(report); }

std::string render_console(const Report& report) {
  // Who reads from the top finds first what matters, and who sees a run end finds it last.
  const std::string told = headline(report) + "\n" + reasons(report);
  std::string text = heading(report) + told + findings_lines(report) + results_table(report) + "\n";
  for (const topo::Limit& limit : report.limits)
    text += format_printable("limit {} {}: {:.4g} GB/s, {}\n", limit.name, topo::name_of(limit.level), limit.rate.count,
                             limit.because);
  return text + local_line(report) + tuning_lines(report) + findings_lines(report) + told + unjudged_lines(report);
}

}  // namespace p5::reports
