// The arms of a run: the backend alone, or for `ab` two sets of variables with workers of their own.
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

// Collective. For `ab`, ends the workers of the machine's own backend. Throws UsageError or EnvironmentError on all
// ranks if the options need launches or arms that the backend cannot provide.
Arms make_arms(ControlPlane& control, const Options& options, const Machine& machine);

// The reason that the ranks of a launch cannot be measured: they loaded different libraries, or use other GPUs than the
// job's; "" if there is none.
std::string launch_mismatch(const std::vector<Environment>& of_ranks, const Machine& machine);

// The arms as the report lists them before any launch; empty unless the command is `ab`.
std::vector<reports::ArmInfo> describe_arms(const Options& options);

}  // namespace p5
