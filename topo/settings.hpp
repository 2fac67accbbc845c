// Settings that are stale or harmful on current software, as findings. The table in settings.json defines which
// settings, on which platforms and software, why and from which source.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/environment.hpp"
#include "topo/finding.hpp"
#include "topo/tables.hpp"

namespace p5::topo {

struct SettingRule {
  std::string id;
  std::vector<std::string> variables;  // a name that ends in * matches as a prefix
  // "set": to anything. "is": one of the values, compared without case; "is_not": none of them. "holds": one of the
  // values is a part of it; with a leading ^, which excludes what follows, none of them is; "lacks": the contrary.
  // "lists": a name in it, separated by commas, begins with one of the values; not if a leading ^ excludes it.
  // "missing": it is a path, and nothing is there.
  std::string when;
  std::vector<std::string> values;               // in lower case
  std::vector<std::string> platforms;            // beginnings of instance types; empty: all
  std::map<std::string, VersionRange> software;  // only where all of these are known and in range
  int least_machines = 1;
  Severity severity = Severity::warning;
  std::string why, action, source;
};
const std::vector<SettingRule>& setting_rules();

// True if a variable affects NCCL, its plugins or libfabric.
bool shapes_transport(std::string_view variable);

// Findings about variables that the operator set, as far as the topology records them.
std::vector<Finding> stale_settings(const Topology& topology);

// Findings about variables that NCCL or its plugins set by themselves: compares one host's environment before the first
// communicator with the one after.
std::vector<Finding> injected_settings(const Environment& before, const Environment& after, const std::string& host);

// Differences between the nodes' environments and rank 0's (of_rank[0]), for variables that shape what NCCL does: one
// finding for each host that differs, from the environment of its first rank that does.
struct RankEnvironment {
  std::string host;
  Environment variables;
};
std::vector<Finding> differing_settings(const std::vector<RankEnvironment>& of_rank, bool rank0_counts);

// Kinds of findings about settings, for `list findings`: each id once.
std::vector<FindingKind> setting_findings();

}  // namespace p5::topo
