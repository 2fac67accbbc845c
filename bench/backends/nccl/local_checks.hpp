// Checks of one GPU without any other.
#pragma once

#include <string>

#include "bench/backends/nccl/engine.hpp"
#include "bench/model/backend.hpp"

namespace p5::nccl {

// Some 4 s, and `burn` more of matrix products. Figures, medians if not stated otherwise:
// - device_copy_gb_per_s: within its memory, bytes read and written, the fastest; launch_us: each of 20 empty kernels,
//   until the host sees them done. Not where the worker was built without Google Benchmark.
// - memory_read_gb_per_s, slowest_slice_share: as in MemoryCheck.
// - bf16_tflop_per_s, fp8_tflop_per_s: matrix products with random operands, after warming up.
// - burn_first_tflop_per_s, burn_last_tflop_per_s: bf16, the first and the last minute of the burn, at most half of it;
//   burn_least_tflop_per_s: the slowest second of it.
// Throws CaseError.
LocalChecks check_locally(Queue& queue, Seconds burn);

// Some 0.2 s. host_to_device_gb_per_s, device_to_host_gb_per_s: from and to pinned host memory;
// host_both_ways_gb_per_s: both at once, the sum. The fastest of each. None where the worker was built without Google
// Benchmark. Throws CaseError.
LocalFigures check_host_copies(Queue& queue);

// ---- All free memory of a device, slice by slice: whether it keeps what was written, and how fast each slice is read.

struct MemoryCheck {
  double read_gb_per_s = 0;        // median over the slices
  double slowest_slice_share = 0;  // the slowest slice's rate over that median
  std::string corruption = {};     // the first wrong word, in a sentence; "" if all were right
};

// Throws CaseError.
MemoryCheck check_memory(Queue& queue);

}  // namespace p5::nccl
