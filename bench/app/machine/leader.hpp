// What the leader alone can do or decide, with an outcome that all participants share.
#pragma once

#include <functional>
#include <string>

#include "bench/model/control_plane.hpp"

namespace p5 {

// Runs `action` at the leader; its text goes to all. When it throws UsageError or EnvironmentError, all throw the same.
std::string from_leader(ControlPlane& control, const std::function<std::string()>& action);

}  // namespace p5
