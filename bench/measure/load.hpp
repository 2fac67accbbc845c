// Each GPU under the load of a job: matrix products alone, messages alone, and both at once.
#pragma once

#include <vector>

#include "bench/model/backend.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/load_cases.hpp"

namespace p5 {

// Wall time of the samples of one case, without opening it, in the short form.
inline constexpr Seconds short_load{0.35};

// Runs the cases on all participants, with joined ranks, each for short_load, or for its part of `burn` where that is
// more. Returns for each rank, at the leader and empty elsewhere, or where the backend cannot run them:
//   load_PART_alone_UNIT   the rate of a part while the rank does nothing else
//   load_PART_UNIT         while all parts of the case run
//   load_PART_share        the second over the first, taken in turns: 1 where the others cost nothing
// for each of load_parts that the rank has, and the first wrong result. A share that is below those of other GPUs
// points to the device: to its clocks where the products slow, to its links or NICs where the messages do. Throws
// PhaseFailed; the backend has then been abandoned.
std::vector<LocalChecks> check_under_load(ControlPlane& control, Backend& backend, const std::vector<LoadCase>& cases,
                                          Seconds burn);

}  // namespace p5
