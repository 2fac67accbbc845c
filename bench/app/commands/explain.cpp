// p5bench explain LOG...: the problems that NCCL and its network plugin report in a log or in a job's output, and their
// remedies. Measures nothing, writes no report, and exits with 0 whatever it finds.
#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/app/commands/commands.hpp"
#include "bench/base/console.hpp"
#include "bench/base/input.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "reports/markup.hpp"
#include "reports/writer.hpp"
#include "topo/nccl_log.hpp"

namespace p5 {

namespace {

using nlohmann::json;

constexpr std::string_view explanation_schema = "p5bench.explanation/1";

std::vector<std::string> texts_of(const std::vector<std::string>& files) {
  std::vector<std::string> texts;
  for (const std::string& file : files)
    texts.push_back(file == "-"
                        ? read_standard_input(largest_journal, "give the part of it that NCCL wrote")
                        : read_input(file, largest_journal, "name a log of NCCL, a job's output, or - for stdin"));
  return texts;
}

std::string name_of_input(const std::string& file) { return file == "-" ? "stdin" : file; }

std::string first_of(const std::vector<std::string>& hosts) {
  constexpr std::size_t most_named = 4;
  std::vector<std::string> named(hosts.begin(), hosts.begin() + std::ptrdiff_t(std::min(hosts.size(), most_named)));
  if (hosts.size() > most_named) named.push_back(fmt::format("and {} more hosts", hosts.size() - most_named));
  return join(named);
}

std::string finding_text(const topo::Explained& each) {
  std::string where = fmt::format("{}:{}", each.file, each.line);
  if (each.count > 1) where += fmt::format(" and {}", reports::counted(each.count - 1, "more line"));
  if (!each.hosts.empty()) where += ", of " + first_of(each.hosts);
  return format_printable("\n{} {}: {}\n    {}: \"{}\"\n    {}\n", topo::name_of(each.finding.severity),
                          each.finding.id, each.finding.evidence, where, each.said, each.finding.action);
}

std::string unknown_text(const std::vector<topo::UnknownWarning>& unknown) {
  constexpr std::size_t most_named = 8;
  std::string text;
  for (const topo::UnknownWarning& each : std::span(unknown).first(std::min(unknown.size(), most_named))) {
    std::string where = fmt::format("{}:{}", each.file, each.line);
    if (each.count > 1) where += fmt::format(" and {}", reports::counted(each.count - 1, "more line"));
    if (!each.host.empty()) where += ", of " + each.host;
    text += format_printable("    {}: \"{}\"\n", where, each.said);
  }
  if (unknown.size() > most_named)
    text += fmt::format("    and {}\n", reports::counted(unknown.size() - most_named, "more host"));
  return text.empty() ? ""
                      : "\nunknown: NCCL warns, and no rule knows the words; the first line of each host:\n" + text;
}

// "2 errors and 1 warning in 5312 lines, 4800 of NCCL; NCCL 2.27.7+cuda12.9, aws-ofi-nccl 1.17.2, p5.48xlarge"
std::string summary_of(const topo::Explanation& all) {
  std::vector<std::string> parts;
  for (const auto severity : {topo::Severity::error, topo::Severity::warning, topo::Severity::info}) {
    const auto here = [&](const topo::Explained& each) { return each.finding.severity == severity; };
    const auto count = static_cast<std::size_t>(std::ranges::count_if(all.findings, here));
    if (count > 0)
      parts.push_back(severity == topo::Severity::info ? reports::counted(count, "remark")
                                                       : reports::counted(count, topo::name_of(severity)));
  }
  std::size_t unknown = 0;
  for (const topo::UnknownWarning& each : all.unknown) unknown += each.count;
  if (unknown > 0) parts.push_back(reports::counted(unknown, "unknown WARN line"));
  std::vector<std::string> software;
  if (!all.nccl.empty()) software.push_back("NCCL " + join(all.nccl, " and "));
  if (!all.plugin.empty()) software.push_back("aws-ofi-nccl " + join(all.plugin, " and "));
  if (!all.platform.empty()) software.push_back(all.platform);
  return format_printable("{} in {}, {} of NCCL{}{}\n", parts.empty() ? std::string("Nothing found") : join(parts),
                          reports::counted(all.lines, "line"), all.nccl_lines, software.empty() ? "" : "; ",
                          join(software));
}

// Explains an empty result.
std::string remark_on(const topo::Explanation& all) {
  if (all.nccl_lines > 0 || !all.findings.empty()) return "";
  return "It holds no line of NCCL's log: run the job with NCCL_DEBUG=INFO "
         "NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,NET,ENV, and keep its stdout as well as its stderr\n";
}

json json_of(const topo::Explanation& all, const std::vector<std::string>& files) {
  json findings = json::array();
  const json told = to_json([&] {
    std::vector<topo::Finding> list;
    for (const topo::Explained& each : all.findings) list.push_back(each.finding);
    return list;
  }());
  for (std::size_t i = 0; i < all.findings.size(); ++i) {
    const topo::Explained& each = all.findings[i];
    json one = told[i];
    one.update(
        {{"said", each.said}, {"file", each.file}, {"line", each.line}, {"count", each.count}, {"hosts", each.hosts}});
    findings.push_back(std::move(one));
  }
  json unknown = json::array();
  for (const topo::UnknownWarning& each : all.unknown)
    unknown.push_back({{"host", each.host.empty() ? json() : json(each.host)},
                       {"said", each.said},
                       {"file", each.file},
                       {"line", each.line},
                       {"count", each.count}});
  json names = json::array();
  for (const std::string& file : files) names.push_back(name_of_input(file));
  return {{"schema", explanation_schema},
          {"files", std::move(names)},
          {"lines", all.lines},
          {"nccl_lines", all.nccl_lines},
          {"versions", {{"nccl", all.nccl}, {"aws-ofi-nccl", all.plugin}}},
          {"platform", all.platform.empty() ? json() : json(all.platform)},
          {"findings", std::move(findings)},
          {"unknown", std::move(unknown)}};
}

}  // namespace

ExitCode explain_command(const Request& request) {
  if (!request.control.is_leader()) return ExitCode::ok;
  const Options& options = request.options;
  const std::vector<std::string> texts = texts_of(options.explain_files);
  std::vector<topo::LogText> logs;
  for (std::size_t i = 0; i < texts.size(); ++i) logs.push_back({name_of_input(options.explain_files[i]), texts[i]});
  const topo::Explanation all =
      explain_logs(logs, options.platform.empty() ? nullptr : &topo::find_platform(options.platform));
  if (options.formats == std::vector<std::string>{"json"})
    return print_result_for(
        ExitCode::ok, json_of(all, options.explain_files).dump(2, ' ', true, json::error_handler_t::replace) + "\n");
  std::string text = summary_of(all) + remark_on(all);
  for (const topo::Explained& each : all.findings) text += finding_text(each);
  text += unknown_text(all.unknown);
  return print_result_for(ExitCode::ok, reports::coloured_for_terminal(text));
}

}  // namespace p5
