// The comparison as JUnit XML, for CI servers: one test case for the answer and one per band. A regression is a
// failure, as is a part that NEW suspects and BASE does not; an inconclusive band is skipped, since it passed no test;
// wrong data, failed cases and runs of NEW that ended abnormally are errors.
#include <algorithm>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/markup.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

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
      "<property name=\"provenance\" value=\"{}\"/><property name=\"exit code\" value=\"{}\"/></properties>\n"
      "<testcase classname=\"answer\" name=\"answer\" time=\"0\">{}</testcase>\n",
      for_xml(join(c.base_sources)), for_xml(join(c.new_sources)), for_xml(c.provenance), static_cast<int>(c.exit_code),
      answer_of(c));
  TestNames names;
  for (const BandRow& row : c.bands)
    text += fmt::format("<testcase classname=\"{}\" name=\"{} {}\" time=\"0\">{}</testcase>\n", for_xml(row.collective),
                        name_of(row.quantity), for_xml(row.threshold.band), outcome(row));
  for (const FailedCase& trouble : c.troubles)
    text += fmt::format(
        "<testcase classname=\"{}\" name=\"{}\" time=\"0\"><error type=\"{}\" message=\"{}\"/></testcase>\n",
        trouble.measured_case.collective->name,
        for_xml(names.unique(trouble.measured_case.collective->name, describe(trouble.measured_case))),
        trouble.wrong_data ? "wrong data" : "failed", for_xml(trouble.what));
  for (const FailedRun& end : c.bad_ends)
    text +=
        fmt::format("<testcase classname=\"run\" name=\"{}\" time=\"0\"><{} type=\"{}\" message=\"{}\"/></testcase>\n",
                    for_xml(names.unique("run", end.source)), is_broken(end) ? "failure" : "error", kind_of_end(end),
                    for_xml(end.because));
  for (const Suspect& suspect : c.new_suspects)
    text += fmt::format(
        "<testcase classname=\"suspect\" name=\"{}\" time=\"0\"><failure type=\"suspect\" message=\"{}\"/>"
        "</testcase>\n",
        for_xml(names.unique("suspect", text_of(suspect))), for_xml(suspect.evidence));
  std::string said = c.headline + "\n";
  for (const std::string& remark : c.remarks) said += remark + "\n";
  return text + fmt::format("<system-out>{}</system-out>\n</testsuite>\n</testsuites>\n", for_xml(said));
}

}  // namespace p5::reports
