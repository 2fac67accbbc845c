// The arms of a run: its backend alone, or for `ab` two of them with other variables.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "reports/report.hpp"

namespace p5 {

struct Arms {
  std::vector<std::unique_ptr<Backend>> owned;
  std::vector<Arm> all;
};

// On all ranks together. For `ab` the machine's own backend has no workers afterwards. Throws UsageError or
// EnvironmentError on all ranks where the options ask for launches or arms that there cannot be here.
Arms make_arms(ControlPlane& control, const Options& options, const Machine& machine);

// Why the ranks of a launch cannot be measured: they loaded different libraries, or have other GPUs than the job's; ""
// when they can.
std::string objection_to(const std::vector<Environment>& of_ranks, const Machine& machine);

// For the report, before any launch: none unless there are several.
std::vector<reports::ArmInfo> describe_arms(const Options& options);

}  // namespace p5
