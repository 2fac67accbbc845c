#include "reports/rendezvous.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "topo/nccl_log.hpp"

namespace p5::reports {

namespace {

using Kind = JoinFault::Kind;
using topo::Severity;

struct JoinRow {
  std::string_view id, summary;
  topo::About about;        // never the hardware or the fabric: what does not join may be anything
  std::string_view action;  // where NCCL's words tell no better one
};
// In the order of JoinFault::Kind, then: joined the second time.
constexpr std::array join_rows{
    JoinRow{"join.nowhere", "the ranks of no host join, not even by themselves", topo::About::software,
            "what all hosts have in common is to blame: versions, variables, how ranks are placed on GPUs"},
    JoinRow{"join.host", "a host whose ranks do not join, by themselves or with any other host's", topo::About::host,
            "look at that host's GPUs (nvidia-smi, dmesg), interfaces and firewall; run again without it"},
    JoinRow{"join.between", "no two hosts join, though the ranks of each do by themselves", topo::About::settings,
            "look at how hosts reach each other: interfaces (NCCL_SOCKET_IFNAME), firewall, fabric"},
    JoinRow{"join.pair", "two hosts that do not join with each other, though each does by itself", topo::About::host,
            "look at the way between the two: routes, firewall, switch ports"},
    JoinRow{
        "join.together", "all ranks together do not join, though hosts do alone and in pairs", topo::About::host,
        "run again with half of the hosts, then the other half; look at limits of open files and connections on rank "
        "0's host (ulimit -n, net.core.somaxconn)"},
    JoinRow{"join.again", "ranks that joined only the second time", topo::About::host,
            "run again; if it comes again, look at that rank's host"}};

const JoinRow& row_of(const JoinFailure& failure) {
  if (!failure.culprit) return join_rows.back();
  // What hosts have in common can be told from what one has only where there are several.
  const bool one = failure.hosts.size() == 1 || !failure.one_host.empty();
  const Kind kind = one ? Kind::hosts : failure.culprit->kind;
  return join_rows.at(static_cast<std::size_t>(kind));
}

topo::Finding finding_about(const JoinFailure& failure, const std::string& host) {
  const JoinRow& row = row_of(failure);
  const std::optional<topo::Remedy> known = topo::remedy_for(failure.said);
  return {.id = std::string(row.id),
          .severity = failure.culprit ? Severity::error : Severity::warning,
          .subject = {.host = host, .instance = {}, .gpu = {}, .nic = {}},
          .evidence = failure.said,
          .action = known ? "see " + known->id : std::string(row.action),
          .about = row.about};
}

}  // namespace

std::vector<topo::Finding> join_findings(const JoinFailure& failure) {
  std::vector<topo::Finding> findings;
  const auto name = [&](int host) { return failure.hosts.at(static_cast<std::size_t>(host)); };
  if (!failure.one_host.empty()) return {finding_about(failure, failure.one_host)};
  if (failure.culprit && failure.culprit->kind == Kind::hosts)
    for (const int host : failure.culprit->hosts) findings.push_back(finding_about(failure, name(host)));
  if (failure.culprit && failure.culprit->kind == Kind::pairs)
    for (const auto& [a, b] : failure.culprit->pairs) findings.push_back(finding_about(failure, name(a)));
  if (findings.empty()) findings.push_back(finding_about(failure, failure.hosts.size() == 1 ? name(0) : ""));
  return findings;
}

std::string join_message(const JoinFailure& failure) {
  const std::optional<topo::Remedy> known = topo::remedy_for(failure.said);
  return fmt::format("{}{}; {}", failure.culprit ? "" : "the ranks joined only the second time: ", failure.said,
                     known ? std::string_view(known->action) : row_of(failure).action);
}

bool never_joined(const Report& report) {
  const bool failed = std::ranges::any_of(report.findings, [](const topo::Finding& each) {
    return each.severity == Severity::error && std::ranges::find(join_rows, each.id, &JoinRow::id) != join_rows.end();
  });
  return failed && std::ranges::none_of(report.results, [](const Result& result) {
           return result.measurement.outcome == Outcome::measured;
         });
}

std::vector<topo::FindingKind> join_finding_kinds() {
  std::vector<topo::FindingKind> kinds;
  for (const JoinRow& row : join_rows) kinds.push_back({std::string(row.id), row.about, std::string(row.summary)});
  return kinds;
}

}  // namespace p5::reports
