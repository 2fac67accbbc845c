// What endangers the figures, looked for before the first case and, where only the library under test can tell, once it
// has started.
#pragma once

#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/options.hpp"
#include "bench/model/world.hpp"
#include "topo/finding.hpp"

namespace p5 {

// On all ranks together; the findings are at the leader. Of the machine, of its settings, and of settings that differ
// between ranks.
std::vector<topo::Finding> look_before(World& world, const Options& options, const Machine& machine);

// Likewise, after the last case: what NCCL and its plugin said in any of the arms while they started, or failed to, and
// what they set.
std::vector<topo::Finding> look_at_library(World& world, const Machine& machine, const std::vector<Arm>& arms);

}  // namespace p5
