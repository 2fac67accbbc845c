// The comparison as JSON, as JUnit XML and in Markdown.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/base/names.hpp"
#include "reports/case_names.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/json_values.hpp"
#include "reports/markup.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

// ---- JSON (schema p5bench.compare/1): times are microseconds, ratios NEW over BASE, absent is null.

using json_fields::or_null;
using json_fields::written;
using nlohmann::json;

namespace {

json effect_json(const Effect& effect) {
  return {{"ratio", written(effect.ratio)},
          {"ci95", {written(effect.interval.low), written(effect.interval.high)}},
          {"p", written(effect.p)},
          {"p_adjusted", written(effect.p_adjusted)}};
}

json band_json(const BandRow& row) {
  json only = nullptr;
  for (const Bytes bytes : row.only) only.push_back(bytes.count);
  return {{"collective", row.collective},
          {"quantity", name_of(row.quantity)},
          {"band", row.threshold.band},
          {"matters", written(row.threshold.matters)},
          {"negligible", written(row.threshold.negligible)},
          {"threshold_because", row.threshold.because},
          {"sizes", row.sizes},
          {"only_sizes", only},
          {"base_launches", row.base_launches},
          {"new_launches", row.new_launches},
          {"screening", row.screening},
          {"time", effect_json(row.time)},
          {"mean", row.mean ? effect_json(*row.mean) : json(nullptr)},
          {"spread", row.spread ? effect_json(*row.spread) : json(nullptr)},
          {"base_spread", written(row.base_spread)},
          {"new_spread", written(row.new_spread)},
          {"answer", name_of(row.answer)},
          {"mean_rose", row.mean_rose},
          {"spread_rose", row.spread_rose},
          {"launches_needed", written(row.launches_needed)},
          {"runs_needed", written(row.runs_needed)},
          {"change", written(row.change)},
          {"because", row.because}};
}

json size_json(const SizeRow& row) {
  return {{"case", to_json(row.measured_case)},
          {"quantity", name_of(row.quantity)},
          {"band", row.band},
          {"base_us", written(row.base_s * 1e6)},
          {"new_us", written(row.new_s * 1e6)},
          {"time", effect_json(row.time)},
          {"marked", row.marked},
          {"base_selection", written(or_null(row.base_selection))},
          {"new_selection", written(or_null(row.new_selection))}};
}

json difference_json(const Difference& each) {
  return {{"kind", each.kind},
          {"name", each.name},
          {"base", written(or_null(each.base))},
          {"new", written(or_null(each.fresh))}};
}

template <class Each>
json list(const std::vector<Each>& values, json (*convert)(const Each&)) {
  json all = json::array();
  for (const Each& value : values) all.push_back(convert(value));
  return all;
}

json trouble_json(const FailedCase& trouble) {
  return {{"case", to_json(trouble.measured_case)},
          {"wrong_data", trouble.wrong_data},
          {"what", trouble.what},
          {"in_base", trouble.in_base}};
}

json bad_end_json(const FailedRun& end) {
  return {{"source", end.source}, {"exit_code", static_cast<int>(end.code)}, {"because", end.because}};
}

json level_json(const Trend::Level& level) {
  return {{"row", level.row}, {"first", level.first}, {"last", level.last}, {"ratio", written(level.ratio)}};
}

json change_json(const Trend::Change& change) {
  return {{"row", change.row},
          {"before", change.before},
          {"first", change.first},
          {"ratio", written(change.ratio)},
          {"runs_before", change.runs_before},
          {"runs_after", change.runs_after},
          {"p", written(change.p)},
          {"p_adjusted", written(change.p_adjusted)},
          {"still", written(change.still)},
          {"differences", list(change.differences, difference_json)}};
}

json trend_json(const Trend& trend) {
  json points = json::array();
  for (const Trend::Point& point : trend.points) {
    points.push_back({{"source", point.source},
                      {"started", written(or_null(point.started))},
                      {"software", point.software},
                      {"ratios", written(point.ratios)},
                      {"differences", list(point.differences, difference_json)}});
  }
  return {{"rows", trend.rows},
          {"points", points},
          {"levels", list(trend.levels, level_json)},
          {"changes", list(trend.changes, change_json)},
          {"short_rows", trend.short_rows}};
}

}  // namespace

json to_json(const Comparison& c) {
  return {{"schema", comparison_schema_name},
          {"version", c.version},
          {"made", written(or_null(c.made))},
          {"base", {{"name", c.base_name}, {"sources", c.base_sources}}},
          {"new", {{"name", c.new_name}, {"sources", c.new_sources}}},
          {"provenance", c.provenance},
          {"seed", c.seed},
          {"answer", name_of(c.answer)},
          {"exit_code", static_cast<int>(c.exit_code)},
          {"screening", c.screening},
          {"headline", c.headline},
          {"bands", list(c.bands, band_json)},
          {"sizes", list(c.sizes, size_json)},
          {"differences", list(c.differences, difference_json)},
          {"troubles", list(c.troubles, trouble_json)},
          {"bad_ends", list(c.bad_ends, bad_end_json)},
          {"new_suspects", list(c.new_suspects, to_json)},
          {"only_in_base", c.only_in_base},
          {"only_in_new", c.only_in_new},
          {"remarks", c.remarks},
          {"trend", c.trend ? trend_json(*c.trend) : json(nullptr)}};
}

// ---- The comparison as JUnit XML, for CI servers: one test case for the answer and one per band. A regression is a
// failure, as is a part that NEW suspects and BASE does not; an inconclusive band is skipped, since it passed no test;
// wrong data, failed cases and runs of NEW that ended abnormally are errors.

namespace {

std::string outcome(const BandRow& row) {
  switch (row.answer) {
    case Answer::regression:
      return fmt::format("<failure type=\"regression\" message=\"{}\"/>", for_xml(row.because));
    case Answer::inconclusive:
      return fmt::format("<skipped message=\"{}\"/>", for_xml("inconclusive: " + row.because));
    case Answer::no_regression:
      break;
  }
  return fmt::format("<system-out>{}</system-out>", for_xml(row.because));
}

bool is_broken(const FailedRun& end) { return end.code == ExitCode::slow; }

std::string_view kind_of_end(const FailedRun& end) {
  return is_broken(end) ? "broken" : end.code == ExitCode::wrong_data ? "wrong data" : "not finished";
}

// The answer, by the exit code, so that the suite fails exactly if the command does.
std::string answer_of(const Comparison& c) {
  const std::string said = for_xml(c.headline);
  switch (c.exit_code) {
    case ExitCode::ok:
      return fmt::format("<system-out>{}</system-out>", said);
    case ExitCode::inconclusive:
      return fmt::format("<skipped message=\"{}\"/>", said);
    case ExitCode::slow:
      return fmt::format("<failure type=\"regression\" message=\"{}\"/>", said);
    default:
      return fmt::format("<error type=\"{}\" message=\"{}\"/>",
                         c.exit_code == ExitCode::wrong_data ? "wrong data" : "not finished", said);
  }
}

}  // namespace

std::string render_junit(const Comparison& c) {
  const bool failed = c.exit_code == ExitCode::slow, skipped = c.exit_code == ExitCode::inconclusive;
  const bool in_error = !failed && !skipped && c.exit_code != ExitCode::ok;
  const auto broken = static_cast<std::size_t>(std::ranges::count_if(c.bad_ends, is_broken));
  const auto count = [&](Answer answer) { return std::ranges::count(c.bands, answer, &BandRow::answer); };
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites>\n<testsuite name=\"p5bench compare\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" "
      "time=\"0\"{}>\n",
      1 + c.bands.size() + c.troubles.size() + c.bad_ends.size() + c.new_suspects.size(),
      static_cast<std::size_t>(count(Answer::regression)) + c.new_suspects.size() + broken + (failed ? 1 : 0),
      c.troubles.size() + c.bad_ends.size() - broken + (in_error ? 1 : 0),
      count(Answer::inconclusive) + (skipped ? 1 : 0),
      c.made.empty() ? "" : fmt::format(" timestamp=\"{}\"", for_xml(c.made.substr(0, c.made.find('Z')))));
  text += fmt::format(
      "<properties><property name=\"base\" value=\"{}\"/><property name=\"new\" value=\"{}\"/>"
      "<property name=\"provenance\" value=\"{}\"/><property name=\"exit code\" value=\"{}\"/></properties>\n",
      for_xml(join(c.base_sources)), for_xml(join(c.new_sources)), for_xml(c.provenance),
      static_cast<int>(c.exit_code));
  TestNames names;
  const auto add_test = [&](std::string_view group, const std::string& name, const std::string& result) {
    text += fmt::format("<testcase classname=\"{}\" name=\"{}\" time=\"0\">{}</testcase>\n", for_xml(group),
                        for_xml(names.unique(group, name)), result);
  };
  add_test("answer", "answer", answer_of(c));
  const CaseNames cases(c);
  for (const BandRow& row : c.bands)
    add_test(shown_name(row), fmt::format("{} {}", name_of(row.quantity), row.threshold.band), outcome(row));
  for (const FailedCase& trouble : c.troubles)
    add_test(trouble.measured_case.collective->name, cases.of(trouble.measured_case),
             fmt::format("<error type=\"{}\" message=\"{}\"/>", trouble.wrong_data ? "wrong data" : "failed",
                         for_xml(trouble.what)));
  for (const FailedRun& end : c.bad_ends)
    add_test("run", end.source,
             fmt::format("<{} type=\"{}\" message=\"{}\"/>", is_broken(end) ? "failure" : "error", kind_of_end(end),
                         for_xml(end.because)));
  for (const Suspect& suspect : c.new_suspects)
    add_test("suspect", text_of(suspect),
             fmt::format("<failure type=\"suspect\" message=\"{}\"/>", for_xml(suspect.evidence)));
  std::string said = c.headline + "\n";
  for (const std::string& remark : c.remarks) said += remark + "\n";
  return text + fmt::format("<system-out>{}</system-out>\n</testsuite>\n</testsuites>\n", for_xml(said));
}

// ---- The comparison in Markdown, short enough for a comment on a pull request: the answer, the bands, the sizes
// concerned, other differences.

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
    text += fmt::format("| {} | {} | {} | {} | {}, {} | {} | {} | {:.0f} % | {} |\n", for_markdown(shown_name(row)),
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
      text += fmt::format("- {}, {}, {}: {}\n", for_markdown(shown_name(row)), name_of(row.quantity),
                          meaning_of(row.threshold.band), for_markdown(row.because));
  return text.empty() ? "" : "\n" + text;
}

std::string marked_sizes(const Comparison& c) {
  const CaseNames cases(c);
  std::string text;
  for (const SizeRow& row : c.sizes)
    if (row.marked)
      text += fmt::format(
          "| {} | {} | {:.2f} | {:.2f} | {} | {} |\n", for_markdown(cases.of(row.measured_case)), name_of(row.quantity),
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
    const Trend::Point& first = trend.points[each.first];
    text += fmt::format("| {} | {} | {} | {}, {} | {:.4f} | {} |\n",
                        for_markdown(first.started.empty() ? first.source : first.started),
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
  if (!c.bad_ends.empty()) text += fmt::format("\n**{} found or ended with:**\n\n", for_markdown(c.new_name));
  for (const FailedRun& end : c.bad_ends)
    text += fmt::format("- {}{}\n", c.new_sources.size() > 1 ? for_markdown(end.source) + ": " : "",
                        for_markdown(end.because));
  const CaseNames cases(c);
  if (!c.troubles.empty()) text += fmt::format("\n**Wrong or failed in {}:**\n\n", for_markdown(c.new_name));
  for (const FailedCase& trouble : c.troubles)
    text += fmt::format("- {}: {}{}\n", for_markdown(cases.of(trouble.measured_case)), for_markdown(trouble.what),
                        trouble.in_base ? fmt::format(" (in {} too)", for_markdown(c.base_name)) : "");
  if (!c.new_suspects.empty()) text += fmt::format("\n**Suspected by {}:**\n\n", for_markdown(c.new_name));
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
