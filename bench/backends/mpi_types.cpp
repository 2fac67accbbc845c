#include "bench/backends/mpi_types.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

#include "bench/worlds/mpi_check.hpp"

namespace p5::mpi {

namespace {

// Integers travel as unsigned: sums and products wrap alike, and unsigned overflow is defined. Not for min and max.
MPI_Datatype base_type(DataType type, bool wraps) {
  switch (type) {
    case DataType::int8:
      return wraps ? MPI_UINT8_T : MPI_INT8_T;
    case DataType::uint8:
      return MPI_UINT8_T;
    case DataType::int32:
      return wraps ? MPI_UINT32_T : MPI_INT32_T;
    case DataType::uint32:
      return MPI_UINT32_T;
    case DataType::int64:
      return wraps ? MPI_UINT64_T : MPI_INT64_T;
    case DataType::uint64:
      return MPI_UINT64_T;
    case DataType::float16:
    case DataType::bfloat16:
      return MPI_UINT16_T;
    case DataType::float32:
      return MPI_FLOAT;
    case DataType::float64:
      break;
  }
  return MPI_DOUBLE;
}

template <class T, ReduceOp op>
T combined_floats(T a, T b) {
  const float x = static_cast<float>(a), y = static_cast<float>(b);
  if constexpr (op == ReduceOp::prod)
    return T(x * y);
  else if constexpr (op == ReduceOp::min)
    return x < y ? a : b;
  else if constexpr (op == ReduceOp::max)
    return x > y ? a : b;
  else
    return T(x + y);
}

template <class T, ReduceOp op>
T combined(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    static_assert(op == ReduceOp::sum);
    return static_cast<T>(a + b);
  } else {
    return combined_floats<T, op>(a, b);
  }
}

template <class T, ReduceOp op>
void combine(void* in, void* in_out, int* length, MPI_Datatype*) {
  const T* const a = static_cast<const T*>(in);
  T* const b = static_cast<T*>(in_out);
  for (int i = 0; i < *length; ++i) b[i] = combined<T, op>(a[i], b[i]);
}

// Whether MPI's own operation will not do: it knows no 16-bit floats, and Open MPI's vector instructions saturate sums
// of 8-bit integers (op/avx; open-mpi/ompi issue 8045, which will not be fixed) where wider types and NCCL wrap.
bool needs_own_op(DataType type, ReduceOp op) {
  if (type == DataType::float16 || type == DataType::bfloat16) return true;
  return (type == DataType::int8 || type == DataType::uint8) && (op == ReduceOp::sum || op == ReduceOp::avg);
}

// Our operation where MPI's will not do, made once per call: cheap beside a collective, and nothing to free at the end.
class OwnOp {
 public:
  OwnOp(DataType type, ReduceOp op) { check(MPI_Op_create(function(type, op), /*commute=*/1, &op_)); }
  ~OwnOp() { MPI_Op_free(&op_); }
  OwnOp(const OwnOp&) = delete;
  OwnOp& operator=(const OwnOp&) = delete;
  MPI_Op get() const { return op_; }

 private:
  template <class T>
  static MPI_User_function* function_for(ReduceOp op) {
    switch (op) {
      case ReduceOp::prod:
        return combine<T, ReduceOp::prod>;
      case ReduceOp::min:
        return combine<T, ReduceOp::min>;
      case ReduceOp::max:
        return combine<T, ReduceOp::max>;
      case ReduceOp::sum:
      case ReduceOp::avg:
        break;
    }
    return combine<T, ReduceOp::sum>;
  }
  static MPI_User_function* function(DataType type, ReduceOp op) {
    if (type == DataType::int8 || type == DataType::uint8) return combine<std::uint8_t, ReduceOp::sum>;
    return type == DataType::float16 ? function_for<Float16>(op) : function_for<Bfloat16>(op);
  }
  MPI_Op op_ = MPI_OP_NULL;
};

MPI_Op built_in(ReduceOp op) {
  switch (op) {
    case ReduceOp::prod:
      return MPI_PROD;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::sum:
    case ReduceOp::avg:
      break;
  }
  return MPI_SUM;
}

template <class T>
void divide(void* memory, std::uint64_t elements, int ranks) {
  T* const data = static_cast<T*>(memory);
  for (std::uint64_t i = 0; i < elements; ++i) {
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>)
      data[i] = static_cast<T>(std::int64_t{data[i]} / ranks);
    else if constexpr (std::is_integral_v<T>)
      data[i] = static_cast<T>(data[i] / static_cast<std::uint64_t>(ranks));
    else if constexpr (std::is_floating_point_v<T>)
      data[i] /= static_cast<T>(ranks);
    else
      data[i] = T(static_cast<float>(data[i]) / static_cast<float>(ranks));
  }
}

void reduce_pieces(const void* input, void* output, std::uint64_t elements, DataType type, MPI_Datatype base, MPI_Op op,
                   MPI_Comm comm) {
  constexpr std::uint64_t piece = std::uint64_t{1} << 30;
  const std::size_t size = size_of(type);
  for (std::uint64_t done = 0; done < elements; done += piece) {
    const int count = static_cast<int>(std::min(piece, elements - done));
    const void* const from = input ? static_cast<const std::byte*>(input) + done * size : MPI_IN_PLACE;
    check(MPI_Allreduce(from, static_cast<std::byte*>(output) + done * size, count, base, op, comm));
  }
}

}  // namespace

Count::Count(std::uint64_t elements, DataType type) {
  constexpr std::uint64_t piece = std::uint64_t{1} << 30;
  const MPI_Datatype base = base_type(type, false);
  if (elements <= piece) {
    count_ = static_cast<int>(elements);
    type_ = base;
    return;
  }
  // One element of a type made of whole pieces and a rest behind them.
  std::array<MPI_Datatype, 2> types{};
  check(MPI_Type_contiguous(static_cast<int>(piece), base, &types[0]));
  MPI_Datatype pieces = MPI_DATATYPE_NULL;
  check(MPI_Type_contiguous(static_cast<int>(elements / piece), types[0], &pieces));
  check(MPI_Type_free(&types[0]));
  types = {pieces, base};
  const std::array<int, 2> lengths{1, static_cast<int>(elements % piece)};
  const std::array<MPI_Aint, 2> offsets{0, static_cast<MPI_Aint>(elements / piece * piece * size_of(type))};
  check(MPI_Type_create_struct(2, lengths.data(), offsets.data(), types.data(), &type_));
  check(MPI_Type_free(&pieces));
  check(MPI_Type_commit(&type_));
  count_ = 1;
  own_ = true;
}

Count::~Count() {
  if (own_) MPI_Type_free(&type_);
}

void all_reduce(const void* input, void* output, std::uint64_t elements, DataType type, ReduceOp op, MPI_Comm comm) {
  const bool wraps = op == ReduceOp::sum || op == ReduceOp::prod;
  if (needs_own_op(type, op)) {
    const OwnOp own(type, op);
    reduce_pieces(input, output, elements, type, base_type(type, wraps), own.get(), comm);
  } else {
    reduce_pieces(input, output, elements, type, base_type(type, wraps), built_in(op), comm);
  }
  if (op != ReduceOp::avg) return;
  int ranks = 1;
  check(MPI_Comm_size(comm, &ranks));
  with_type(type, [&]<class T>() { divide<T>(output, elements, ranks); });
}

}  // namespace p5::mpi
