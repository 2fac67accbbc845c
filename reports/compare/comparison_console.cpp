// The comparison on a terminal: the answer first, then each band, the sizes concerned, and other differences.
#include <algorithm>
#include <filesystem>
#include <span>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "reports/case_names.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

namespace {

constexpr std::size_t most_listed = 12;  // sizes or differences; the other formats list all

// Those of a list that are shown.
auto first_listed(const auto& list) { return std::span(list).first(std::min(list.size(), most_listed)); }

// A line that counts the others; "" if there are none.
std::string count_of_others(const auto& list) {
  if (list.size() <= most_listed) return "";
  return format_printable("  and {} more; see --format json\n", list.size() - most_listed);
}

// A table whose columns are as wide as their widest entry; the first `left` columns and the last are left-aligned.
std::string table_of(const std::vector<std::vector<std::string>>& rows, std::size_t left,
                     std::string_view indent = "") {
  std::vector<std::size_t> widths(rows.front().size());
  for (const std::vector<std::string>& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line(indent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - width_of(row[i]), ' ');
      const bool last = i + 1 == row.size();
      line += i < left || last ? row[i] + blanks : blanks + row[i];
      if (!last) line += i + 2 == row.size() ? "  " : " ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string p_text(double p) { return p < 0.001 ? "< 0.001" : format_printable("{:.3f}", p); }

std::string answer_text(const BandRow& row) {
  if (row.answer == Answer::regression)
    return row.change      ? "REGRESSION (level)"
           : row.time_rose ? "REGRESSION"
           : row.mean_rose ? "REGRESSION (mean)"
                           : "REGRESSION (spread)";
  if (row.answer == Answer::no_regression) return "no regression";
  if (row.runs_needed) return format_printable("inconclusive ({} runs)", *row.runs_needed);
  return row.launches_needed ? format_printable("inconclusive ({} launches)", *row.launches_needed) : "inconclusive";
}

std::string bands_table(const Comparison& c) {
  if (c.bands.empty()) return "";
  std::vector<std::vector<std::string>> rows{
      {"collective", "quantity", "band", "launches", "time", "95 % interval", "matters", "p", "answer"}};
  for (const BandRow& row : c.bands)
    rows.push_back(
        {printable(shown_name(row)), std::string(name_of(row.quantity)), std::string(meaning_of(row.threshold.band)),
         format_printable("{}, {}", row.base_launches, row.new_launches), change(row.time.ratio),
         format_printable("{:+.1f} to {:+.1f} %", 100 * (row.time.interval.low - 1),
                          100 * (row.time.interval.high - 1)),
         format_printable("{:.0f} %", 100 * row.threshold.matters), p_text(row.time.p_adjusted), answer_text(row)});
  return table_of(rows, 3);
}

std::string sizes_table(const Comparison& c) {
  std::vector<const SizeRow*> marked;
  for (const SizeRow& row : c.sizes)
    if (row.marked) marked.push_back(&row);
  if (marked.empty()) return "";
  std::ranges::stable_sort(marked, std::greater(), [](const SizeRow* row) { return row->time.ratio; });
  std::string text =
      format_printable("\nWhere single sizes differ ({} of {}; the worst first):\n", marked.size(), c.sizes.size());
  const CaseNames cases(c);
  std::vector<std::vector<std::string>> rows;
  for (const SizeRow* row : first_listed(marked))
    rows.push_back({printable(cases.of(row->measured_case)), std::string(name_of(row->quantity)),
                    format_printable("{:.2f} us", row->base_s * 1e6), format_printable("{:.2f} us", row->new_s * 1e6),
                    change(row->time.ratio),
                    row->base_selection == row->new_selection
                        ? ""
                        : format_printable("{} -> {}", row->base_selection, row->new_selection)});
  return text + table_of(rows, 2, "  ") + count_of_others(marked);
}

std::string or_nothing(const std::string& text) { return text.empty() ? "(not set)" : text; }

std::string differences_table(const Comparison& c) {
  if (c.differences.empty()) return "";
  std::string text = "\nWhat else differs:\n";
  for (const Difference& each : first_listed(c.differences))
    text +=
        format_printable("  {}, {}: {} -> {}\n", each.kind, each.name, or_nothing(each.base), or_nothing(each.fresh));
  return text + count_of_others(c.differences);
}

// Hosts by their type only, since lists of names would fill the screen.
std::string at_the_time(const std::vector<Difference>& differences) {
  std::vector<std::string> parts;
  for (const Difference& each : differences)
    parts.push_back(each.kind == "topology"
                        ? "other " + each.name
                        : format_printable("{}: {} -> {}", each.name, or_nothing(each.base), or_nothing(each.fresh)));
  return parts.empty() ? "nothing that the reports record" : join(parts, "; ");
}

std::string changes_table(const Trend& trend) {
  const std::size_t rows = trend.rows.size();
  if (trend.short_rows == static_cast<int>(rows))
    return format_printable("Changes of level: {} runs are too few to tell.\n", trend.points.size());
  if (trend.changes.empty())
    return format_printable("Changes of level: none found in {} rows of {} runs.\n", rows, trend.points.size());
  std::string text = format_printable(
      "Changes of level, the newest first (chance that any of {} rows shows one where nothing changed: {:.0f} %):\n",
      rows, 100 * chance_of_change);
  std::vector<std::vector<std::string>> lines{{"from", "row", "time", "runs", "p", ""}};
  for (const Trend::Change& each : first_listed(trend.changes)) {
    const Trend::Point& first = trend.points[each.first];
    lines.push_back({first.started.empty() ? "(not known)" : printable(first.started),
                     printable(trend.shown_rows[each.row]), change(each.ratio),
                     format_printable("{}, {}", each.runs_before, each.runs_after), p_text(each.p_adjusted),
                     each.still ? format_printable("the newest run: {}", change(*each.still)) : ""});
  }
  text += table_of(lines, 2, "  ");
  const Trend::Change* above = nullptr;
  for (const Trend::Change& each : first_listed(trend.changes)) {
    if (!above || above->first != each.first || above->before != each.before)
      text += format_printable("  Changed with run {}: {}\n", each.first + 1, at_the_time(each.differences));
    above = &each;
  }
  return text + count_of_others(trend.changes);
}

// The name of a run: its folder, which is named after its time, or its file.
std::string short_name(const std::string& source) {
  const std::filesystem::path path(source);
  const std::filesystem::path folder = path.filename() == "report.json" ? path.parent_path() : path;
  return folder.filename().empty() ? source : folder.filename().string();
}

std::string trend_table(const Comparison& c) {
  if (!c.trend) return "";
  constexpr std::size_t most_runs = 30, most_rows = 9;  // runs or rows of a table; more rows make several tables
  const Trend& trend = *c.trend;
  std::string text = "History, each run against the median of all:\n";
  for (std::size_t row = 0; row < trend.rows.size(); ++row)
    text += format_printable("  [{}] {}\n", row + 1, trend.shown_rows[row]);
  const std::size_t left_out = trend.points.size() - std::min(trend.points.size(), most_runs);
  if (left_out > 0) text += format_printable("({} runs before these; see --format json)\n", left_out);
  for (std::size_t begin = 0; begin == 0 || begin < trend.rows.size(); begin += most_rows) {
    const std::size_t end = std::min(begin + most_rows, trend.rows.size());
    std::vector<std::vector<std::string>> lines{{"run", "started"}};
    for (std::size_t row = begin; row < end; ++row) lines[0].push_back(format_printable("[{}]", row + 1));
    lines[0].emplace_back("folder");
    for (std::size_t i = left_out; i < trend.points.size(); ++i) {
      const Trend::Point& point = trend.points[i];
      std::vector<std::string>& line = lines.emplace_back();
      line = {format_printable("{}", i + 1), point.started.empty() ? "(not known)" : printable(point.started)};
      for (std::size_t row = begin; row < end; ++row)
        line.push_back(point.ratios[row] ? change(*point.ratios[row]) : "N/A");
      line.push_back(printable(short_name(point.source)));
    }
    text += table_of(lines, 2);
  }
  std::string software;
  for (std::size_t i = 0; i < trend.points.size(); ++i) {
    if (trend.points[i].software == software) continue;
    software = trend.points[i].software;
    text += format_printable("From run {} on: {}\n", i + 1, software);
  }
  return text + "\n" + changes_table(trend) + "\n";
}

std::string not_compared(const std::vector<std::string>& cases, const std::string& side) {
  if (cases.empty()) return "";
  return format_printable("Only in {}: {} {} ({}{})\n", side, cases.size(), cases.size() == 1 ? "case" : "cases",
                          cases.front(), cases.size() == 1 ? "" : ", ...");
}

std::string sources_of(const std::string& name, const std::vector<std::string>& sources) {
  constexpr std::size_t most = 3;
  const std::vector<std::string> first(sources.begin(),
                                       sources.begin() + static_cast<std::ptrdiff_t>(std::min(sources.size(), most)));
  return format_printable("{}: {}{}\n", name, join(first),
                          sources.size() > most ? format_printable(" and {} more", sources.size() - most) : "");
}

}  // namespace

std::string render_console(const Comparison& c) {
  std::string text = trend_table(c) + sources_of(c.base_name, c.base_sources) + sources_of(c.new_name, c.new_sources);
  if (c.provenance != "measured") text += format_printable("The figures are {}.\n", c.provenance);
  text += "Ratios are NEW over BASE: + is slower. Bands: small up to 64 KiB, large from 64 MiB on.\n\n" +
          bands_table(c) + sizes_table(c) + differences_table(c);
  if (!c.bad_ends.empty()) text += format_printable("\n{} found or ended with:\n", c.new_name);
  for (const FailedRun& end : first_listed(c.bad_ends))
    text += format_printable("  {}{}\n", c.new_sources.size() > 1 ? end.source + ": " : "", end.because);
  text += count_of_others(c.bad_ends);
  const CaseNames cases(c);
  if (!c.troubles.empty()) text += format_printable("\nWrong or failed in {}:\n", c.new_name);
  for (const FailedCase& trouble : first_listed(c.troubles))
    text += format_printable("  {}: {}{}\n", cases.of(trouble.measured_case), trouble.what,
                             trouble.in_base ? format_printable(" (in {} too)", c.base_name) : "");
  text += count_of_others(c.troubles);
  if (!c.new_suspects.empty()) text += format_printable("\nSuspected by {}:\n", c.new_name);
  for (const Suspect& suspect : c.new_suspects)
    text += format_printable("  {}{}: {}\n", text_of(suspect),
                             suspect.host.empty() ? "" : format_printable(" of {}", suspect.host), suspect.evidence);
  text += "\n" + not_compared(c.only_in_base, c.base_name) + not_compared(c.only_in_new, c.new_name);
  for (const std::string& remark : c.remarks) text += format_printable("{}\n", remark);
  constexpr std::size_t widest = 120, hanging = 4;
  return wrapped(text, widest, hanging) + format_printable("{}\n", c.headline);
}

}  // namespace p5::reports
