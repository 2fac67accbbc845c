// Functions of the fake CUDA runtime besides the CUDA API, for the worker (by dlsym) and the fake NCCL.
#pragma once

#include <cstddef>

extern "C" {

// Makes launches of `kernel` (the host stub's address) run `twin` on the stream's thread, with copies of the arguments
// made at launch. A launch of a kernel without a twin fails.
void p5bench_fake_register_twin(const void* kernel,
                                void (*twin)(void** arguments, unsigned grid_blocks, unsigned block_threads),
                                const unsigned* argument_sizes, unsigned arguments_count);

// The path of the fake cuBLASLt: P5BENCH_FAKE_CUBLASLT, or "" if it is not set, as on a machine without cuBLASLt.
const char* p5bench_fake_cublaslt();

// True if a device may access these bytes: they lie within one allocation of device or pinned memory.
bool p5bench_fake_accessible(const void* address, std::size_t bytes);

// As cudaMalloc, for memory that other processes may map: p5bench_fake_file_of() is the file whose content it is, and
// `offset` where the address lies in it; -1 for other memory.
int p5bench_fake_malloc_shareable(void** address, std::size_t bytes);
int p5bench_fake_file_of(const void* address, std::size_t* offset);

// Advances the planted clock (P5BENCH_FAKE_CLOCK) of the stream whose task calls this.
void p5bench_fake_pass(int microseconds);

// Makes every later cudaMalloc fail for lack of memory.
void p5bench_fake_exhaust_memory();

}  // extern "C"
