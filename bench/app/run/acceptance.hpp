// The acceptance run in a given World. Tests run it with a backend wrapped in one that fails on purpose.
#pragma once

#include <functional>
#include <memory>

#include "bench/app/commands/commands.hpp"
#include "bench/app/machine/machine.hpp"

namespace p5 {

// Called with the backend that the options chose; what it returns is measured. Null: the backend itself.
using WrapBackend = std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>)>;

ExitCode run_acceptance(World& world, const Request& request, const WrapBackend& wrap);

}  // namespace p5
