// The comparison on a terminal: the answer first, then each band, where it is, and what else differs.
#include <algorithm>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/printing.hpp"
#include "bench/base/text.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

namespace {

constexpr std::size_t most_listed = 12;  // of sizes and differences; the other formats have them all

std::string p_text(double p) { return p < 0.001 ? "< 0.001" : format_printable("{:.3f}", p); }

std::string answer_text(const BandRow& row) {
  if (row.answer == Answer::regression) return row.spread_rose ? "REGRESSION (spread)" : "REGRESSION";
  if (row.answer == Answer::no_regression) return "no regression";
  return row.launches_needed ? format_printable("inconclusive ({} launches)", *row.launches_needed) : "inconclusive";
}

std::string bands_table(const Comparison& c) {
  std::string text =
      format_printable("{:<24} {:<10} {:<10} {:>5} {:>8} {:>9} {:>20} {:>8} {:>9}  {}\n", "collective", "quantity",
                       "band", "sizes", "launches", "time", "95 % interval", "matters", "p", "answer");
  for (const BandRow& row : c.bands)
    text += format_printable(
        "{:<24} {:<10} {:<10} {:>5} {:>8} {:>9} {:>20} {:>8} {:>9}  {}\n", row.collective, name_of(row.quantity),
        meaning_of(row.threshold.band), row.sizes, format_printable("{}, {}", row.base_launches, row.new_launches),
        change(row.time.ratio),
        format_printable("{} to {}", change(row.time.interval.low), change(row.time.interval.high)),
        format_printable("{:.0f} %", 100 * row.threshold.matters), p_text(row.time.p_adjusted), answer_text(row));
  return text;
}

std::string sizes_table(const Comparison& c) {
  std::vector<const SizeRow*> marked;
  for (const SizeRow& row : c.sizes)
    if (row.marked) marked.push_back(&row);
  if (marked.empty()) return "";
  std::ranges::stable_sort(marked, std::greater(), [](const SizeRow* row) { return row->time.ratio; });
  std::string text =
      format_printable("\nWhere single sizes differ ({} of {}; the worst first):\n", marked.size(), c.sizes.size());
  for (const SizeRow* row : std::span(marked).first(std::min(marked.size(), most_listed)))
    text += format_printable("  {:<34} {:<10} {:>11.2f} us {:>11.2f} us {:>9}{}\n", describe(row->measured_case),
                             name_of(row->quantity), row->base_s * 1e6, row->new_s * 1e6, change(row->time.ratio),
                             row->base_selection == row->new_selection
                                 ? ""
                                 : format_printable("  {} -> {}", row->base_selection, row->new_selection));
  if (marked.size() > most_listed)
    text += format_printable("  and {} more; see --format json\n", marked.size() - most_listed);
  return text;
}

std::string or_nothing(const std::string& text) { return text.empty() ? "(not set)" : text; }

std::string differences_table(const Comparison& c) {
  if (c.differences.empty()) return "";
  std::string text = "\nWhat else differs:\n";
  for (const Difference& each : std::span(c.differences).first(std::min(c.differences.size(), most_listed)))
    text +=
        format_printable("  {}, {}: {} -> {}\n", each.kind, each.name, or_nothing(each.base), or_nothing(each.fresh));
  if (c.differences.size() > most_listed)
    text += format_printable("  and {} more; see --format json\n", c.differences.size() - most_listed);
  return text;
}

// Hosts by their kind alone: lists of names would fill the screen.
std::string at_the_time(const std::vector<Difference>& differences) {
  std::vector<std::string> parts;
  for (const Difference& each : differences)
    parts.push_back(each.kind == "topology"
                        ? "other " + each.name
                        : format_printable("{}: {} -> {}", each.name, or_nothing(each.base), or_nothing(each.fresh)));
  return parts.empty() ? "nothing that the reports tell of" : join(parts, "; ");
}

std::string changes_table(const Trend& trend) {
  const std::size_t rows = trend.rows.size();
  if (trend.short_rows == static_cast<int>(rows))
    return format_printable("Changes of level: {} runs are too few to tell.\n", trend.points.size());
  if (trend.changes.empty())
    return format_printable("Changes of level: none found in {} rows of {} runs.\n", rows, trend.points.size());
  std::string text = format_printable(
      "Changes of level, the newest first (the chance that any of {} rows shows one where nothing changed: {:.0f} %):\n"
      "  {:<21} {:<38} {:>8} {:>8} {:>7}  {}\n",
      rows, 100 * chance_of_change, "from", "row", "time", "runs", "p", "what changed then");
  const Trend::Change* above = nullptr;
  for (const Trend::Change& each : std::span(trend.changes).first(std::min(trend.changes.size(), most_listed))) {
    const Trend::Point& first = trend.points[each.first];
    const bool again = above && above->first == each.first && above->before == each.before;
    text += format_printable("  {:<21} {:<38} {:>8} {:>8} {:>7}  {}\n",
                             first.started.empty() ? "(not known)" : first.started, trend.shown_rows[each.row],
                             change(each.ratio), format_printable("{}, {}", each.runs_before, each.runs_after),
                             p_text(each.p_adjusted), again ? "as above" : at_the_time(each.differences));
    above = &each;
  }
  if (trend.changes.size() > most_listed)
    text += format_printable("  and {} more; see --format json\n", trend.changes.size() - most_listed);
  return text;
}

std::string trend_table(const Comparison& c) {
  if (!c.trend) return "";
  constexpr std::size_t most_runs = 30;
  std::string text = "History, each run against the median of all:\n";
  for (std::size_t row = 0; row < c.trend->rows.size(); ++row)
    text += format_printable("  [{}] {}\n", row + 1, c.trend->shown_rows[row]);
  text += format_printable("{:<21}", "started");
  for (std::size_t row = 0; row < c.trend->rows.size(); ++row)
    text += format_printable(" {:>9}", format_printable("[{}]", row + 1));
  text += "  software, run\n";
  const std::size_t left_out = c.trend->points.size() - std::min(c.trend->points.size(), most_runs);
  if (left_out > 0) text += format_printable("({} runs before these; see --format json)\n", left_out);
  for (const Trend::Point& point : std::span(c.trend->points).subspan(left_out)) {
    text += format_printable("{:<21}", point.started.empty() ? "(not known)" : point.started);
    for (const std::optional<double>& ratio : point.ratios)
      text += format_printable(" {:>9}", ratio ? change(*ratio) : "N/A");
    text += format_printable("  {}, {}\n", point.software, point.source);
  }
  return text + "\n" + changes_table(*c.trend) + "\n";
}

std::string not_compared(const std::vector<std::string>& cases, const std::string& side) {
  if (cases.empty()) return "";
  return format_printable("Only in {}: {} {} ({}{})\n", side, cases.size(), cases.size() == 1 ? "case" : "cases",
                          cases.front(), cases.size() == 1 ? "" : ", ...");
}

}  // namespace

std::string render_console(const Comparison& c) {
  std::string text = trend_table(c) + format_printable("{}: {}\n{}: {}\n", c.base_name, join(c.base_sources),
                                                       c.new_name, join(c.new_sources));
  if (c.provenance != "measured") text += format_printable("The figures are {}.\n", c.provenance);
  text += "Ratios are NEW over BASE: + is slower. Bands: small up to 64 KiB, large from 64 MiB on.\n\n" +
          bands_table(c) + sizes_table(c) + differences_table(c);
  if (!c.troubles.empty()) text += "\nFine before, not now:\n";
  for (const Trouble& trouble : c.troubles)
    text += format_printable("  {}: {}\n", describe(trouble.measured_case), trouble.what);
  text += "\n" + not_compared(c.only_in_base, c.base_name) + not_compared(c.only_in_new, c.new_name);
  for (const std::string& remark : c.remarks) text += format_printable("{}\n", remark);
  return text + format_printable("{}\n", c.headline);
}

}  // namespace p5::reports
