// Reads one GPU through NVML into the values of topo/devices.hpp.
#pragma once

#include <functional>

#include "topo/devices.hpp"
#include "topo/nvml/library.hpp"

namespace p5::nvml {

// Hands over what is known so far after each group of calls, so that a call that blocks costs only what comes after it.
void describe(const Gpu& gpu, const std::function<void(const topo::Gpu&)>& publish);

topo::GpuState state_of(const Gpu& gpu);
topo::GpuMemoryErrors errors_of(const Gpu& gpu);

}  // namespace p5::nvml
