// A run as JUnit XML, for CI servers: a test case for the decision, and one for each measurement, suspected part and
// finding about hardware or fabric. Slow is a failure, wrong data and failed measurements are errors; what was not
// judged or not measured is skipped, since it passed no test.
#include <algorithm>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "reports/decision.hpp"
#include "reports/markup.hpp"
#include "reports/suspects.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

namespace {

struct TestCase {
  std::string group, name, kind, message;  // kind: "", failure, error, skipped
  double seconds = 0;
};

TestCase test_case_of(const Result& result) {
  const Measurement& m = result.measurement;
  TestCase test{.group = std::string(m.measured_case.collective->name),
                .name = describe(m.measured_case),
                .kind = {},
                .message = m.because.empty() ? result.verdict.because : m.because,
                .seconds = m.wall_s};
  if (m.measured_case.arm != "default") test.name += ", arm " + m.measured_case.arm;
  switch (result.verdict.grade) {
    case Grade::ok:
      break;
    case Grade::slow:
    case Grade::faulty:
      test.kind = "failure";
      break;
    case Grade::wrong:
    case Grade::failed:
      test.kind = "error";
      break;
    case Grade::unknown:
      test.kind = "skipped";
      break;
  }
  return test;
}

// What cannot be told passed no test; a run that did not end is an error.
TestCase decision_of(const Report& report) {
  const std::string& word = report.decision.word;
  const bool ended = report.exit_code == ExitCode::ok || report.exit_code == ExitCode::inconclusive;
  return {.group = "decision",
          .name = "decision",
          .kind = word == accept   ? ""
                  : word == reject ? "failure"
                  : ended          ? "skipped"
                                   : "error",
          .message = report.decision.sentence};
}

std::vector<TestCase> test_cases_of(const Report& report) {
  std::vector<TestCase> all{decision_of(report)};
  for (const Suspect& suspect : report.suspects)
    all.push_back({"suspect", suspect.kind + " " + suspect.name, "failure", sentence_about(suspect)});
  for (const topo::Finding& each : report.findings)
    if (topo::condemns(each))
      all.push_back({"finding", fmt::format("{} {}", each.id, each.subject.host), "failure",
                     fmt::format("{}. {}", each.evidence, each.action)});
  for (const Result* result : in_reading_order(report)) all.push_back(test_case_of(*result));
  return all;
}

}  // namespace

std::string render_junit(const Report& report) {
  const std::vector<TestCase> tests = test_cases_of(report);
  const auto count = [&](std::string_view kind) { return std::ranges::count(tests, kind, &TestCase::kind); };
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites>\n<testsuite name=\"p5bench {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" "
      "time=\"{:.3f}\" timestamp=\"{}\">\n"
      "<properties><property name=\"version\" value=\"{}\"/><property name=\"provenance\" value=\"{}\"/>"
      "<property name=\"exit code\" value=\"{}\"/></properties>\n",
      for_xml(report.run.cluster), tests.size(), count("failure"), count("error"), count("skipped"), report.run.wall_s,
      for_xml(report.run.started.substr(0, report.run.started.find('Z'))), for_xml(report.run.version),
      for_xml(report.provenance), static_cast<int>(report.exit_code));
  for (const TestCase& test : tests)
    text += fmt::format("<testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">{}</testcase>\n", for_xml(test.group),
                        for_xml(test.name), test.seconds,
                        test.kind.empty() ? fmt::format("<system-out>{}</system-out>", for_xml(test.message))
                                          : fmt::format("<{} message=\"{}\"/>", test.kind, for_xml(test.message)));
  return text +
         fmt::format("<system-out>{}</system-out>\n</testsuite>\n</testsuites>\n", for_xml(report.decision.sentence));
}

}  // namespace p5::reports
