// Actions of the leader alone, with an outcome on all ranks.
#pragma once

#include <functional>
#include <string>

#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"

namespace p5 {

// Runs `action` at the leader and returns its text on all ranks. A UsageError or EnvironmentError is thrown on all
// ranks.
std::string from_leader(ControlPlane& control, const std::function<std::string()>& action);

// Content of the file that --traffic names; "" without one. Throws UsageError.
std::string read_traffic_file(const Options& options);

}  // namespace p5
