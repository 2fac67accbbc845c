// The whole program: joins the job, reads the command line, runs the command.
#pragma once

#include <string>
#include <vector>

#include "bench/app/commands/commands.hpp"

namespace p5 {

// Returns the exit status of the process. `fault_hooks`: for tests.
int run_program(const std::vector<std::string>& arguments, const FaultHooks& fault_hooks = {});

}  // namespace p5
