// Matrix products by cuBLASLt: how fast a device's tensor cores are, and whether the same product gives the same bits.
// cuBLASLt is part of CUDA's toolkit and is loaded at run time; without its header the worker is built without
// products.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bench/backends/nccl/engine.hpp"
#include "bench/backends/nccl/kernels.hpp"
#include "bench/base/error.hpp"

namespace p5::nccl {

// Operands of the tensor cores; sums are float32, results bfloat16.
enum class ProductType { bf16, fp8 };  // fp8: e4m3, from compute capability 8.9 on
const char* name_of(ProductType type);

// A result that differs from the first one of the same operands.
struct WrongResult {
  std::uint64_t product = 0;          // counted from 1
  std::uint64_t byte = 0;             // of the result, of the lowest word that differs
  std::uint64_t wanted = 0, got = 0;  // that word
  std::uint64_t words = 0;            // that differ
};

// Thrown where the library has no product of the type for this device, which is no fault of the device.
struct ProductUnavailable : CaseError {
  using CaseError::CaseError;
};

class MatrixProducts {
 public:
  // D = A^T B, A and B of k x n elements, with seeded operands that are the same on every device. Throws CaseError.
  MatrixProducts(Queue& queue, ProductType type, int n, int k);
  ~MatrixProducts();
  MatrixProducts(const MatrixProducts&) = delete;
  MatrixProducts& operator=(const MatrixProducts&) = delete;

  // Why there are none: no library, no header when this was built, or a device that lacks the type; "" if there are.
  static std::string unavailable(ProductType type);
  static std::string library();  // "cuBLASLt 13.1.0.3", of the one that was loaded

  // The largest size, a multiple of 256 and at most 8192, that fits so many bytes with its workspace; 0 if none does.
  static int size_that_fits(ProductType type, std::uint64_t bytes);

  // Queues that many products, of which the queue counts each.
  void multiply(int products);
  // Queues one on another stream, uncounted.
  void multiply_on(cudaStream_t stream);
  // Spoils the newest result, in the queue's stream.
  void poison();
  // Waits, and compares the newest result with the first; on a difference the first stays what is compared with.
  std::optional<WrongResult> compare();
  // A hash of the first result, 16 hexadecimal digits: the same on all devices of a model with one version of cuBLASLt.
  std::string digest();
  // Floating-point operations of one product.
  double operations() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace p5::nccl
