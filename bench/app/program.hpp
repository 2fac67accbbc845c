// p5bench as a whole: who am I among the ranks, what was asked for, and the table that says who does it.
#pragma once

#include <string>
#include <vector>

#include "bench/app/run/fault_hooks.hpp"

namespace p5 {

// Returns what the process ends with, where nothing ended it before. `intrusion`: for tests.
int run_program(const std::vector<std::string>& arguments, const FaultHooks& fault_hooks = {});

}  // namespace p5
