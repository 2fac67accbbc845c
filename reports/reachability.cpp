#include "reports/reachability.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "topo/nccl_log.hpp"

namespace p5::reports {

namespace {

using Kind = JoinFault::Kind;
using topo::Severity;

struct FindingRow {
  std::string_view id;
  topo::About about;
  std::string_view summary, action;
};
constexpr std::string_view measure_anyway = "; P5BENCH_REACH_LIMIT=off measures all the same";
constexpr FindingRow unreachable{
    "fabric.unreachable", topo::About::fabric, "a host that exchanges messages with none of several others",
    "check whether its interfaces are in the security group of the others, and whether that has a rule for all traffic "
    "from itself and one for all traffic to itself (EFA takes both); then at its subnet's network ACL; without a cause "
    "there replace the instance"};
constexpr FindingRow silent{
    "fabric.silent", topo::About::fabric, "no two hosts exchange messages over the network that data will take",
    "most likely the security group has no rule for all traffic from itself and one for all traffic to itself (EFA "
    "takes both); then look at the network ACL, the firewalls, and whether this is the network that data should take"};
constexpr FindingRow pair{"fabric.pair", topo::About::fabric,
                          "two hosts that exchange no messages with each other, or only the second time",
                          "check whether both are in one security group, which has a rule for all traffic from itself "
                          "and one for all traffic "
                          "to itself, and at the network ACLs of their subnets"};
constexpr FindingRow same_address{"fabric.address", topo::About::settings,
                                  "hosts with one address, which leads to none",
                                  "name the interface that leads to other hosts (NCCL_SOCKET_IFNAME)"};
constexpr FindingRow untried{"fabric.untried", topo::About::software, "hosts that could not try to reach others",
                             "see what fi_info has there; without it a network that is cut shows only when ranks join"};
constexpr FindingRow silent_nic{
    "fabric.nic", topo::About::fabric, "a NIC that exchanges messages with none of several others",
    "look at the security groups of its interface (each interface has its own) and at the driver's messages (dmesg); "
    "without a cause there replace the instance"};
constexpr FindingRow silent_nics{"fabric.nics", topo::About::fabric,
                                 "NICs of two or more hosts that exchange no messages with each other",
                                 "look at the security groups of their interfaces (each interface has its own) and at "
                                 "the driver's messages (dmesg)"};
constexpr std::array reach_rows{unreachable, silent, pair, silent_nic, silent_nics, same_address, untried};

class ReachabilityFindings {
 public:
  ReachabilityFindings(const Reachability& reached, const std::vector<ReachabilityHost>& hosts, Seconds limit)
      : reached_(reached), hosts_(hosts), limit_(limit) {}

  std::vector<topo::Finding> findings() const {
    std::vector<topo::Finding> findings;
    if (!reached_.not_tried.empty()) findings.push_back(about_untried());
    if (const auto same = hosts_alike()) {
      findings.push_back(about_same_address(*same));
      return findings;
    }
    const JoinFault culprit = locate_fault(static_cast<int>(hosts_.size()), reached_.trials);
    if (culprit.kind == Kind::between) findings.push_back(about_all(culprit));
    for (const int host : culprit.hosts) findings.push_back(about_host(host));
    for (const auto& [a, b] : culprit.pairs) findings.push_back(about_pair(a, b, true));
    for (const JoinAttempt& trial : reached_.trials)
      if (!trial.failure.empty() && succeeded_later(trial))
        findings.push_back(about_pair(trial.hosts.at(0), trial.hosts.at(1), false));
    for (std::size_t nic = 0; nic < reached_.trials_of_nics.size(); ++nic) add_about_nic(nic, findings);
    return findings;
  }

 private:
  const ReachabilityHost& at(int host) const { return hosts_.at(static_cast<std::size_t>(host)); }

  static std::string first_nic(const ReachabilityHost& host) {
    const auto first = std::ranges::find_if_not(host.nics, &std::string::empty);
    return first == host.nics.end() ? "" : *first;
  }

  // "h3 (net1, 10.0.0.3)"
  std::string name(int host) const {
    const ReachabilityHost& each = at(host);
    return each.address.empty() ? each.name : fmt::format("{} ({}, {})", each.name, first_nic(each), each.address);
  }
  // "rdmap79s0 of h3"
  std::string name_of_nic(std::size_t nic, int host) const {
    return fmt::format("{} of {}", nic < at(host).nics.size() ? at(host).nics[nic] : fmt::format("NIC {}", nic),
                       at(host).name);
  }
  // Names of the hosts, or of this NIC of each.
  std::string names(const std::vector<int>& hosts, std::optional<std::size_t> nic = {}) const {
    constexpr std::size_t most = 8;
    std::vector<std::string> named;
    for (const int host : hosts)
      if (named.size() < most) named.push_back(nic ? name_of_nic(*nic, host) : name(host));
    return join(named) + (hosts.size() > most ? fmt::format(" and {} more", hosts.size() - most) : "");
  }

  // An error about several hosts is about one of them, or what lies between: it has no host as its subject.
  topo::Finding about_hosts(const FindingRow& row, const std::vector<int>& hosts, std::string evidence) const {
    topo::Finding error = finding(row, Severity::error, {}, std::move(evidence));
    for (const int host : hosts) error.hosts.push_back(at(host).name);
    return error;
  }

  topo::Finding finding(const FindingRow& row, Severity severity, std::optional<int> host, std::string evidence) const {
    const bool condemns = severity == Severity::error;
    topo::Finding finding_of_row{.id = std::string(row.id),
                                 .severity = severity,
                                 .subject = {},
                                 .evidence = std::move(evidence),
                                 .action = std::string(row.action) + std::string(condemns ? measure_anyway : ""),
                                 .about = row.about};
    if (host) finding_of_row.subject = {.host = at(*host).name, .instance = at(*host).instance, .gpu = {}, .nic = {}};
    return finding_of_row;
  }

  void add_about_nic(std::size_t nic, std::vector<topo::Finding>& findings) const {
    const std::vector<JoinAttempt>& trials = reached_.trials_of_nics[nic];
    const JoinFault culprit = locate_fault(static_cast<int>(hosts_.size()), trials);
    for (const int host : culprit.hosts) {
      const auto [partners, because] = partners_of(host, trials);
      findings.push_back(finding(silent_nic, Severity::error, host,
                                 fmt::format("{} exchanged no message with {}, tried one after the other for {} each; "
                                             "other NICs of {} did{}",
                                             name_of_nic(nic, host), names(partners, nic), to_text(limit_),
                                             at(host).name, network_of({host}, because))));
      if (nic < at(host).nics.size()) findings.back().subject.nic = at(host).nics[nic];
    }
    for (const auto& [a, b] : culprit.pairs)
      findings.push_back(about_hosts(
          silent_nics, {a, b},
          fmt::format("{} and {} exchanged no message in {}; other NICs of both did; which of "
                      "the two it is cannot be told{}",
                      name_of_nic(nic, a), name_of_nic(nic, b), to_text(limit_), network_of({a, b}, culprit.because))));
    if (culprit.kind != Kind::between) return;
    const std::vector<int> hosts = hosts_tried(trials);
    findings.push_back(
        about_hosts(silent_nics, hosts,
                    fmt::format("{} exchanged no message with each other in {} each; other NICs of these "
                                "hosts did{}",
                                names(hosts, nic), to_text(limit_), network_of(hosts, culprit.because))));
  }

  static std::vector<int> hosts_tried(const std::vector<JoinAttempt>& trials) {
    std::set<int> hosts;
    for (const JoinAttempt& trial : trials) hosts.insert(trial.hosts.begin(), trial.hosts.end());
    return {hosts.begin(), hosts.end()};
  }

  // The hosts that were tried with this one, and the most informative failure.
  static std::pair<std::vector<int>, std::string> partners_of(int host, const std::vector<JoinAttempt>& trials) {
    std::vector<int> partners;
    std::string because;
    for (const JoinAttempt& trial : trials) {
      if (std::ranges::find(trial.hosts, host) == trial.hosts.end()) continue;
      partners.push_back(trial.hosts.at(0) == host ? trial.hosts.at(1) : trial.hosts.at(0));
      if (because.empty() || because == nothing_heard) because = trial.failure;
    }
    return {partners, because};
  }

  // The network in use, and the library's error unless it is a plain timeout.
  std::string network_of(const std::vector<int>& hosts, const std::string& because) const {
    std::string text;
    for (const int host : hosts)
      if (text.empty() && !at(host).library.empty()) text = "; over " + at(host).library;
    return text + (because == nothing_heard ? "" : fmt::format(" ({})", because));
  }

  topo::Finding about_host(int host) const {
    const auto [partners, because] = partners_of(host, reached_.trials);
    return finding(unreachable, Severity::error, host,
                   fmt::format("{} exchanged no message with {}, tried one after the other for {} each; other hosts "
                               "reach each other{}",
                               name(host), names(partners), to_text(limit_), network_of({host}, because)));
  }

  topo::Finding about_all(const JoinFault& culprit) const {
    const std::vector<int> hosts = hosts_tried(reached_.trials);
    return finding(
        silent, Severity::error, {},
        fmt::format("none of {} hosts exchanged a message with another, in {} pairs for {} each: {}{}", hosts.size(),
                    reached_.trials.size(), to_text(limit_), names(hosts), network_of(hosts, culprit.because)));
  }

  topo::Finding about_pair(int a, int b, bool is_final) const {
    std::string because;
    for (const JoinAttempt& trial : reached_.trials)
      if (trial.hosts == std::vector{a, b} && !trial.failure.empty()) because = trial.failure;
    const std::string how = !is_final ? " at first, and did the second time"
                            : was_received(a) && was_received(b)
                                ? ", though each reaches other hosts"
                                : "; without other hosts to try, it cannot be determined which of them is at fault";
    const std::string evidence = fmt::format("{} and {} exchanged no message in {}{}{}", name(a), name(b),
                                             to_text(limit_), how, network_of({a, b}, because));
    return is_final ? about_hosts(pair, {a, b}, evidence) : finding(pair, Severity::warning, a, evidence);
  }

  bool was_received(int host) const {
    return std::ranges::any_of(reached_.trials, [&](const JoinAttempt& each) {
      return each.failure.empty() && std::ranges::find(each.hosts, host) != each.hosts.end();
    });
  }

  bool succeeded_later(const JoinAttempt& silent_one) const {
    return std::ranges::any_of(reached_.trials, [&](const JoinAttempt& each) {
      return each.hosts == silent_one.hosts && each.failure.empty();
    });
  }

  // Two hosts with one address that exchanged no message.
  std::optional<std::pair<int, int>> hosts_alike() const {
    for (const JoinAttempt& trial : reached_.trials) {
      const int a = trial.hosts.at(0), b = trial.hosts.at(1);
      if (!trial.failure.empty() && !at(a).address.empty() && at(a).address == at(b).address) return std::pair(a, b);
    }
    return std::nullopt;
  }

  topo::Finding about_same_address(const std::pair<int, int>& alike) const {
    const auto& [a, b] = alike;
    return finding(same_address, Severity::warning, a,
                   fmt::format("{} and {} have the same address, so neither reaches the other", name(a), name(b)));
  }

  topo::Finding about_untried() const {
    std::vector<int> hosts;
    for (const auto& [host, why] : reached_.not_tried) hosts.push_back(host);
    return finding(untried, Severity::warning, hosts.front(),
                   fmt::format("{} could not try whether other hosts are reached: {}", names(hosts),
                               reached_.not_tried.begin()->second));
  }

  const Reachability& reached_;
  const std::vector<ReachabilityHost>& hosts_;
  Seconds limit_;
};

constexpr FindingRow gpu_that_fails{
    "join.gpu", topo::About::hardware, "a GPU whose rank does not join, not even by itself, while those of others do",
    "see nvidia-smi -q and dmesg about that GPU; reset it, and replace the instance if it comes back"};

// Rows follow enum JoinFault::Kind; the last rows are for a single GPU, and for joining at the second attempt.
constexpr std::array join_rows{
    FindingRow{"join.nowhere", topo::About::software, "the ranks of no host join, not even by themselves",
               "what all hosts have in common is to blame: versions, variables, how ranks are placed on GPUs"},
    FindingRow{"join.host", topo::About::host, "a host whose ranks do not join, by themselves or with any other host's",
               "look at that host's GPUs (nvidia-smi, dmesg), interfaces and firewall; run again without it"},
    FindingRow{"join.between", topo::About::settings, "no two hosts join, though the ranks of each do by themselves",
               "look at how hosts reach each other: interfaces (NCCL_SOCKET_IFNAME), firewall, fabric"},
    FindingRow{"join.pair", topo::About::host, "two hosts that do not join with each other, though each does by itself",
               "look at the way between the two: routes, firewall, switch ports"},
    FindingRow{
        "join.together", topo::About::host, "all ranks together do not join, though hosts do alone and in pairs",
        "run again with half of the hosts, then the other half; look at limits of open files and connections on rank "
        "0's host (ulimit -n, net.core.somaxconn)"},
    gpu_that_fails,
    FindingRow{"join.again", topo::About::host, "ranks that joined only the second time",
               "run again; if it recurs, look at that rank's host"}};

bool has_any_of(const std::string& text, std::span<const char* const> all) {
  return std::ranges::any_of(all, [&](const char* words) { return text.find(words) != std::string::npos; });
}

// Indices in JoinFault::hosts of one host's GPUs that fail by themselves where others do not, whose software and
// variables are the same, unless the failure is known not to be the GPU's.
std::vector<std::size_t> gpus_that_fail_alone(const JoinFailure& failure) {
  // A start takes long on a healthy GPU, too.
  constexpr std::array in_start{"to \"identify\"", "received no order"};
  if (failure.one_host.empty() || !failure.culprit || !failure.culprit->alone || failure.culprit->kind != Kind::hosts)
    return {};
  std::vector<std::size_t> faulty;
  for (std::size_t i = 0; i < failure.culprit->hosts.size(); ++i) {
    const std::string& said = failure.culprit->failures.at(i);
    if (!may_be_of_host(said) && (topo::remedy_for(said) || !has_any_of(said, in_start))) faulty.push_back(i);
  }
  return faulty;
}

const FindingRow& row_of(const JoinFailure& failure) {
  if (!failure.culprit) return join_rows.back();
  if (!gpus_that_fail_alone(failure).empty()) return gpu_that_fails;
  // Causes common to all hosts need several hosts to show.
  const bool one = failure.hosts.size() == 1 || !failure.one_host.empty();
  const Kind kind = one ? Kind::hosts : failure.culprit->kind;
  return join_rows.at(static_cast<std::size_t>(kind));
}

topo::Finding finding_about(const JoinFailure& failure, const std::string& host) {
  const FindingRow& row = row_of(failure);
  const std::optional<topo::Remedy> known = topo::remedy_for(failure.said);
  return {.id = std::string(row.id),
          .severity = failure.culprit ? Severity::error : Severity::warning,
          .subject = {.host = host, .instance = {}, .gpu = {}, .nic = {}},
          .evidence = failure.said,
          .action = known ? "see " + known->id : std::string(row.action),
          .about = row.about};
}

}  // namespace

std::vector<topo::Finding> reachability_findings(const Reachability& reached,
                                                 const std::vector<ReachabilityHost>& hosts, Seconds limit) {
  return ReachabilityFindings(reached, hosts, limit).findings();
}

std::vector<topo::Finding> join_findings(const JoinFailure& failure) {
  std::vector<topo::Finding> findings;
  const auto name = [&](int host) -> const std::string& { return failure.hosts.at(static_cast<std::size_t>(host)); };
  for (const std::size_t i : gpus_that_fail_alone(failure)) {
    constexpr std::string_view gpu = "GPU ";
    const std::string& its = name(failure.culprit->hosts[i]);
    JoinFailure own = failure;
    own.said = fmt::format("the ranks of {} do not join, not even by themselves, while other GPUs' do: {}", its,
                           failure.culprit->failures[i]);
    findings.push_back(finding_about(own, failure.one_host));
    if (its.starts_with(gpu)) findings.back().subject.gpu = std::atoi(&its[gpu.size()]);
  }
  if (!findings.empty()) return findings;
  if (!failure.one_host.empty()) return {finding_about(failure, failure.one_host)};
  if (failure.culprit && failure.culprit->kind == Kind::hosts)
    for (const int host : failure.culprit->hosts) findings.push_back(finding_about(failure, name(host)));
  if (failure.culprit && failure.culprit->kind == Kind::pairs)
    for (const auto& [a, b] : failure.culprit->pairs) findings.push_back(finding_about(failure, name(a)));
  if (findings.empty()) findings.push_back(finding_about(failure, failure.hosts.size() == 1 ? name(0) : ""));
  return findings;
}

bool may_be_of_host(const std::string& failure) {
  constexpr std::array words{"signal 9 ",
                             "signal 7 ",
                             "signal 15 ",
                             "is stopped by a signal",
                             "cannot be started",
                             "temporarily unavailable",
                             "ulimit",
                             "out of memory",
                             "Cannot allocate memory",
                             "Too many open files",
                             "No space left",
                             "OS call failed",
                             "unhandled system error"};
  if (const std::optional<topo::Remedy> known = topo::remedy_for(failure)) return known->about != topo::About::hardware;
  return has_any_of(failure, words) || is_of_versions(failure) || is_of_log(failure);
}

bool is_of_versions(const std::string& failure) {
  constexpr std::array words{"reply is not understood", "uses another protocol", "the worker knows no order"};
  return has_any_of(failure, words);
}

bool is_of_log(const std::string& failure) { return failure.find("faster than it could be read") != std::string::npos; }

std::string join_message(const JoinFailure& failure) {
  const std::optional<topo::Remedy> known = topo::remedy_for(failure.said);
  return fmt::format("{}{}; {}", failure.culprit ? "" : "the ranks joined only the second time: ", failure.said,
                     known ? std::string_view(known->action) : row_of(failure).action);
}

bool is_join_error(const topo::Finding& finding) {
  return finding.severity == Severity::error &&
         std::ranges::find(join_rows, finding.id, &FindingRow::id) != join_rows.end();
}

bool never_joined(const Report& report) {
  return std::ranges::any_of(report.findings, is_join_error) &&
         std::ranges::none_of(report.results, [&](const Result& result) {
           const Measurement& m = result.measurement;
           return m.outcome == Outcome::measured && m.measured_case.backend == report.run.backend;
         });
}

std::vector<topo::FindingKind> reachability_finding_kinds() {
  std::vector<topo::FindingKind> kinds;
  const auto add = [&](const auto& rows) {
    for (const FindingRow& row : rows) kinds.push_back({std::string(row.id), row.about, std::string(row.summary)});
  };
  add(join_rows);
  add(reach_rows);
  return kinds;
}

}  // namespace p5::reports
