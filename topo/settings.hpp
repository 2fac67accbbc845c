// Settings that are stale or harmful on today's software, as findings. The table in settings.json says which, where,
// why and from which source.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/environment.hpp"
#include "topo/finding.hpp"
#include "topo/version_range.hpp"

namespace p5::topo {

struct SettingRule {
  enum class When {
    set,      // to anything
    is,       // one of the values, compared without case
    is_not,   // none of them
    holds,    // one of the values is a part of it
    lacks,    // none of them is
    lists,    // a name in it, separated by commas, begins with one of the values; not where ^ shuts them out
    missing,  // it is a path, and nothing is there
  };
  std::string id;
  std::vector<std::string> variables;  // a name that ends in * stands for all that begin so
  When when = When::set;
  std::vector<std::string> values;               // in small letters
  std::vector<std::string> platforms;            // beginnings of instance types; empty: all
  std::map<std::string, VersionRange> software;  // only where all of these are known and in range
  int least_machines = 1;
  Severity severity = Severity::warning;
  std::string why, action, source;
};
const std::vector<SettingRule>& setting_rules();
std::string_view name_of(SettingRule::When when);  // as the table writes it

// Whether a variable bears on what NCCL, its plugins or libfabric do.
bool shapes_transport(std::string_view variable);

// Of what the operator set, as far as the topology knows it.
std::vector<Finding> stale_settings(const Topology& topology);

// What NCCL or its plugins added by themselves and what that tells: the environment before the first communicator and
// after, on one host.
std::vector<Finding> injected_settings(const Environment& before, const Environment& after, const std::string& host);

// What the nodes' environments have that rank 0's has not, or otherwise: one finding for each host that differs, by the
// environment of its first rank that does. Of those variables that shape what NCCL does; of_rank[0] is rank 0's.
struct RankEnvironment {
  std::string host;
  Environment variables;
};
std::vector<Finding> differing_settings(const std::vector<RankEnvironment>& of_rank, bool rank0_counts);

// For `list findings`: each id once.
std::vector<FindingKind> setting_findings();

}  // namespace p5::topo
