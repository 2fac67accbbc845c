// What endangers the figures, looked for before the first case and, where only the library under test can tell, once it
// has started.
#pragma once

#include <string_view>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "topo/finding.hpp"

namespace p5 {

// On all ranks together; the findings are at the leader. Of the machine, of its settings, and of settings that differ
// between ranks.
std::vector<topo::Finding> preflight_findings(ControlPlane& control, const Options& options, const Machine& machine);

// One rank, started without a launcher on a host of which the process may see several GPUs.
inline constexpr std::string_view without_launcher = "job.without_mpirun";
std::vector<topo::FindingKind> start_finding_kinds();

// Likewise, after the last case: what NCCL and its plugin said in any of the arms while they started, or failed to, and
// what they set.
std::vector<topo::Finding> library_log_findings(ControlPlane& control, const Machine& machine,
                                                const std::vector<Arm>& arms);

}  // namespace p5
