// What each rank's device does by itself, without partners: copies and launches. Where one differs from all others,
// the part at fault is that device, its link to the host or the host, whatever the fabric does.
#pragma once

#include <vector>

#include "bench/model/backend.hpp"
#include "bench/model/control_plane.hpp"

namespace p5 {

// Backend::check_locally() on all participants at the same time, whose ranks have joined. The checks of each rank at the
// leader, empty elsewhere. Throws PhaseFailed.
std::vector<LocalChecks> check_locally(ControlPlane& control, Backend& backend, Seconds burn);

}  // namespace p5
