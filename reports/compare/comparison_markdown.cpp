// The comparison in Markdown, short enough for a comment on a pull request: the answer, the bands, the sizes concerned,
// other differences.
#include <algorithm>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/markup.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

namespace {

std::string interval(const Effect& effect) {
  return fmt::format("{} to {}", change(effect.interval.low), change(effect.interval.high));
}

std::string bands(const Comparison& c) {
  std::string text =
      "| collective | quantity | band | sizes | launches | time | 95 % interval | matters | answer |\n"
      "|---|---|---|--:|--:|--:|--:|--:|---|\n";
  for (const BandRow& row : c.bands) {
    const std::string_view answer = name_of(row.answer);
    text += fmt::format("| {} | {} | {} | {} | {}, {} | {} | {} | {:.0f} % | {} |\n", for_markdown(row.collective),
                        name_of(row.quantity), meaning_of(row.threshold.band), row.sizes, row.base_launches,
                        row.new_launches, change(row.time.ratio), interval(row.time), 100 * row.threshold.matters,
                        row.answer == Answer::regression ? fmt::format("**{}**", answer) : std::string(answer));
  }
  return text;
}

std::string reasons(const Comparison& c) {
  std::string text;
  for (const BandRow& row : c.bands)
    if (row.answer != Answer::no_regression)
      text += fmt::format("- {}, {}, {}: {}\n", for_markdown(row.collective), name_of(row.quantity),
                          meaning_of(row.threshold.band), for_markdown(row.because));
  return text.empty() ? "" : "\n" + text;
}

std::string marked_sizes(const Comparison& c) {
  std::string text;
  for (const SizeRow& row : c.sizes)
    if (row.marked)
      text += fmt::format(
          "| {} | {} | {:.2f} | {:.2f} | {} | {} |\n", for_markdown(describe(row.measured_case)), name_of(row.quantity),
          row.base_s * 1e6, row.new_s * 1e6, change(row.time.ratio),
          row.base_selection == row.new_selection ? "" : for_markdown(row.base_selection + " -> " + row.new_selection));
  if (text.empty()) return "";
  return "\n<details><summary>Single sizes that differ</summary>\n\n| case | quantity | " + for_markdown(c.base_name) +
         ", us | " + for_markdown(c.new_name) + ", us | time | choice of NCCL |\n|---|---|--:|--:|--:|---|\n" + text +
         "\n</details>\n";
}

std::string differences(const Comparison& c) {
  if (c.differences.empty()) return "";
  std::string text =
      fmt::format("\n<details><summary>What else differs</summary>\n\n| what | {} | {} |\n|---|---|---|\n",
                  for_markdown(c.base_name), for_markdown(c.new_name));
  for (const Difference& each : c.differences)
    text += fmt::format("| {}: {} | {} | {} |\n", each.kind, for_markdown(each.name), for_markdown(each.base),
                        for_markdown(each.fresh));
  return text + "\n</details>\n";
}

std::string changes(const Comparison& c) {
  if (!c.trend) return "";
  const Trend& trend = *c.trend;
  if (trend.short_rows == static_cast<int>(trend.rows.size()))
    return fmt::format("\nHistory: {} runs are too few to tell changes of level.\n", trend.points.size());
  if (trend.changes.empty())
    return fmt::format("\nHistory: no change of level in {} rows of {} runs.\n", trend.rows.size(),
                       trend.points.size());
  std::string text =
      "\n**Changes of level in the history:**\n\n| from | row | time | runs | p | what changed then |\n"
      "|---|---|--:|--:|--:|---|\n";
  for (const Trend::Change& each : trend.changes) {
    std::string then;
    for (const Difference& d : each.differences)
      then += fmt::format("{}{}: {} -> {}", then.empty() ? "" : "; ", d.name, d.base, d.fresh);
    text += fmt::format("| {} | {} | {} | {}, {} | {:.4f} | {} |\n", for_markdown(trend.points[each.first].started),
                        for_markdown(trend.shown_rows[each.row]), change(each.ratio), each.runs_before, each.runs_after,
                        each.p_adjusted, for_markdown(then));
  }
  return text;
}

}  // namespace

std::string render_markdown(const Comparison& c) {
  std::string text = fmt::format("## {}\n\n", for_markdown(c.headline));
  if (c.provenance != "measured") text += fmt::format("**The figures are {}.** ", c.provenance);
  text +=
      "Times NEW over BASE: + is slower. Bands: small up to 64 KiB, large from 64 MiB on.\n\n" + bands(c) + reasons(c);
  if (!c.troubles.empty()) text += fmt::format("\n**Wrong or failed in {}:**\n\n", for_markdown(c.new_name));
  for (const FailedCase& trouble : c.troubles)
    text += fmt::format("- {}: {}{}\n", for_markdown(describe(trouble.measured_case)), for_markdown(trouble.what),
                        trouble.in_base ? fmt::format(" (in {} too)", for_markdown(c.base_name)) : "");
  if (!c.new_suspects.empty()) text += fmt::format("\n**Accused by {}:**\n\n", for_markdown(c.new_name));
  for (const Suspect& suspect : c.new_suspects)
    text +=
        fmt::format("- {}{}: {}\n", for_markdown(text_of(suspect)),
                    suspect.host.empty() ? "" : " of " + for_markdown(suspect.host), for_markdown(suspect.evidence));
  text += changes(c) + marked_sizes(c) + differences(c) + "\n";
  for (const std::string& remark : c.remarks) text += for_markdown(remark) + "\n\n";
  return text + fmt::format("{}: {}. {}: {}. p5bench {}.\n", for_markdown(c.base_name),
                            for_markdown(join(c.base_sources)), for_markdown(c.new_name),
                            for_markdown(join(c.new_sources)), c.version);
}

}  // namespace p5::reports
