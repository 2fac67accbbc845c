// The settings of nccl-tuner.csv for programs that call NCCL themselves, from 2.31.2 on: ncclAllReduceConfig() and its
// like take for each call what no plugin has to be loaded for. One value in, a C header out.
#pragma once

#include <string>
#include <variant>

#include "tuner/files.hpp"

namespace p5::tuner {

// nccl-tuned-calls.h, or a sentence where NCCL is too old for it or there is nothing to set.
std::variant<NamedFile, std::string> calls_header(const TuningResult& result);

}  // namespace p5::tuner
