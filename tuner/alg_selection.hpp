// A setting as NCCL 2.31.2 takes it for a single call. Standard library only, as table.hpp.
#pragma once

#include <string>

#include "tuner/table.hpp"

namespace p5::tuner {

// What algSelection of ncclCollConfig_t has to say so that the setting's algorithm and protocol are all that is left;
// "" where NCCL has no such kernel.
std::string alg_selection(const Setting& setting);

}  // namespace p5::tuner
