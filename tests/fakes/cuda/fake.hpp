// What the fake CUDA runtime offers beside the CUDA API: to the worker (by dlsym) and to the fake NCCL.
#pragma once

#include <cstddef>

extern "C" {

// From now on a launch of `kernel` (the host stub's address) runs `twin` on the stream's thread, with copies of the
// arguments made at launch. Without a twin a launch is refused.
void p5bench_fake_register_twin(const void* kernel,
                                void (*twin)(void** arguments, unsigned grid_blocks, unsigned block_threads),
                                const unsigned* argument_sizes, unsigned arguments_count);

// The path of the fake cuBLASLt: P5BENCH_FAKE_CUBLASLT, "" if that is not set, as if the machine had none.
const char* p5bench_fake_cublaslt();

// Whether a device may touch these bytes: they lie within one allocation of device or pinned memory.
bool p5bench_fake_accessible(const void* address, std::size_t bytes);

// From now on cudaMalloc finds no memory.
void p5bench_fake_exhaust_memory();

}  // extern "C"
