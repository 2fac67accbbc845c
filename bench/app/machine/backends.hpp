// How each backend of the table (bench/model/backends.hpp) is chosen and made.
#pragma once

#include <cstdint>

#include "bench/app/machine/machine.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"

namespace p5 {

bool simulates(const Options& options);

// The one that is asked for, or else the first one that this host alone has what it takes for.
const BackendInfo& likely_backend(const Options& options);

// On all ranks together: as likely_backend(), where all hosts have what it takes.
const BackendInfo& choose_backend(ControlPlane& control, const Options& options);

// That of machine.backend_name, with what it tells of the machine. Topology and platform are known.
void make_backend(ControlPlane& control, const Options& options, std::uint64_t seed, Machine& machine);

}  // namespace p5
