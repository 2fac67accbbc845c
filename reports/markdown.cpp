// A run in Markdown, as short as a comment on an issue should be: the decision, what to do, each operation's largest
// and smallest message, and what was found.
#include <fmt/format.h>

#include "bench/base/text.hpp"
#include "reports/markup.hpp"
#include "reports/summary.hpp"
#include "reports/suspects.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

namespace {

std::string table_of_operations(const Report& report) {
  const std::vector<SummaryRow> rows = summary_of(report);
  if (rows.empty()) return "";
  std::string text =
      "| operation | ranks | latency | largest message | bus bandwidth | of the limit | grade |\n"
      "|---|--:|--:|--:|--:|--:|---|\n";
  for (const SummaryRow& row : rows)
    text += fmt::format("| {} | {} | {} | {} | {:.4g} GB/s | {} | {} |\n", for_markdown(row.operation), row.ranks,
                        row.latency, row.size, row.busbw, row.of_limit, shown(row.grade));
  return text + "\n";
}

std::string what_to_do(const Decision& decision) {
  std::string text;
  for (const std::string& step : decision.next) text += fmt::format("1. {}\n", for_markdown(step));
  if (!text.empty()) text = "To do:\n\n" + text + "\n";
  // In a block of code nothing but its end has a meaning.
  if (!decision.command.empty() && decision.command.find("```") == std::string::npos)
    text += fmt::format("```\n{}\n```\n\n", printable(decision.command));
  return text;
}

std::string list_of_findings(const Report& report) {
  std::string text;
  for (const topo::Finding& each : report.findings)
    text += fmt::format("- {} {}{}: {}. {}\n", topo::name_of(each.severity), code_for_markdown(each.id),
                        each.subject.host.empty() ? "" : " on " + for_markdown(each.subject.host),
                        for_markdown(each.evidence), for_markdown(each.action));
  return text.empty() ? "" : text + "\n";
}

}  // namespace

std::string render_markdown(const Report& report) {
  const RunInfo& run = report.run;
  std::string text = fmt::format("## {}\n\n", for_markdown(report.decision.sentence));
  for (const Suspect& suspect : report.suspects) text += fmt::format("- {}\n", for_markdown(sentence_about(suspect)));
  if (!report.suspects.empty()) text += "\n";
  text += what_to_do(report.decision);
  text += table_of_operations(report) + list_of_findings(report);
  for (const std::string& remark : run.remarks) text += for_markdown(remark) + "\n\n";
  return text + fmt::format("{}: {} ranks on {} {}, backend {}, {}. p5bench {}.\n", for_markdown(run.cluster),
                            run.ranks, run.nodes, run.nodes == 1 ? "node" : "nodes", for_markdown(run.backend),
                            for_markdown(run.started), for_markdown(run.version));
}

}  // namespace p5::reports
