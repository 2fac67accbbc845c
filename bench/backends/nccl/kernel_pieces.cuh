// Parts that the kernels share: pieces of 16 bytes, sums of small floats, launches and host twins.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>

#include <type_traits>

#include "bench/backends/nccl/handles.hpp"
#include "bench/model/data_type.hpp"

namespace p5::nccl {

// Neighbouring elements that one thread reads and writes at once.
template <class T, int width>
struct alignas(width * sizeof(T)) Piece {
  T values[width];
};
template <class T>
inline constexpr int widest = 16 / sizeof(T);

template <class T>
using SumOf = std::conditional_t<is_small_float<T>, float, T>;

// Conversions to and from SumOf, on devices by their own instructions, whose results are those of the host.
template <class T>
__host__ __device__ inline SumOf<T> widened(T value) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, Bfloat16>) return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
  if constexpr (std::is_same_v<T, Float16>) return __half2float(__ushort_as_half(value.bits));
  if constexpr (std::is_same_v<T, Float8E4m3>)
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(value.bits, __NV_E4M3)));
  if constexpr (std::is_same_v<T, Float8E5m2>)
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(value.bits, __NV_E5M2)));
#endif
  return static_cast<SumOf<T>>(value);
}

template <class T>
__host__ __device__ inline T narrowed(SumOf<T> value) {
#ifdef __CUDA_ARCH__
  T result;
  if constexpr (std::is_same_v<T, Bfloat16>)
    return result.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value)), result;
  if constexpr (std::is_same_v<T, Float16>) return result.bits = __half_as_ushort(__float2half_rn(value)), result;
  if constexpr (std::is_same_v<T, Float8E4m3>)
    return result.bits = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3), result;
  if constexpr (std::is_same_v<T, Float8E5m2>)
    return result.bits = __nv_cvt_float_to_fp8(value, __NV_NOSAT, __NV_E5M2), result;
#endif
  return T(value);
}

// Launches by address instead of <<<>>>, so that a fake gets the same address as in register_twins().
inline void launch(const void* kernel, unsigned blocks, unsigned threads, void** arguments, cudaStream_t stream) {
  check(cudaLaunchKernel(kernel, dim3(blocks), dim3(threads), arguments, 0, stream), "cudaLaunchKernel");
}

// The fake CUDA runtime's function that takes the host version of a kernel.
using Twin = void (*)(void** arguments, unsigned grid_blocks, unsigned block_threads);
using RegisterTwin = void (*)(const void* kernel, Twin twin, const unsigned* argument_sizes, unsigned arguments_count);

}  // namespace p5::nccl
