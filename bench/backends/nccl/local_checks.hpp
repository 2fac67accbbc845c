// What this GPU does by itself: Google Benchmark's loop around copies and launches. One process runs it, with nobody to
// agree with, so that loop's own choice of how often to repeat is sound here.
#pragma once

#include "bench/backends/nccl/queue.hpp"
#include "bench/model/backend.hpp"

namespace p5::nccl {

// A few tenths of a second. device_copy_gb_per_s: within its memory, bytes read and written; host_to_device_gb_per_s
// and device_to_host_gb_per_s: from and to pinned host memory; launch_us: each of 20 empty kernels, until the host sees
// them done. Medians. Empty where the worker was built without Google Benchmark. Throws CaseError.
LocalFigures check_locally(Queue& queue);

}  // namespace p5::nccl
