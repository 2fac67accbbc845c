// A run on a terminal: the decision, the steps to take, one row per operation and the findings; or, in full, a table
// with the columns of nccl-tests, the limit and the verdict.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <ranges>
#include <string>
#include <tuple>
#include <utility>

#include "bench/base/console.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/model/job.hpp"
#include "reports/case_names.hpp"
#include "reports/communicators.hpp"
#include "reports/decision.hpp"
#include "reports/findings.hpp"
#include "reports/judge.hpp"
#include "reports/local_checks.hpp"
#include "reports/markup.hpp"
#include "reports/part_names.hpp"
#include "reports/suspect_text.hpp"
#include "reports/traffic.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

// ---- Cases with work beside them on a terminal: how much each operation slows the others, and how much of it is at
// the same time.

namespace {

std::string slower(const Series& alone, const Series& beside) {
  return fmt::format("{:+.1f} %", 100 * (slowdown(alone, beside) - 1));
}

std::string time_of(const Series& series) { return fmt::format("{:.4g}", series.summary.median * 1e6); }

// Rows of a case: one for each of its operations, and what they take together.
std::string rows_of(const Measurement& m) {
  const Concurrency& all = *m.concurrency;
  std::string text;
  for (const ConcurrentOperation& each : all.operations) {
    const bool own = &each == &all.operations.front();
    const std::string name = own ? describe_alone(m.measured_case) : "  " + each.name;
    text += format_printable("{:<44} {:>10} {:>10} {:>9}", name, time_of(each.alone), time_of(each.beside),
                             slower(each.alone, each.beside));
    for (const ConcurrentOperation::BesideOne& one : each.beside_each)
      text += format_printable("; {} beside {}", slower(each.alone, one.times), one.name);
    if (!each.covered) text += "; at least: it waits until the others have ended";
    text += "\n";
  }
  std::vector<std::string> counts;
  for (const ConcurrentOperation& each : all.operations)
    counts.push_back(fmt::format("{} {}", each.operations, each.name));
  return text +
         format_printable(
             "  {}: together {:.4g} us, one after the other {:.4g}, the longest alone {:.4g}: overlap {:.0f} %\n",
             join(counts, " and "), all.together.summary.median * 1e6, microseconds(sum_of(all)),
             microseconds(longest_of(all)), 100 * overlap(all));
}

}  // namespace

std::string concurrency_table(const Report& report) {
  std::string text;
  for (const Result* result : in_reading_order(report))
    if (result->measurement.concurrency) text += rows_of(result->measurement);
  if (text.empty()) return "";
  return format_printable("\n{:<44} {:>10} {:>10} {:>9}\n", "at the same time", "alone us", "beside us", "slower") +
         text;
}

static bool begins_character(char c) { return (c & 0xc0) != 0x80; }

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::string wrapped(std::string_view text, std::size_t widest, std::size_t hanging) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string indent(std::min(line.find_first_not_of(' '), line.size()) + hanging, ' ');
    while (width_of(line) > widest) {
      std::size_t full = 0;  // bytes of as many columns as there may be
      for (std::size_t columns = 0; full < line.size() && (columns < widest || !begins_character(line[full])); ++full)
        columns += begins_character(line[full]);
      std::size_t space = line.rfind(' ', full);
      if (space == std::string::npos || space < indent.size()) space = line.find(' ', full);
      if (space == std::string::npos) break;
      out += line.substr(0, space) + "\n";
      line = indent + line.substr(space + 1);
    }
    out += line + "\n";
  }
  return out;
}

namespace {

constexpr std::string_view none = "N/A";

// Fits the width of nccl-tests' columns: three or four significant digits.
std::string compact(double value) {
  return value < 10     ? format_printable("{:.2f}", value)
         : value < 1000 ? format_printable("{:.1f}", value)
                        : format_printable("{:.0f}", value);
}

// Text of a column for a measurement; "N/A" without a value.
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

// Fills only the half (out of place, in place) of the measurement.
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
constexpr Cell wrong_cell = [](const Result& r) {
  return of(r).data_checked.value_or(true) ? std::to_string(of(r).wrong_elements) : "N/A";
};

template <Half half>
constexpr std::array columns_of_half{Column{"time", "(us)", 9, in_half<half, time_cell>, half},
                                     Column{"algbw", "(GB/s)", 7, in_half<half, algbw_cell>, half},
                                     Column{"busbw", "(GB/s)", 7, in_half<half, busbw_cell>, half},
                                     Column{"#wrong", "", 6, in_half<half, wrong_cell>, half}};

// Columns of nccl-tests, then p5bench's own.
std::vector<Column> all_columns() {
  std::vector<Column> columns{
      {"size", "(B)", 12, [](const Result& r) { return std::to_string(case_of(r).bytes.count); }},
      {"count", "(elements)", 13, [](const Result& r) { return std::to_string(elements(case_of(r))); }},
      {"type", "", 9, [](const Result& r) { return std::string(name_of(case_of(r).type)); }},
      {"redop", "", 6, [](const Result& r) { return std::string(case_of(r).op ? name_of(*case_of(r).op) : none); }},
      {"root", "", 5, [](const Result& r) {
         const std::optional<int> root = case_of(r).every_root ? slowest_root(of(r)) : case_of(r).root;
         return root ? std::to_string(*root) : std::string(none);
       }}};
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
  if (m.outcome == Outcome::measured || result.verdict.grade == Grade::wrong)
    return std::string(shown(result.verdict.grade));
  return format_printable("{}: {}", m.outcome == Outcome::skipped ? shown(Grade::unknown) : name_of(m.outcome),
                          m.because);
}

std::string title_of_table(const Case& c) {
  std::string title = operation_of(c);
  if (c.collective->pairwise) title += " (slowest pair)";
  if (c.group != "world") title += format_printable(", group {} (slowest group)", c.group);
  if (c.arm != "default") title += format_printable(", arm {}", c.arm);
  return format_printable("\n# {}, {} on {}\n", title, counted(static_cast<std::size_t>(c.ranks), "rank"),
                          counted(static_cast<std::size_t>(c.nodes), "node"));
}

// Table of one operation; columns without values are dropped.
std::string table_of(const std::vector<const Result*>& results) {
  std::vector<Column> columns = all_columns();
  std::erase_if(columns, [&](const Column& column) {
    return std::ranges::all_of(results, [&](const Result* result) { return column.cell(*result) == none; });
  });
  std::string halves = "#", titles = "#", units = "#";
  Half last = Half::neither;
  for (const Column& column : columns) {
    // "#" takes the first character of the first column.
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
    return operation_of(one) == operation_of(other) && one.group == other.group && one.arm == other.arm &&
           one.ranks == other.ranks && one.nodes == other.nodes;
  };
  std::string text;
  std::vector<const Result*> results;
  for (const Result* result : in_reading_order(report)) {
    if (!results.empty() && !same_table(results.back(), result)) text += table_of(results), results.clear();
    results.push_back(result);
  }
  return results.empty() ? text : text + table_of(results);
}

// Settings of each arm, and the libraries it ran on.
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

bool is_bad(Grade grade) { return grade != Grade::ok && grade != Grade::unknown; }

// Reasons of bad grades: of each measurement or, if `brief`, of the largest one of each operation and only without a
// named part that explains it.
std::string reasons(const Report& report, bool brief) {
  std::string text;
  for (const topo::Finding& finding : report.findings)
    if (topo::condemns(finding))
      text += format_printable("  {} {}: {}\n", name_of(Grade::faulty), finding.id, finding.evidence);
  for (const Suspect& suspect : report.suspects) text += format_printable("  suspect {}\n", sentence_about(suspect));
  for (const OpenQuestion& question : report.open_questions)
    text += format_printable("  {}: {}. To do: {}\n",
                             brief ? alternatives(question.candidates) : "one of " + join(question.candidates),
                             question.evidence, question.next);
  const bool explained = !report.suspects.empty() || !report.open_questions.empty();
  std::vector<const Result*> bad;
  for (const Result* result : in_reading_order(report)) {
    const Grade grade = result->verdict.grade;
    if (!is_bad(grade) || (brief && explained && grade == Grade::slow)) continue;
    const bool same = !bad.empty() && operation_of(bad.back()->measurement.measured_case) ==
                                          operation_of(result->measurement.measured_case);
    if (brief && same && bad.back()->verdict.grade == grade)
      bad.back() = result;  // the larger size
    else
      bad.push_back(result);
  }
  const std::size_t most = brief ? 4 : 8;
  const CaseNames cases(report);
  for (std::size_t i = 0; i < std::min(most, bad.size()); ++i)
    text += format_printable("  {} {}: {}\n", name_of(bad[i]->verdict.grade),
                             cases.of(bad[i]->measurement.measured_case), bad[i]->verdict.because);
  if (bad.size() > most) text += format_printable("  and {} more\n", bad.size() - most);
  return text;
}

std::string_view without_prefix(std::string_view because) {
  for (const std::string_view prefix : {"not judged: ", "not measured: "})
    if (because.starts_with(prefix)) because.remove_prefix(prefix.size());
  return because;
}

// Distinct reasons for measurements that were not judged.
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
  constexpr std::size_t most = 4;
  std::string text;
  for (const auto* each : sorted | std::views::take(most))
    text += format_printable("  not judged: {} {}: {}\n", each->second.measurements, join(each->second.operations),
                             without_prefix(each->first));
  if (sorted.size() > most) text += format_printable("  and {} more reasons\n", sorted.size() - most);
  return text;
}

// Call modes that save time at some size, with their costs and how a job uses them.
std::string call_modes_lines(const Tuning& tuning) {
  std::string text;
  for (const TuningCallMode& mode : tuning.call_modes) {
    std::vector<std::string> faster, slower;
    for (const TuningCallModeSize& size : mode.sizes) {
      const auto shown = [&](std::string_view more_or_less) {
        return format_printable("{} {} {:.0f} % {}", size.collective, to_text(Bytes{size.bytes}),
                                100 * std::abs(size.gain->share), more_or_less);
      };
      if (size.pays()) faster.push_back(shown("less"));
      if (size.costs()) slower.push_back(shown("more"));
    }
    if (faster.empty()) continue;
    text += format_printable("  faster with another way to call NCCL, {}: {}{}\n    {}\n", mode.name, join(faster),
                             slower.empty() ? "" : "; but " + join(slower), mode.how);
  }
  return text;
}

// Summary of tuning: rows, confirmed sizes and arms. The report holds the details.
std::string tuning_lines(const Report& report) {
  if (!report.tuning) return "";
  const Tuning& tuning = *report.tuning;
  std::string text = format_printable("Tuning ({}, {:.0f} s): {}\n", tuning.mode, tuning.wall_s, tuning.because);
  if (tuning.beside)
    text += format_printable(
        "  for operations beside {}: times are until all of it is done, for each operation; alone none may be slower "
        "by "
        "more than {:g} %\n",
        join(tuning.beside->works, " and "), 100 * tuning.beside->alone_loss);
  if (tuning.step)
    text += format_printable("  a step of the job: {:.3f} ms{}, {:.3f} ms by default ({:+.1f} % saved)\n",
                             1e3 * tuning.step->tuned_s,
                             tuning.outcome == "settings" ? "" : " with the settings that are not set",
                             1e3 * tuning.step->default_s, 100 * tuning.step->share);
  for (const TuningRow& row : tuning.rows)
    text += format_printable("  {} {} to {}: {}\n", row.collective, to_text(Bytes{row.from}), to_text(Bytes{row.to}),
                             row.setting);
  for (const TuningConfirmation& cell : tuning.confirmations)
    if (cell.setting && cell.gain)
      text += format_printable(
          "  {} {}: {:.2f} -> {:.2f} us, {:.1f} % less{}{}\n", cell.collective, to_text(Bytes{cell.tuner_bytes}),
          1e6 * cell.gain->default_s, 1e6 * cell.gain->tuned_s, 100 * cell.gain->share,
          cell.gain->interval
              ? format_printable(" ({:.1f} to {:.1f})", 100 * cell.gain->interval->low, 100 * cell.gain->interval->high)
              : "",
          cell.alone_gain ? format_printable("; alone {:.2f} -> {:.2f} us", 1e6 * cell.alone_gain->default_s,
                                             1e6 * cell.alone_gain->tuned_s)
                          : "");
  for (const TuningArm& arm : tuning.arms)
    text += format_printable(
        "  {}: {}{}{}{}\n", arm.name,
        arm.speedup ? format_printable("{:.3f} times as fast", *arm.speedup) : std::string("failed"),
        arm.interval ? format_printable(" ({:.3f} to {:.3f})", arm.interval->low, arm.interval->high) : std::string(),
        arm.alone_speedup ? format_printable(", {:.3f} times alone", *arm.alone_speedup) : std::string(),
        arm.adopted ? ", adopted" : "");
  text += call_modes_lines(tuning);
  for (const std::string& refusal : tuning.refusals) text += format_printable("  {}\n", refusal);
  for (const auto& [launcher, line] : tuning.loading) text += format_printable("  with {}: {}\n", launcher, line);
  return text;
}

std::string local_line(const Report& report) {
  const std::vector<std::string> ranges = local_ranges(report);
  std::string text = ranges.empty() ? "" : format_printable("Each GPU alone: {}\n", join(ranges, "; "));
  for (const std::string& sentence : products_left_out(report)) text += format_printable("  {}\n", sentence);
  return text;
}

std::string burn_tables(const Report& report) {
  std::string text;
  for (std::size_t host = 0; host < report.topology.hosts.size(); ++host)
    if (const std::string table = burn_table(report, host); !table.empty())
      text += format_printable("  {}:\n", report.topology.hosts[host].name) + table;
  return text;
}

std::string communicator_lines(const Report& report) {
  std::string text;
  for (const std::string& sentence : communicator_sentences(report)) text += format_printable("{}\n", sentence);
  return text;
}

std::string gdr_line(const Report& report) {
  const std::string text = gdr_text(report.gdr);
  return text.empty() ? ""
                      : format_printable("NICs reading GPU memory, each path alone (never tried on EFA): {}\n", text);
}

std::string heading(const Report& report) {
  const RunInfo& run = report.run;
  std::string text = format_printable(
      "# p5bench {} on {}: {} on {}, backend {}{}, seed {}{}\n", run.version, run.cluster,
      counted(static_cast<std::size_t>(run.ranks), "rank"), counted(static_cast<std::size_t>(run.nodes), "node"),
      run.backend, report.provenance == "measured" ? "" : ", " + upper_case(report.provenance), run.seed,
      run.launches == 1 ? "" : format_printable(", {} launches", run.launches));
  text += arms_lines(report);
  for (const std::string& remark : run.remarks) text += format_printable("# {}\n", remark);
  return text;
}

std::string finding_line(const topo::Finding& finding) {
  return format_printable("{} {}{}{}: {}. {}\n", topo::name_of(finding.severity), finding.id,
                          finding.about ? format_printable(" ({})", topo::name_of(*finding.about)) : "",
                          finding.subject.host.empty() ? "" : " on " + finding.subject.host, finding.evidence,
                          finding.action);
}

std::string findings_lines(const Report& report) {
  std::string text;
  for (const topo::Finding& finding : report.findings) text += finding_line(finding);
  return text;
}

std::string steps_lines(const Decision& decision) {
  std::string text;
  for (const std::string& step : decision.next) text += wrapped(format_printable("  - {}\n", step));
  if (!text.empty()) text = "To do:\n" + text;
  // Kept in one line for copying.
  if (!decision.command.empty()) text += format_printable("The same run on the other hosts:\n  {}\n", decision.command);
  return text;
}

// Measurements for fault localization appear only if something is wrong with them.
std::string summary_table(const Report& report) {
  std::vector<SummaryRow> rows = summary_of(report);
  std::erase_if(rows, [](const SummaryRow& row) { return row.for_parts && !is_bad(row.grade); });
  if (rows.empty()) return "";
  std::size_t widest = std::string_view("operation").size();
  for (SummaryRow& row : rows) {
    constexpr std::size_t most = 38;
    row.operation = printable(row.operation);
    row.operation = cut(std::move(row.operation), most);
    widest = std::max(widest, row.operation.size());
  }
  constexpr std::string_view form = "{:<{}} {:>6} {:>18} {:>10} {:>9} {:>9}  {}\n";
  std::string text = "\n" + fmt::format(form, "operation", widest, "ranks", "latency", "size", "GB/s", "of limit", "");
  for (const SummaryRow& row : rows)
    text += fmt::format(form, row.operation, widest, row.ranks, row.latency, row.size, compact(row.busbw), row.of_limit,
                        shown(row.grade));
  // Removes trailing blanks of the titles.
  const std::size_t first_end = text.find('\n', 1), last = text.find_last_not_of(' ', first_end - 1);
  return text.erase(last + 1, first_end - last - 1) + "\n";
}

// Infos are counted only.
std::string warnings_lines(const Report& report) {
  std::string text;
  std::size_t infos = 0;
  for (const topo::Finding& finding : report.findings) {
    if (finding.severity == topo::Severity::info)
      ++infos;
    else
      text += wrapped(finding_line(finding));
  }
  if (infos > 0) text += format_printable("{} in --table\n", counted(infos, "more note"));
  return text;
}

std::string title_of(const Case& c) {
  std::string title = operation_of(c);
  if (c.group != "world") title += ", group " + c.group;
  if (c.arm != "default") title += ", arm " + c.arm;
  return title;
}

Bytes bytes_of(const Result& result) { return result.measurement.measured_case.bytes; }

constexpr std::string_view green = "\033[1;32m", red = "\033[1;31m", yellow = "\033[1;33m", faint = "\033[2m",
                           plain = "\033[0m";

struct ColouredWord {
  std::string_view word, colour;
};
constexpr std::array first_words{
    ColouredWord{"ACCEPT", green},  ColouredWord{"REJECT", red},       ColouredWord{"CANNOT TELL", yellow},
    ColouredWord{"error ", red},    ColouredWord{"warning ", yellow},  ColouredWord{"  suspect ", red},
    ColouredWord{"  slow ", red},   ColouredWord{"  wrong ", red},     ColouredWord{"  failed ", red},
    ColouredWord{"  faulty ", red}, ColouredWord{"  one of ", yellow}, ColouredWord{"  not judged: ", faint}};
// Grades in the last column of a row.
constexpr std::array last_words{ColouredWord{"  ok", green}, ColouredWord{"  slow", red}, ColouredWord{"  wrong", red},
                                ColouredWord{"  failed", red}, ColouredWord{"  not judged", faint}};

void add_line(std::string_view line, std::string& out) {
  for (const auto& [word, colour] : first_words)
    if (line.starts_with(word)) {
      out.append(colour).append(word).append(plain).append(line.substr(word.size()));
      return;
    }
  for (const auto& [word, colour] : last_words)
    if (line.ends_with(word)) {
      line.remove_suffix(word.size());
      out.append(line).append(colour).append(word).append(plain);
      return;
    }
  out.append(line);
}

}  // namespace

std::string render_outline(const Report& report) {
  return heading(report) + findings_lines(report) + reasons(report, false);
}

std::string render_console(const Report& report) {
  // The decision comes first for readers of the file, and last for those who watch the terminal.
  const std::string decision = format_printable("{}\n", report.decision.sentence);
  return decision + wrapped(heading(report)) + wrapped(reasons(report, true)) + summary_table(report) +
         wrapped(communicator_lines(report)) + job_steps_text(report) + concurrency_table(report) +
         wrapped(local_line(report)) + burn_tables(report) + wrapped(gdr_line(report)) +
         wrapped(token_lines(report) + traffic_lines(report.traffic)) + tuning_lines(report) + warnings_lines(report) +
         wrapped(unjudged_lines(report)) + steps_lines(report.decision) + decision;
}

std::string render_table(const Report& report) {
  const std::string summary = format_printable("{}\n", report.decision.sentence) + reasons(report, false);
  std::string text =
      summary + heading(report) + findings_lines(report) + results_table(report) + concurrency_table(report) + "\n";
  for (const topo::Limit& limit : report.limits)
    text += format_printable("limit {} {}: {:.4g} GB/s, {}\n", limit.name, topo::name_of(limit.level), limit.rate.count,
                             limit.because);
  return text + communicator_lines(report) + local_line(report) + burn_tables(report) + gdr_line(report) +
         token_lines(report) + traffic_lines(report.traffic) + tuning_lines(report) + findings_lines(report) +
         unjudged_lines(report) + steps_lines(report.decision) + summary;
}

std::vector<SummaryRow> summary_of(const Report& report) {
  struct Ends {
    const Result *small = nullptr, *large = nullptr;
  };
  // Order of preference for the row of an operation: bad grades, then most pairs, then the largest message.
  const auto weight = [](const Result* each) {
    const Grade grade = each->verdict.grade;
    const std::size_t pairs =
        each->measurement.measured_case.collective->pairwise ? each->measurement.groups.size() : 0;
    return std::tuple{grade != Grade::ok && grade != Grade::unknown, pairs, bytes_of(*each).count};
  };
  // An import may have an operation on several numbers of ranks or nodes.
  using Row = std::tuple<std::string, int, int>;  // title, ranks, nodes
  std::vector<Row> order;
  std::map<Row, Ends> ends;
  for (const Result* result : in_reading_order(report)) {
    const Measurement& m = result->measurement;
    if (!has_figures_to_show(m) || !m.throughput || m.measured_case.replay) continue;
    const Row row(title_of(m.measured_case), m.measured_case.ranks, m.measured_case.nodes);
    Ends& its = ends[row];
    if (!its.large) order.push_back(row);
    if (!its.large || weight(result) > weight(its.large)) its.large = result;
    if (m.latency && (!its.small || bytes_of(*result) < bytes_of(*its.small))) its.small = result;
  }
  std::vector<SummaryRow> rows;
  for (const Row& row : order) {
    const auto [small, large] = ends.at(row);
    const std::string& title = std::get<0>(row);
    const int ranks = std::get<1>(row), nodes = std::get<2>(row);
    const Measurement& m = large->measurement;
    const bool on_others_too = std::ranges::count_if(order, [&](const Row& each) {
                                 return std::get<0>(each) == title && std::get<1>(each) == ranks;
                               }) > 1;
    rows.push_back(
        {.operation =
             on_others_too ? fmt::format("{}, {}", title, counted(static_cast<std::size_t>(nodes), "node")) : title,
         .ranks = ranks,
         .latency = small ? fmt::format("{:.2f} us ({})", small->measurement.latency->summary.median * 1e6,
                                        to_text(bytes_of(*small)))
                          : "",
         .size = to_text(m.measured_case.bytes),
         .busbw = bus_bandwidth(m.measured_case, {m.throughput->summary.median}).count,
         .of_limit =
             large->verdict.fraction ? percent_beside(*large->verdict.fraction, large->verdict.least_fraction) : "",
         .grade = large->verdict.grade,
         .for_parts = m.measured_case.for_parts});
  }
  return rows;
}

std::string job_steps_text(const Report& report) {
  std::string text;
  for (const Result* result : in_reading_order(report)) {
    const Measurement& m = result->measurement;
    if (!m.measured_case.replay || !has_figures_to_show(m) || !m.throughput) continue;
    const Summary& time = m.throughput->summary;
    text += format_printable("{}{}: {:.4g} ms a step", operation_of(m.measured_case),
                             m.measured_case.arm == "default" ? "" : ", arm " + m.measured_case.arm, 1e3 * time.median);
    if (time.interval)
      text +=
          format_printable(" (95 % interval {:.4g} to {:.4g})", 1e3 * time.interval->low, 1e3 * time.interval->high);
    if (const std::optional<Seconds>& recorded = m.measured_case.replay->step)
      text += format_printable(", recorded {:.4g}", 1e3 * recorded->count);
    text += is_bad(result->verdict.grade) ? format_printable(", {}\n", shown(result->verdict.grade)) : "\n";
  }
  return text;
}

std::string_view shown(Grade grade) { return grade == Grade::unknown ? "not judged" : name_of(grade); }

std::string with_colours(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    add_line(text.substr(0, end), out);
    if (end == std::string_view::npos) break;
    out += '\n';
    text.remove_prefix(end + 1);
  }
  return out;
}

std::string coloured_for_terminal(std::string_view text) {
  return stdout_takes_colours() ? with_colours(text) : std::string(text);
}

}  // namespace p5::reports
