// One reduction loop for each operation and type.
#include "tests/fakes/nccl/reduce.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "bench/model/data_type.hpp"

namespace p5::fake_nccl {

namespace {

// The type to compute in: integers wrap around, 16-bit floats are widened and rounded back after each operation.
template <class T>
struct Wide {
  using type = float;
};
template <class T>
requires std::is_integral_v<T>
struct Wide<T> {
  using type = T;
};
template <>
struct Wide<double> {
  using type = double;
};

template <class W>
W combine(W left, W right, ncclRedOp_t operation) {
  switch (operation) {
    case ncclProd:
      if constexpr (std::is_integral_v<W>)
        return static_cast<W>(static_cast<std::uint64_t>(left) * static_cast<std::uint64_t>(right));
      else
        return left * right;
    case ncclMax:
      if constexpr (std::is_integral_v<W>)
        return left < right ? right : left;
      else
        return std::fmax(left, right);
    case ncclMin:
      if constexpr (std::is_integral_v<W>)
        return right < left ? right : left;
      else
        return std::fmin(left, right);
    default:
      if constexpr (std::is_integral_v<W>)
        return static_cast<W>(static_cast<std::uint64_t>(left) + static_cast<std::uint64_t>(right));
      else
        return left + right;
  }
}

template <class Action>
void with_nccl_type(ncclDataType_t type, Action action) {
  switch (static_cast<int>(type)) {  // headers before NCCL 2.24 do not have all of them
    case ncclInt8:
      return action.template operator()<std::int8_t>();
    case ncclUint8:
      return action.template operator()<std::uint8_t>();
    case ncclInt32:
      return action.template operator()<std::int32_t>();
    case ncclUint32:
      return action.template operator()<std::uint32_t>();
    case ncclInt64:
      return action.template operator()<std::int64_t>();
    case ncclUint64:
      return action.template operator()<std::uint64_t>();
    case ncclFloat16:
      return action.template operator()<Float16>();
    case ncclBfloat16:
      return action.template operator()<Bfloat16>();
    case 10:  // ncclFloat8e4m3
      return action.template operator()<Float8E4m3>();
    case 11:  // ncclFloat8e5m2
      return action.template operator()<Float8E5m2>();
    case ncclFloat32:
      return action.template operator()<float>();
    case ncclFloat64:
      return action.template operator()<double>();
    default:
      return;
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  std::size_t bytes = 0;
  with_nccl_type(type, [&]<class T>() { bytes = sizeof(T); });
  return bytes;
}

bool reducible(ncclDataType_t type, ncclRedOp_t operation) {
  return size_of(type) > 0 && operation >= ncclSum && operation < ncclNumOps;
}

Scalar scalar_from(const void* value, ncclDataType_t type) {
  Scalar scalar{.type = type};
  std::memcpy(scalar.bytes.data(), value, size_of(type));
  return scalar;
}

void multiply(void* data, std::size_t count, const Scalar& factor) {
  with_nccl_type(factor.type, [&]<class T>() {
    using W = typename Wide<T>::type;
    T by;
    std::memcpy(&by, factor.bytes.data(), sizeof by);
    T* values = static_cast<T*>(data);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = static_cast<T>(combine<W>(static_cast<W>(values[i]), static_cast<W>(by), ncclProd));
  });
}

void prepare(void* data, std::size_t count, ncclDataType_t type, ncclRedOp_t operation, int ranks) {
  if (operation != ncclAvg) return;
  with_nccl_type(type, [&]<class T>() {
    if constexpr (!std::is_integral_v<T>) {
      using W = typename Wide<T>::type;
      const W factor = static_cast<W>(static_cast<T>(W{1} / static_cast<W>(ranks)));
      T* values = static_cast<T*>(data);
      for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(static_cast<W>(values[i]) * factor);
    }
  });
}

void accumulate(void* total, const void* addend, std::size_t count, ncclDataType_t type, ncclRedOp_t operation) {
  with_nccl_type(type, [&]<class T>() {
    using W = typename Wide<T>::type;
    T* to = static_cast<T*>(total);
    const T* from = static_cast<const T*>(addend);
    for (std::size_t i = 0; i < count; ++i)
      to[i] = static_cast<T>(combine<W>(static_cast<W>(to[i]), static_cast<W>(from[i]), operation));
  });
}

void complete(void* total, std::size_t count, ncclDataType_t type, ncclRedOp_t operation, int ranks) {
  if (operation != ncclAvg) return;
  with_nccl_type(type, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      T* values = static_cast<T*>(total);
      for (std::size_t i = 0; i < count; ++i) {
        if constexpr (std::is_signed_v<T>)
          values[i] = static_cast<T>(values[i] / static_cast<std::int64_t>(ranks));
        else
          values[i] = static_cast<T>(values[i] / static_cast<std::uint64_t>(ranks));
      }
    }
  });
}

}  // namespace p5::fake_nccl
