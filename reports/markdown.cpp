// A run in Markdown, as short as a comment on an issue should be: the verdict, what to do, each operation's largest and
// smallest message, and what was found.
#include <map>

#include <fmt/format.h>

#include "bench/base/text.hpp"
#include "reports/headline.hpp"
#include "reports/markup.hpp"
#include "reports/suspects.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

namespace {

std::string title_of(const Case& c) {
  std::string title = operation_of(c);
  if (c.group != "world") title += ", group " + c.group;
  if (c.arm != "default") title += ", arm " + c.arm;
  return title;
}

// Of each operation the most and the fewest bytes that were measured.
std::string table_of_operations(const Report& report) {
  struct Ends {
    const Result *small = nullptr, *large = nullptr;
  };
  std::vector<std::string> order;
  std::map<std::string, Ends> ends;
  for (const Result* result : in_reading_order(report)) {
    const Measurement& m = result->measurement;
    if (m.outcome != Outcome::measured || !m.throughput) continue;
    const std::string title = title_of(m.measured_case);
    Ends& its = ends[title];
    if (!its.large) order.push_back(title);
    const auto bytes = [](const Result* each) { return each->measurement.measured_case.bytes.count; };
    if (!its.large || bytes(result) > bytes(its.large)) its.large = result;
    if (m.latency && (!its.small || bytes(result) < bytes(its.small))) its.small = result;
  }
  if (order.empty()) return "";
  std::string text =
      "| operation | ranks | latency | largest message | bus bandwidth | of the limit | grade |\n"
      "|---|--:|--:|--:|--:|--:|---|\n";
  for (const std::string& title : order) {
    const auto [small, large] = ends.at(title);
    const Measurement& m = large->measurement;
    text += fmt::format("| {} | {} | {} | {} | {:.4g} GB/s | {} | {} |\n", for_markdown(title), m.measured_case.ranks,
                        small ? fmt::format("{:.2f} us ({})", small->measurement.latency->summary.median * 1e6,
                                            to_text(small->measurement.measured_case.bytes))
                              : "",
                        to_text(m.measured_case.bytes),
                        bus_bandwidth(m.measured_case, {m.throughput->summary.median}).count,
                        large->verdict.fraction ? fmt::format("{:.0f} %", 100 * *large->verdict.fraction) : "",
                        name_of(large->verdict.grade));
  }
  return text + "\n";
}

std::string list_of_findings(const Report& report) {
  std::string text;
  for (const topo::Finding& each : report.findings)
    text += fmt::format("- {} `{}`{}: {}. {}\n", topo::name_of(each.severity), each.id,
                        each.subject.host.empty() ? "" : " on " + for_markdown(each.subject.host),
                        for_markdown(each.evidence), for_markdown(each.action));
  return text.empty() ? "" : text + "\n";
}

}  // namespace

std::string render_markdown(const Report& report) {
  const RunInfo& run = report.run;
  std::string text = fmt::format("## {}\n\n", for_markdown(headline(report)));
  for (const Suspect& suspect : report.suspects) text += fmt::format("- {}\n", for_markdown(sentence_about(suspect)));
  if (!report.suspects.empty()) text += "\n";
  text += table_of_operations(report) + list_of_findings(report);
  for (const std::string& remark : run.remarks) text += for_markdown(remark) + "\n\n";
  return text + fmt::format("{}: {} ranks on {} {}, backend {}, {}. p5bench {}.\n", for_markdown(run.cluster),
                            run.ranks, run.nodes, run.nodes == 1 ? "node" : "nodes", for_markdown(run.backend),
                            for_markdown(run.started), for_markdown(run.version));
}

}  // namespace p5::reports
