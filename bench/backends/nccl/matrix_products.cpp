#include "bench/backends/nccl/matrix_products.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "bench/backends/nccl/handles.hpp"
#include "bench/base/error.hpp"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define P5BENCH_CUBLASLT
#endif

namespace p5::nccl {

const char* name_of(ProductType type) { return type == ProductType::bf16 ? "bf16" : "fp8"; }

#ifdef P5BENCH_CUBLASLT

// Like check() of handles.hpp, for cuBLASLt.
static void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH)
    throw ProductUnavailable(fmt::format("{} has none for this GPU ({}: status {})", MatrixProducts::library(), call,
                                         static_cast<int>(status)));
  if (status != CUBLAS_STATUS_SUCCESS) throw CaseError(fmt::format("{}: status {}", call, static_cast<int>(status)));
}

namespace {

// Functions of cuBLASLt, from the library that belongs to the CUDA runtime of this build.
struct Library {
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_product = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_product = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_of_product = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_of_preference = nullptr;
  std::string problem;  // "" if all are there

  Library() {
    const std::string name = fmt::format("libcublasLt.so.{}", CUDART_VERSION / 1000);
    // A fake of the CUDA runtime has one of its own, or none.
    if (const auto fake = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "p5bench_fake_cublaslt"))) {
      take(dlopen(fake(), RTLD_NOW | RTLD_LOCAL), name);
      return;
    }
    std::vector<std::string> places{name};
    if (const char* home = std::getenv("CUDA_HOME"); home && *home)
      places.push_back(fmt::format("{}/lib64/{}", home, name));
    Dl_info runtime{};
    if (dladdr(reinterpret_cast<const void*>(&cudaGetDeviceCount), &runtime) != 0 && runtime.dli_fname) {
      const std::string path = runtime.dli_fname;
      places.push_back(path.substr(0, path.rfind('/') + 1) + name);
    }
    places.push_back("/usr/local/cuda/lib64/" + name);
    void* handle = nullptr;
    for (const std::string& place : places)
      if (!handle) handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    take(handle, name);
  }

 private:
  void take(void* handle, const std::string& name) {
    if (!handle) {
      problem = fmt::format("{} is not installed, or not where the loader looks", name);
      return;
    }
    find(handle, "cublasLtGetVersion", version);
    find(handle, "cublasLtCreate", create);
    find(handle, "cublasLtDestroy", destroy);
    find(handle, "cublasLtMatmul", matmul);
    find(handle, "cublasLtMatmulAlgoGetHeuristic", heuristic);
    find(handle, "cublasLtMatmulDescCreate", create_product);
    find(handle, "cublasLtMatmulDescDestroy", destroy_product);
    find(handle, "cublasLtMatmulDescSetAttribute", set_of_product);
    find(handle, "cublasLtMatrixLayoutCreate", create_layout);
    find(handle, "cublasLtMatrixLayoutDestroy", destroy_layout);
    find(handle, "cublasLtMatmulPreferenceCreate", create_preference);
    find(handle, "cublasLtMatmulPreferenceDestroy", destroy_preference);
    find(handle, "cublasLtMatmulPreferenceSetAttribute", set_of_preference);
  }

  template <class Function>
  void find(void* handle, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    if (!function && problem.empty()) problem = fmt::format("cuBLASLt has no {}", name);
  }
};

const Library& cublaslt() {
  static const Library library;
  return library;
}

// A workspace as large as a result lets cuBLASLt take any of its kernels for such sizes.
std::size_t workspace_for(int n) { return static_cast<std::size_t>(n) * static_cast<std::size_t>(n) * 2; }

std::size_t bytes_of(ProductType type) { return type == ProductType::bf16 ? 2 : 1; }

// Signs and mantissas are random, the magnitude lies between 1 and 2.
struct Bits {
  std::uint64_t random, fixed;
};
Bits operand_bits(ProductType type) {
  return type == ProductType::bf16 ? Bits{0x807f807f807f807fu, 0x3f803f803f803f80u}
                                   : Bits{0x8787878787878787u, 0x3838383838383838u};
}

template <class Handle>
using Freed = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;

}  // namespace

struct MatrixProducts::Implementation {
  Implementation(Queue& of, ProductType of_type, int of_n, int of_k)
      : queue(of),
        type(of_type),
        n(of_n),
        k(of_k),
        words(static_cast<std::uint64_t>(n) * static_cast<std::uint64_t>(n) * 2 / 8),
        a(make_device_memory(operand_bytes())),
        b(make_device_memory(operand_bytes())),
        first(make_device_memory(8 * words)),
        newest(make_device_memory(8 * words)),
        workspace_bytes(workspace_for(n)),
        workspace(make_device_memory(workspace_bytes)),
        found(make_device_memory(sizeof(Mismatches))) {
    const Library& library = cublaslt();
    cublasLtHandle_t made = nullptr;
    check(library.create(&made), "cublasLtCreate");
    handle = {made, library.destroy};
    cublasLtMatmulDesc_t described = nullptr;
    check(library.create_product(&described, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    product = {described, library.destroy_product};
    // The form that all types have: the first operand transposed.
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(library.set_of_product(product.get(), CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
          "cublasLtMatmulDescSetAttribute");
    operand = layout(type == ProductType::bf16 ? CUDA_R_16BF : CUDA_R_8F_E4M3, k);
    result = layout(CUDA_R_16BF, n);
    choose_algorithm();
    const Bits bits = operand_bits(type);
    fill_words(queue.stream(), a.get(), operand_bytes() / 8, 1, bits.random, bits.fixed);
    fill_words(queue.stream(), b.get(), operand_bytes() / 8, 2, bits.random, bits.fixed);
    multiply_into(first.get(), queue.stream());
    queue.mark(1);
    queue.finish();
  }

  std::size_t operand_bytes() const {
    return static_cast<std::size_t>(n) * static_cast<std::size_t>(k) * bytes_of(type);
  }

  // A layout of n columns.
  Freed<cublasLtMatrixLayout_t> layout(cudaDataType_t of, int rows) const {
    cublasLtMatrixLayout_t made = nullptr;
    check(cublaslt().create_layout(&made, of, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(n), rows),
          "cublasLtMatrixLayoutCreate");
    return {made, cublaslt().destroy_layout};
  }

  void choose_algorithm() {
    const Library& library = cublaslt();
    cublasLtMatmulPreference_t made = nullptr;
    check(library.create_preference(&made), "cublasLtMatmulPreferenceCreate");
    const Freed<cublasLtMatmulPreference_t> preference{made, library.destroy_preference};
    check(library.set_of_preference(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                    sizeof workspace_bytes),
          "cublasLtMatmulPreferenceSetAttribute");
    cublasLtMatmulHeuristicResult_t chosen{};
    int count = 0;
    check(library.heuristic(handle.get(), product.get(), operand.get(), operand.get(), result.get(), result.get(),
                            preference.get(), 1, &chosen, &count),
          "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0)
      throw ProductUnavailable(fmt::format("{} has no {} product of {} x {} by {} x {} for this GPU",
                                           MatrixProducts::library(), name_of(type), n, k, k, n));
    algorithm = chosen.algo;
  }

  void multiply_into(void* output, cudaStream_t stream) {
    const float one = 1, zero = 0;
    check(cublaslt().matmul(handle.get(), product.get(), &one, a.get(), operand.get(), b.get(), operand.get(), &zero,
                            output, result.get(), output, result.get(), &algorithm, workspace.get(), workspace_bytes,
                            stream),
          "cublasLtMatmul");
  }

  template <class T>
  T fetch(const void* from) {
    T value{};
    check(cudaMemcpyAsync(&value, from, sizeof value, cudaMemcpyDeviceToHost, queue.stream()), "cudaMemcpyAsync");
    queue.finish();
    return value;
  }

  Queue& queue;
  ProductType type;
  int n, k;
  std::uint64_t words;  // of a result
  DeviceMemory a, b, first, newest;
  std::size_t workspace_bytes;
  DeviceMemory workspace, found;
  Freed<cublasLtHandle_t> handle{nullptr, nullptr};
  Freed<cublasLtMatmulDesc_t> product{nullptr, nullptr};
  Freed<cublasLtMatrixLayout_t> operand{nullptr, nullptr}, result{nullptr, nullptr};
  cublasLtMatmulAlgo_t algorithm{};
  std::uint64_t done = 0;
};

MatrixProducts::MatrixProducts(Queue& queue, ProductType type, int n, int k)
    : implementation_(std::make_unique<Implementation>(queue, type, n, k)) {}
MatrixProducts::~MatrixProducts() = default;

std::string MatrixProducts::unavailable(ProductType type) {
  if (type == ProductType::fp8 && compute_capability() < 89) return "this GPU has no fp8";
  return cublaslt().problem;
}

std::string MatrixProducts::library() {
  if (!cublaslt().problem.empty()) return "";
  const std::size_t version = cublaslt().version();
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

int MatrixProducts::size_that_fits(ProductType type, std::uint64_t bytes) {
  constexpr int step = 256, most = 8192;
  int fits = 0;
  for (int size = step; size <= most; size += step) {
    const std::uint64_t elements = static_cast<std::uint64_t>(size) * static_cast<std::uint64_t>(size);
    if (elements * (2 * bytes_of(type) + 2 * 2) + workspace_for(size) <= bytes) fits = size;
  }
  return fits;
}

void MatrixProducts::multiply(int products) {
  for (int i = 0; i < products; ++i) {
    multiply_on(implementation_->queue.stream());
    implementation_->queue.mark(1);
  }
}

void MatrixProducts::multiply_on(cudaStream_t stream) {
  implementation_->multiply_into(implementation_->newest.get(), stream);
  ++implementation_->done;
}

void MatrixProducts::poison() {
  Implementation& of = *implementation_;
  check(cudaMemsetAsync(of.newest.get(), poison_value, 8 * of.words, of.queue.stream()), "cudaMemsetAsync");
}

std::optional<WrongResult> MatrixProducts::compare() {
  Implementation& of = *implementation_;
  const Mismatches none;
  check(cudaMemcpyAsync(of.found.get(), &none, sizeof none, cudaMemcpyHostToDevice, of.queue.stream()),
        "cudaMemcpyAsync");
  compare_words(of.queue.stream(), of.newest.get(), of.first.get(), of.words, static_cast<Mismatches*>(of.found.get()));
  const auto found = of.fetch<Mismatches>(of.found.get());
  if (found.wrong == 0) return std::nullopt;
  const auto word = [&](const DeviceMemory& memory) {
    return of.fetch<std::uint64_t>(static_cast<const std::uint64_t*>(memory.get()) + found.lowest);
  };
  return WrongResult{.product = of.done,
                     .byte = 8 * found.lowest,
                     .wanted = word(of.first),
                     .got = word(of.newest),
                     .words = found.wrong};
}

std::string MatrixProducts::digest() {
  Implementation& of = *implementation_;
  const unsigned long long zero = 0;
  check(cudaMemcpyAsync(of.found.get(), &zero, sizeof zero, cudaMemcpyHostToDevice, of.queue.stream()),
        "cudaMemcpyAsync");
  hash_words(of.queue.stream(), of.first.get(), of.words, static_cast<unsigned long long*>(of.found.get()));
  return fmt::format("{:016x}", of.fetch<unsigned long long>(of.found.get()));
}

double MatrixProducts::operations() const {
  const double n = implementation_->n, k = implementation_->k;
  return 2 * n * n * k;
}

#else

struct MatrixProducts::Implementation {};

MatrixProducts::MatrixProducts(Queue&, ProductType type, int, int) { throw CaseError(unavailable(type)); }
MatrixProducts::~MatrixProducts() = default;
std::string MatrixProducts::unavailable(ProductType) { return "this build had no header of cuBLASLt"; }
std::string MatrixProducts::library() { return ""; }
int MatrixProducts::size_that_fits(ProductType, std::uint64_t) { return 0; }
void MatrixProducts::multiply(int) {}
void MatrixProducts::multiply_on(cudaStream_t) {}
void MatrixProducts::poison() {}
std::optional<WrongResult> MatrixProducts::compare() { return std::nullopt; }
std::string MatrixProducts::digest() { return ""; }
double MatrixProducts::operations() const { return 0; }

#endif

}  // namespace p5::nccl
