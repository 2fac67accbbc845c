// The GPUs of this host that a job without a launcher may use: all that this process may see and nobody else computes
// on. Asked before there is a job.
#pragma once

#include <string>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/model/options.hpp"
#include "topo/topology.hpp"

namespace p5 {

struct OwnGpus {
  std::vector<std::string> usable;   // UUIDs, in NVML's order
  std::vector<std::string> skipped;  // "GPU 3 (in use by pid 123, python)"
  // Where none is usable: why, and what that comes to: ok where all are in use, unfinished where the driver does not
  // answer, environment where there are none.
  std::string why_none;
  ExitCode code_of_none = ExitCode::ok;
};

// Whether a command finds its GPUs by itself: `check` on GPUs, alone.
bool finds_own_gpus(const Options& options);

// `visible`: CUDA_VISIBLE_DEVICES, null where that is not set.
OwnGpus choose_gpus(const topo::NvmlAnswer& told, const char* visible);

// How many of a host's GPUs a process may see.
int visible_gpus(const std::vector<topo::Gpu>& gpus, const char* visible);

// Asks NVML, for a quarter of the limit at most, and makes CUDA of this process and of those that it starts see the
// usable ones alone. Without a thread.
OwnGpus take_own_gpus(const Options& options);

}  // namespace p5
