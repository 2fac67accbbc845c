#include "tuner/lint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "bench/base/environment.hpp"
#include "bench/base/names.hpp"

namespace p5::tuner {

namespace {

using topo::About;
using topo::Finding;
using topo::Severity;

enum class When {
  set,      // to anything
  is,       // one of the values, compared without case
  is_not,   // none of them
  holds,    // one of the values is a part of it
  missing,  // it is a path, and nothing is there
};

// A name that ends in * stands for all that begin so.
struct Rule {
  std::string_view id, variable;
  When when = When::set;
  std::string_view values;     // separated by |
  std::string_view platforms;  // beginnings of instance types, separated by |; empty: all
  Severity severity = Severity::warning;
  std::string_view why, action;
};

constexpr std::string_view unset = "Unset it.";

// Sources: the user guides of NCCL and aws-ofi-nccl, their release notes, and scripts in circulation that still have
// these.
constexpr std::array lint_rules{
    Rule{"settings.proto_simple", "NCCL_PROTO", When::is, "simple", "", Severity::warning,
         "a work-around for aws-ofi-nccl up to 1.5; it costs small and middle sizes, where LL and LL128 are faster",
         unset},
    Rule{"settings.algo_ring", "NCCL_ALGO", When::is, "ring", "", Severity::warning,
         "it forbids Tree, NVLS and NVLSTree at all sizes", unset},
    Rule{"settings.nvls_off", "NCCL_NVLS_ENABLE", When::is, "0", "p5|p6", Severity::warning,
         "it takes about a quarter of the all-reduce bandwidth within a node",
         "Unset it, unless it works around a fabric manager that does not run; then mend that."},
    Rule{"settings.gdr_level", "NCCL_NET_GDR_LEVEL", When::is, "loc|0|2", "", Severity::warning,
         "NCCL finds the level by itself; this value keeps GPU memory away from the NICs or nearly so", unset},
    Rule{"settings.min_channels", "NCCL_MIN_NCHANNELS", When::is, "8", "p5|p6", Severity::info,
         "NCCL takes more by itself on this platform", unset},
    Rule{"settings.buffer_size", "NCCL_BUFFSIZE", When::is, "2097152", "", Severity::warning,
         "half of NCCL's default and a quarter of what aws-ofi-nccl sets", unset},
    Rule{"settings.chunk_size", "NCCL_P2P_NET_CHUNKSIZE", When::is_not, "524288", "p4|p5|p6", Severity::info,
         "aws-ofi-nccl sets 524288 by itself where nobody else does",
         "Unset it, unless it was measured for this application."},
    Rule{"settings.round_robin", "OFI_NCCL_ROUND_ROBIN_THRESHOLD", When::set, "", "", Severity::info,
         "aws-ofi-nccl no longer knows it", unset},
    Rule{"settings.flush_off", "OFI_NCCL_GDR_FLUSH_DISABLE", When::is, "1", "", Severity::error,
         "without the flush a GPU may read data that has not arrived", unset},
    Rule{"settings.checks_off", "OFI_NCCL_DISABLE_GDR_REQUIRED_CHECK", When::is, "1", "", Severity::error,
         "the check guards against wrong data", unset},
    Rule{"settings.checks_off", "OFI_NCCL_DISABLE_NATIVE_RDMA_CHECK", When::is, "1", "", Severity::error,
         "the check guards against wrong data", unset},
    Rule{"settings.device_rdma", "FI_EFA_USE_DEVICE_RDMA", When::is, "1", "", Severity::info,
         "libfabric since 1.18 and aws-ofi-nccl since 1.7 do not need it", unset},
    Rule{"settings.fork_safe", "RDMAV_FORK_SAFE", When::set, "", "", Severity::warning,
         "EFA has FI_EFA_FORK_SAFE, which aws-ofi-nccl sets by itself", unset},
    Rule{"settings.fork_safe", "RDMAV_HUGEPAGES_SAFE", When::set, "", "", Severity::warning,
         "EFA has FI_EFA_FORK_SAFE, which aws-ofi-nccl sets by itself", unset},
    Rule{"settings.efa_old", "FI_EFA_ENABLE_SHM_TRANSFER", When::is, "1", "", Severity::info, "it is the default",
         unset},
    Rule{"settings.efa_old", "FI_EFA_TX_MIN_CREDITS", When::set, "", "", Severity::info,
         "it was for protocols that aws-ofi-nccl no longer uses", unset},
    Rule{"settings.infiniband", "NCCL_IB_*", When::set, "", "p4|p5|p6", Severity::info,
         "there is no InfiniBand on this platform, EFA does not look at it", unset},
    Rule{"settings.ancient", "NCCL_TREE_THRESHOLD", When::set, "", "", Severity::info, "NCCL no longer knows it",
         unset},
    Rule{"settings.ancient", "NCCL_LL_THRESHOLD", When::set, "", "", Severity::info, "NCCL no longer knows it", unset},
    Rule{"settings.ancient", "NCCL_MIN_NRINGS", When::set, "", "", Severity::info,
         "an old name of NCCL_MIN_NCHANNELS, which is best unset too", unset},
    Rule{"settings.hidden_p2p", "NCCL_IGNORE_DISABLED_P2P", When::set, "", "", Severity::warning,
         "it hides that GPUs cannot reach each other directly", "Unset it and see what NCCL says."},
    Rule{"settings.transport_off", "NCCL_P2P_DISABLE", When::is, "1", "", Severity::error,
         "GPUs of a node no longer use NVLink; it is for finding faults only", unset},
    Rule{"settings.transport_off", "NCCL_SHM_DISABLE", When::is, "1", "", Severity::warning,
         "it is for finding faults only", unset},
    Rule{"settings.tuner_missing", "NCCL_TUNER_PLUGIN", When::missing, "", "", Severity::error,
         "that file is not there, so NCCL runs without any tuner, and without that of aws-ofi-nccl",
         "Unset it, or name the file that is there."},
    Rule{"settings.topology_of_another", "NCCL_TOPO_FILE", When::holds, "p4d|p4de", "p5|p6", Severity::error,
         "a topology of another instance type: NCCL plans for GPUs and NICs that are not there", unset},
};

bool fits(const Rule& rule, const std::string& value, const LintPlace& place) {
  const std::vector<std::string> values = split(rule.values, '|');
  const auto is = [&](const std::string& each) { return each == lower(value); };
  const auto holds = [&](const std::string& each) { return lower(value).find(each) != std::string::npos; };
  switch (rule.when) {
    case When::set:
      return true;
    case When::is:
      return std::ranges::any_of(values, is);
    case When::is_not:
      return std::ranges::none_of(values, is);
    case When::holds:
      return std::ranges::any_of(values, holds);
    case When::missing:
      // A bare name is searched for by the loader, which we do not imitate.
      return place.exists && value.find('/') != std::string::npos && !place.exists(value);
  }
  return false;
}

bool concerns(const Rule& rule, const std::string& variable, const std::string& platform) {
  const bool named = rule.variable.ends_with('*')
                         ? variable.starts_with(rule.variable.substr(0, rule.variable.size() - 1))
                         : variable == rule.variable;
  if (!named || rule.platforms.empty()) return named;
  return std::ranges::any_of(split(rule.platforms, '|'),
                             [&](const std::string& beginning) { return platform.starts_with(beginning); });
}

Finding finding(std::string_view id, Severity severity, const LintPlace& place, std::string evidence,
                std::string_view action, About about = About::settings) {
  Finding result;
  result.about = about;
  result.id = id;
  result.severity = severity;
  result.subject.host = place.host;
  result.evidence = std::move(evidence);
  result.action = action;
  return result;
}

}  // namespace

std::vector<Finding> lint(const Environment& environment, const LintPlace& place) {
  std::vector<Finding> findings;
  for (const auto& [variable, value] : environment)
    for (const Rule& rule : lint_rules)
      if (concerns(rule, variable, place.platform) && fits(rule, value, place))
        findings.push_back(finding(rule.id, rule.severity, place,
                                   fmt::format("{}={}: {}.", variable, recorded_value(variable, value), rule.why),
                                   rule.action));
  std::ranges::stable_sort(findings, {}, &Finding::severity);
  return findings;
}

std::vector<Finding> lint_injected(const Environment& before, const Environment& after, const LintPlace& place) {
  const auto proto = after.find("NCCL_PROTO");
  if (proto == after.end() || before.contains("NCCL_PROTO") || lower(proto->second) != "simple") return {};
  return {finding(
      "settings.proto_injected", Severity::error, place,
      "The network plugin set NCCL_PROTO=simple by itself: GPU memory does not reach the NICs directly, or 128-byte "
      "writes may arrive out of order.",
      "Find out why GPUDirect RDMA does not work on this host: driver, EFA installer, kernel module.",
      About::software)};
}

std::vector<Finding> lint_differences(const std::vector<RankEnvironment>& of_rank, bool rank0_counts) {
  std::vector<Finding> findings;
  std::set<std::string> told;
  for (std::size_t rank = 1; rank < of_rank.size(); ++rank) {
    const auto& [host, theirs] = of_rank[rank];
    const Environment& first = of_rank[0].variables;
    std::set<std::string> names;
    for (const Environment* each : {&first, &theirs})
      for (const auto& [name, value] : *each) names.insert(name);
    const auto value = [](const Environment& in, const std::string& name) {
      const auto at = in.find(name);
      return at == in.end() ? std::nullopt : std::optional(at->second);
    };
    const auto shown = [&](const Environment& in, const std::string& name) {
      const std::optional<std::string> text = value(in, name);
      return !text ? "not set" : is_secret(name) ? "a value of its own" : "'" + *text + "'";
    };
    std::vector<std::string> differing;
    for (const std::string& name : names)
      if (value(first, name) != value(theirs, name))
        differing.push_back(fmt::format("{} is {} there, {} at rank 0", name, shown(theirs, name), shown(first, name)));
    if (differing.empty() || !told.insert(host).second) continue;
    findings.push_back(
        finding("settings.differ", rank0_counts ? Severity::warning : Severity::error, {host, "", {}},
                fmt::format("rank {} on {} has another environment than rank 0: {}", rank, host, join(differing, "; ")),
                rank0_counts ? "Rank 0's was used on all ranks here; a job of your own will not do that. "
                               "Set the same on all nodes."
                             : "Set the same on all nodes: ranks that decide differently hang or slow "
                               "each other down."));
  }
  return findings;
}

std::vector<topo::FindingKind> lint_findings() {
  std::map<std::string, std::vector<std::string>> variables;
  for (const Rule& rule : lint_rules) {
    std::vector<std::string>& of_id = variables[std::string(rule.id)];
    if (std::ranges::find(of_id, rule.variable) == of_id.end()) of_id.emplace_back(rule.variable);
  }
  std::vector<topo::FindingKind> all;
  for (const auto& [id, names] : variables)
    all.push_back({id, About::settings, join(names) + ": a value that is stale or does harm"});
  all.push_back(
      {"settings.proto_injected", About::software, "NCCL_PROTO=simple that the network plugin set by itself"});
  all.push_back({"settings.differ", About::settings, "ranks whose environment differs from rank 0's"});
  return all;
}

}  // namespace p5::tuner
