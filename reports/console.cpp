// The table of a terminal: nccl-tests' columns, then the limit and the verdict, then what it all means.
#include <algorithm>
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

std::string times(const Measurement& m) {
  if (!m.throughput) return format_printable("{:>9} {:>7} {:>7} {:>6}", none, none, none, none);
  const Seconds median{m.throughput->summary.median};
  return format_printable("{:>9} {:>7} {:>7} {:>6}", compact(microseconds(median)),
                          compact(algorithm_bandwidth(m.measured_case, median).count),
                          compact(bus_bandwidth(m.measured_case, median).count), m.wrong_elements);
}

std::string row(const Result& result) {
  const Measurement& m = result.measurement;
  const Case& c = m.measured_case;
  const std::string absent = format_printable("{:>9} {:>7} {:>7} {:>6}", none, none, none, none);
  const std::string latency = m.latency ? compact(m.latency->summary.median * 1e6) : std::string(none);
  const std::string fraction =
      result.verdict.fraction ? format_printable("{:.1f} %", *result.verdict.fraction * 100) : std::string(none);
  std::string verdict(name_of(result.verdict.grade));
  if (m.outcome != Outcome::measured) verdict = format_printable("{}: {}", name_of(m.outcome), m.because);
  return format_printable("{:>12} {:>13} {:>9} {:>6} {:>5}  {}  {}  {:>8} {:>8} {:>8}\n", c.bytes.count,
                          c.bytes.count / size_of(c.type), name_of(c.type), c.op ? name_of(*c.op) : "none",
                          c.root.value_or(-1), c.in_place ? absent : times(m), c.in_place ? times(m) : absent, latency,
                          fraction, verdict);
}

std::string heading(const Case& c) {
  std::string title = operation_of(c);
  if (c.collective->pairwise) title += " (slowest pair)";
  if (c.group != "world") title += format_printable(", group {} (slowest group)", c.group);
  if (c.arm != "default") title += format_printable(", arm {}", c.arm);
  return format_printable(
      "\n# {}, {} ranks on {} {}\n#{:>11} {:>13} {:>9} {:>6} {:>5}  {:^32}  {:^32}\n"
      "#{:>11} {:>13} {:>9} {:>6} {:>5}  {:>9} {:>7} {:>7} {:>6}  {:>9} {:>7} {:>7} {:>6}  {:>8} {:>8} {:>8}\n"
      "#{:>11} {:>13} {:>9} {:>6} {:>5}  {:>9} {:>7} {:>7} {:>6}  {:>9} {:>7} {:>7} {:>6}  {:>8} {:>8} {:>8}\n",
      title, c.ranks, c.nodes, c.nodes == 1 ? "node" : "nodes", "", "", "", "", "", "out-of-place", "in-place", "size",
      "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong",
      "latency", "fraction", "verdict", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)",
      "(GB/s)", "(GB/s)", "", "(us)", "of limit", "");
}

std::string results_table(const Report& report) {
  std::string text;
  const Case* previous = nullptr;
  for (const Result* result : in_reading_order(report)) {
    const Case& c = result->measurement.measured_case;
    if (!previous ||
        std::tie(c.collective, c.pattern, c.pair, c.group, c.arm) !=
            std::tie(previous->collective, previous->pattern, previous->pair, previous->group, previous->arm))
      text += heading(c);
    text += row(*result);
    previous = &c;
  }
  return text;
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
  std::string text = heading(report) + results_table(report) + "\n" + findings_lines(report);
  for (const topo::Limit& limit : report.limits)
    text += format_printable("limit {} {}: {:.4g} GB/s, {}\n", limit.name, topo::name_of(limit.level), limit.rate.count,
                             limit.because);
  return text + local_line(report) + tuning_lines(report) + headline(report) + "\n" + reasons(report) +
         unjudged_lines(report);
}

}  // namespace p5::reports
