// One step of a case that all participants take together: each does its part, the leader sees all parts and decides,
// all get the decision. When a part fails, all learn which rank failed and why, and none goes on alone.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/model/measurement.hpp"
#include "bench/model/world.hpp"

namespace p5 {

// A rank failed in a phase; thrown on all participants alike.
struct PhaseFailed {
  Phase phase = Phase::open;
  std::optional<int> rank;  // nullopt: all stopped at the same point
  std::string what;
};

using LocalPart = std::function<std::string()>;
using Decide = std::function<std::string(const std::vector<std::string>& parts)>;

// recovers: Backend::recovers(). Throws PhaseFailed, or JobLost when this part failed where others may wait for it.
std::string agree(World& world, Phase phase, bool recovers, const LocalPart& local, const Decide& decide);

// A step that groups of ranks take side by side: what fails in one is no failure of the others. One rank a participant.
struct GroupParts {
  std::vector<std::optional<PhaseFailed>> failures;  // of each group, known to all
  std::vector<std::string> parts;                    // of all participants, at the leader; "" of one that failed
};
GroupParts gather_by_group(World& world, Phase phase, const Round& groups, const LocalPart& local);

}  // namespace p5
