// Reductions of all types and operations, rounded to the type at every step as a GPU does.
#pragma once

#include <nccl.h>

#include <array>
#include <cstddef>

namespace p5::fake_nccl {

// Bytes of an element; 0 for an unknown type.
std::size_t size_of(ncclDataType_t type);
// True if the fake can reduce this: all built-in operations on all types except 8-bit floats.
bool reducible(ncclDataType_t type, ncclRedOp_t operation);

// The factor of a pre-multiplied sum.
struct Scalar {
  ncclDataType_t type = ncclInt8;
  std::array<unsigned char, 8> bytes{};
};
Scalar scalar_from(const void* value, ncclDataType_t type);
void multiply(void* data, std::size_t count, const Scalar& factor);

// Averages of floats multiply each input by 1/ranks before the sum, those of integers divide the sum.
void prepare(void* data, std::size_t count, ncclDataType_t type, ncclRedOp_t operation, int ranks);
void accumulate(void* total, const void* addend, std::size_t count, ncclDataType_t type, ncclRedOp_t operation);
void complete(void* total, std::size_t count, ncclDataType_t type, ncclRedOp_t operation, int ranks);

}  // namespace p5::fake_nccl
