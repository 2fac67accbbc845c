// The acceptance run in a given ControlPlane.
#pragma once

#include <string>
#include <vector>

#include "bench/app/commands/commands.hpp"

namespace p5 {

ExitCode run_acceptance(ControlPlane& control, const Request& request);

// The names of a run's phases, in their order.
std::vector<std::string> phases_of_run();

}  // namespace p5
