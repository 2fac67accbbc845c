// Settings that are stale or harmful on today's software, as findings. The table in lint.cpp says which and why.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "topo/finding.hpp"
#include "tuner/constraints.hpp"

namespace p5::tuner {

struct LintPlace {
  std::string host;      // whose environment it is, "" for the job's
  std::string platform;  // "" where not known: what concerns certain platforms only is not said
  std::function<bool(const std::string& path)> exists;  // null: files are not looked for
};

// What the operator set.
std::vector<topo::Finding> lint(const Environment& environment, const LintPlace& place);

// What NCCL or its plugins added by themselves and what that tells: the environment before the first communicator and
// after.
std::vector<topo::Finding> lint_injected(const Environment& before, const Environment& after, const LintPlace& place);

// What the nodes' environments have that rank 0's has not, or otherwise: one finding for each host that differs, by the
// environment of its first rank that does. Of those variables that shape what NCCL does; of_rank[0] is rank 0's.
struct RankEnvironment {
  std::string host;
  Environment variables;
};
std::vector<topo::Finding> lint_differences(const std::vector<RankEnvironment>& of_rank, bool rank0_counts);

// For `list findings`: each id once.
std::vector<topo::FindingKind> lint_findings();

}  // namespace p5::tuner
