// Findings that endanger the figures: before the first case, and from the log of the library under test.
#pragma once

#include <string_view>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "topo/finding.hpp"

namespace p5 {

// Collective; findings of the machine, its settings and settings that differ between ranks, at the leader.
std::vector<topo::Finding> preflight_findings(ControlPlane& control, const Options& options, const Machine& machine);

// A single rank started without a launcher on a host with several visible GPUs.
inline constexpr std::string_view without_launcher = "job.without_mpirun";
std::vector<topo::FindingKind> start_finding_kinds();

// Collective, after the last case; findings in what NCCL and its plugins logged or set at the start, in any arm.
std::vector<topo::Finding> library_log_findings(ControlPlane& control, const Machine& machine,
                                                const std::vector<Arm>& arms);

}  // namespace p5
