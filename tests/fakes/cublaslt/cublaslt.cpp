// libcublasLt.so for tests, on the fake CUDA runtime: the functions that the worker uses. The "product" is a hash of
// the operands, so it does not depend on their addresses, and takes P5BENCH_FAKE_PRODUCT_US microseconds on the stream.
// P5BENCH_FAKE_PRODUCTS lists faults by device number, separated by commas:
//   wrong:gpu=G:product=N   the Nth product and all later ones have one bit flipped
//   other:gpu=G             all products differ from those of other devices, in the same way each time
//   slow:gpu=G:percent=P    products take P percent longer; with until=N only the first N
//   none:gpu=G:fp8=1        there are no products of this type (or bf16=1) for the device
//   brake:gpu=G:percent=P   products take P percent longer that begin while NCCL has operations to do;
//                           with wrong=1 they have one bit flipped
//   crowd:gpu=G:percent=P   products take P percent longer for each channel of the operations that NCCL performs when
//                           they begin
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include "tests/fakes/cuda/fake.hpp"

namespace {

struct Layout {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::size_t bytes() const { return rows * columns * (type == CUDA_R_8F_E4M3 ? 1 : 2); }
};

// The number after `name=` in the first fault of this kind for the device; -1 without such a fault, 0 without the name.
int fault(std::string_view kind, int device, std::string_view name) {
  const char* const variable = std::getenv("P5BENCH_FAKE_PRODUCTS");
  std::string_view rest = variable ? variable : "";
  while (!rest.empty()) {
    const std::string one(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (one != kind && !one.starts_with(std::string(kind) + ":")) continue;
    if ((one + ":").find(":gpu=" + std::to_string(device) + ":") == std::string::npos) continue;
    const std::size_t at = one.find(":" + std::string(name) + "=");
    return at == std::string::npos ? 0 : std::atoi(one.c_str() + at + name.size() + 2);
  }
  return -1;
}

struct Product {
  const std::uint64_t *a, *b;
  std::uint64_t* d;
  std::uint64_t operand_words, words;
  std::uint64_t salt;
  bool wrong;
  bool wrong_beside_messages;
  std::chrono::microseconds time, time_beside_messages;
  int percent_a_channel;
};

// A count of the fake NCCL; 0 without it.
int count_of_nccl(const char* name) {
  const auto count = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, name));
  return count ? count() : 0;
}

void multiply(void* data) {
  const std::unique_ptr<Product> product(static_cast<Product*>(data));
  const bool beside = count_of_nccl("ncclFakeOperationsUnderWay") > 0;
  const int crowd = product->percent_a_channel * count_of_nccl("ncclFakeChannelsUnderWay");
  const std::chrono::microseconds time = (beside ? product->time_beside_messages : product->time) * (100 + crowd) / 100;
  const auto end = std::chrono::steady_clock::now() + time;
  p5bench_fake_pass(static_cast<int>(time.count()));
  // Cheap, because the processor time of a fake product is taken from whatever is measured beside it.
  for (std::uint64_t begin = 0; begin < product->words; begin += product->operand_words) {
    const std::uint64_t count = std::min(product->words - begin, product->operand_words);
    for (std::uint64_t i = 0; i < count; ++i)
      product->d[begin + i] = product->a[i] ^ (product->b[i / 3] * 0x9e3779b97f4a7c15u) ^ (begin + i) ^ product->salt;
  }
  if (product->wrong || (beside && product->wrong_beside_messages)) product->d[product->words / 2] ^= 1u << 5;
  std::this_thread::sleep_until(end);
}

std::atomic<int> products{0};

}  // namespace

extern "C" {

std::size_t cublasLtGetVersion() { return 130000; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t, cudaDataType_t) {
  *made = new cublasLtMatmulDescOpaque_t{};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t made) {
  delete made;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void*,
                                              std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t) {
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t made) {
  delete reinterpret_cast<Layout*>(made);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = new cublasLtMatmulPreferenceOpaque_t{};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t made) {
  delete made;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a_layout,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool is_fp8 = reinterpret_cast<const Layout*>(a_layout)->type == CUDA_R_8F_E4M3;
  if (fault("none", device, is_fp8 ? "fp8" : "bf16") > 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  results[0] = {};
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t, const void*,
                              const void*, cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t*, void*, std::size_t, cudaStream_t stream) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  const int number = ++products, wrong_from = fault("wrong", device, "product");
  const char* const time = std::getenv("P5BENCH_FAKE_PRODUCT_US");
  const int until = fault("slow", device, "until");
  const int slower = until > 0 && number > until ? 0 : std::max(0, fault("slow", device, "percent")),
            brake = std::max(0, fault("brake", device, "percent"));
  const std::chrono::microseconds takes((time ? std::atoi(time) : 20'000) * (100 + slower) / 100);
  auto* const product = new Product{.a = static_cast<const std::uint64_t*>(a),
                                    .b = static_cast<const std::uint64_t*>(b),
                                    .d = static_cast<std::uint64_t*>(d),
                                    .operand_words = reinterpret_cast<Layout*>(a_layout)->bytes() / 8,
                                    .words = reinterpret_cast<Layout*>(d_layout)->bytes() / 8,
                                    .salt = fault("other", device, "") >= 0 ? 1u : 0u,
                                    .wrong = wrong_from > 0 && number >= wrong_from,
                                    .wrong_beside_messages = fault("brake", device, "wrong") > 0,
                                    .time = takes,
                                    .time_beside_messages = takes * (100 + brake) / 100,
                                    .percent_a_channel = std::max(0, fault("crowd", device, "percent"))};
  return cudaLaunchHostFunc(stream, &multiply, product) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                       : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
