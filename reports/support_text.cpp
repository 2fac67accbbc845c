// The text for a support case.
#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <set>
#include <string>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "reports/decision.hpp"
#include "reports/judge.hpp"
#include "reports/part_names.hpp"
#include "reports/suspect_text.hpp"
#include "reports/suspects.hpp"

namespace p5::reports {

std::string support_text(const Report& report) {
  if (!is_at_fault(report)) return "";
  std::string text = printable(report.decision.sentence) + "\n\n";
  text += fmt::format("p5bench {}: {} on {}, {} ranks on {} nodes, {}, {}\n", report.run.version, report.provenance,
                      report.run.cluster, report.run.ranks, report.run.nodes,
                      report.topology.platform.empty() ? "platform not known" : report.topology.platform,
                      report.run.started);
  text += "\nWhat is wrong\n";
  for (const Suspect& suspect : report.suspects)
    text += fmt::format("- {} (confidence {:.4f})\n", printable(sentence_about(suspect)), suspect.confidence);
  for (const OpenQuestion& question : report.open_questions)
    text += fmt::format("- one of {}: {}. To do: {}\n", printable(join(question.candidates)),
                        printable(question.evidence), printable(question.next));
  std::set<std::string> hosts = rejected_hosts(report);
  const auto add_hosts_of = [&](const std::optional<Part>& part) {
    if (!part || part->kind == Part::Kind::rail) return;  // a rail joins all hosts
    for (const std::size_t host : hosts_of(*part, report.topology)) hosts.insert(report.topology.hosts[host].name);
  };
  for (const Suspect& suspect : report.suspects) hosts.insert(suspect.host), add_hosts_of(part_of(suspect));
  for (const OpenQuestion& question : report.open_questions)
    for (const std::string& candidate : question.candidates) add_hosts_of(part_named(candidate));
  for (const topo::Finding& finding : report.findings) {
    if (!topo::condemns(finding)) continue;
    text += fmt::format("- {}{}: {}. To do: {}\n", finding.id,
                        finding.subject.host.empty() ? "" : " on " + printable(finding.subject.host),
                        printable(finding.evidence), printable(finding.action));
    hosts.insert(finding.subject.host);
    hosts.insert(finding.hosts.begin(), finding.hosts.end());
  }
  text += "\nHosts\n";
  for (const topo::Host& host : report.topology.hosts) {
    if (!hosts.contains(host.name)) continue;
    text += fmt::format("- {}: instance {}, {}, kernel {}\n", printable(host.name),
                        host.instance.empty() ? "not known" : printable(host.instance),
                        host.instance_type.empty() ? "type not known" : printable(host.instance_type),
                        host.kernel.empty() ? "not known" : printable(host.kernel));
    for (std::size_t i = 0; i < host.gpu_devices.size(); ++i)
      text += fmt::format("    GPU {}: {} {} {}\n", i, printable(host.gpu_devices[i].name),
                          printable(host.gpu_devices[i].uuid), printable(host.gpu_devices[i].pci.address));
    for (const topo::Nic& nic : host.nics)
      if (nic.kind == "efa" || nic.kind == "infiniband" || !nic.verbs.empty())
        text += fmt::format("    NIC {}: {} {}\n", printable(nic.name), nic.kind, printable(nic.pci.address));
  }
  text += "\nSoftware\n";
  for (const auto& [key, value] : report.context)
    if (!key.starts_with("env.")) text += fmt::format("- {}: {}\n", printable(key), printable(value));
  return text;
}

}  // namespace p5::reports
