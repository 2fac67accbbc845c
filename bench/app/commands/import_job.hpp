// p5bench import job FILE...: what a job communicates, from what its ranks recorded.
#pragma once

#include "bench/app/commands/commands.hpp"

namespace p5 {

ExitCode import_job(const Request& request);

}  // namespace p5
