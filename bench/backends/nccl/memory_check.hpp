// All free memory of a device, slice by slice: whether it keeps what was written, and how fast each slice is read.
#pragma once

#include <string>

#include "bench/backends/nccl/queue.hpp"

namespace p5::nccl {

struct MemoryCheck {
  double read_gb_per_s = 0;        // median over the slices
  double slowest_slice_share = 0;  // the slowest slice's rate over that median
  std::string corruption = {};     // the first wrong word, in a sentence; "" if all were right
};

// Throws CaseError.
MemoryCheck check_memory(Queue& queue);

}  // namespace p5::nccl
