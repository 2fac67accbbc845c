// libcublasLt.so that passes all on to the real one, whose path P5BENCH_REAL_CUBLASLT tells, and flips one bit of the
// result of each product from the P5BENCH_FLIP_FROM-th on, on the device P5BENCH_FLIP_DEVICE: a GPU that computes
// wrong.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

template <class Function>
Function real(const char* name) {
  static void* const library = [] {
    const char* const path = std::getenv("P5BENCH_REAL_CUBLASLT");
    void* const opened = dlopen(path ? path : "", RTLD_NOW | RTLD_LOCAL);
    if (!opened) std::fprintf(stderr, "flip_products: %s\n", dlerror());
    return opened;
  }();
  return reinterpret_cast<Function>(dlsym(library, name));
}

int number(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

std::atomic<int> products{0};

void flip(void* word) { *static_cast<std::uint64_t*>(word) ^= std::uint64_t{1} << 17; }

}  // namespace

#define FORWARD(name, parameters, arguments) \
  extern "C" cublasStatus_t name parameters { return real<decltype(&name)>(#name) arguments; }

extern "C" std::size_t cublasLtGetVersion() { return real<decltype(&cublasLtGetVersion)>("cublasLtGetVersion")(); }
FORWARD(cublasLtCreate, (cublasLtHandle_t * made), (made))
FORWARD(cublasLtDestroy, (cublasLtHandle_t handle), (handle))
FORWARD(cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t * made, cublasComputeType_t compute, cudaDataType_t scale),
        (made, compute, scale))
FORWARD(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t made), (made))
FORWARD(cublasLtMatmulDescSetAttribute,
        (cublasLtMatmulDesc_t of, cublasLtMatmulDescAttributes_t which, const void* value, std::size_t bytes),
        (of, which, value, bytes))
FORWARD(cublasLtMatrixLayoutCreate,
        (cublasLtMatrixLayout_t * made, cudaDataType type, std::uint64_t rows, std::uint64_t columns,
         std::int64_t leading),
        (made, type, rows, columns, leading))
FORWARD(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t made), (made))
FORWARD(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * made), (made))
FORWARD(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t made), (made))
FORWARD(cublasLtMatmulPreferenceSetAttribute,
        (cublasLtMatmulPreference_t of, cublasLtMatmulPreferenceAttributes_t which, const void* value,
         std::size_t bytes),
        (of, which, value, bytes))
FORWARD(cublasLtMatmulAlgoGetHeuristic,
        (cublasLtHandle_t handle, cublasLtMatmulDesc_t of, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
         cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int wanted,
         cublasLtMatmulHeuristicResult_t results[], int* count),
        (handle, of, a, b, c, d, preference, wanted, results, count))

extern "C" cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t of, const void* alpha,
                                         const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                                         cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                                         cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                                         const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t bytes,
                                         cudaStream_t stream) {
  const cublasStatus_t status = real<decltype(&cublasLtMatmul)>("cublasLtMatmul")(
      handle, of, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm, workspace, bytes, stream);
  int device = -1;
  cudaGetDevice(&device);
  if (status != CUBLAS_STATUS_SUCCESS || device != number("P5BENCH_FLIP_DEVICE", 0) ||
      ++products < number("P5BENCH_FLIP_FROM", 1))
    return status;
  static void* word = nullptr;  // pinned, so that the copies keep to the stream's order
  if (!word && cudaMallocHost(&word, sizeof(std::uint64_t)) != cudaSuccess) return CUBLAS_STATUS_ALLOC_FAILED;
  void* const there = static_cast<std::uint64_t*>(d) + 4711;
  cudaMemcpyAsync(word, there, sizeof(std::uint64_t), cudaMemcpyDeviceToHost, stream);
  cudaLaunchHostFunc(stream, &flip, word);
  cudaMemcpyAsync(there, word, sizeof(std::uint64_t), cudaMemcpyHostToDevice, stream);
  return status;
}
