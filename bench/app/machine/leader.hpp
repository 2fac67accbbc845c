// Actions of the leader alone, with an outcome on all ranks.
#pragma once

#include <functional>
#include <string>

#include "bench/model/control_plane.hpp"

namespace p5 {

// Runs `action` at the leader and returns its text on all ranks. A UsageError or EnvironmentError is thrown on all
// ranks.
std::string from_leader(ControlPlane& control, const std::function<std::string()>& action);

}  // namespace p5
