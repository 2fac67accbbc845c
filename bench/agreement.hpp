// One step of a case that all participants take together: each does its part, the leader sees all parts and decides,
// all get the decision. When a part fails, all learn which rank failed and why, and none goes on alone.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/measurement.hpp"
#include "bench/world.hpp"

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

}  // namespace p5
