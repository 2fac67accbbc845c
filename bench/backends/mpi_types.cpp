#include "bench/backends/mpi_types.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>

#include "bench/control/control_planes.hpp"
#include "bench/model/pattern.hpp"

namespace p5::mpi {

namespace {

// Integers are reduced as unsigned where the result is the same, because signed overflow is undefined; min and max need
// the sign.
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
    case DataType::float8_e4m3:
    case DataType::float8_e5m2:
      return MPI_UINT8_T;
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
T reduced_value(T a, T b) {
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
  for (int i = 0; i < *length; ++i) b[i] = reduced_value<T, op>(a[i], b[i]);
}

// True if MPI's built-in operation cannot be used: MPI has no floats of 8 or 16 bits, and Open MPI's vector
// instructions saturate sums of 8-bit integers (op/avx; open-mpi/ompi issue 8045, closed as won't fix), while wider
// types and NCCL wrap.
bool needs_custom_op(DataType type, ReduceOp op) {
  if (with_type(type, []<class T>() { return is_small_float<T>; })) return true;
  return (type == DataType::int8 || type == DataType::uint8) &&
         (op == ReduceOp::sum || op == ReduceOp::avg || op == ReduceOp::mulsum);
}

template <class T>
MPI_User_function* own_function_for(ReduceOp op) {
  switch (op) {
    case ReduceOp::prod:
      return combine<T, ReduceOp::prod>;
    case ReduceOp::min:
      return combine<T, ReduceOp::min>;
    case ReduceOp::max:
      return combine<T, ReduceOp::max>;
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::mulsum:
      break;
  }
  return combine<T, ReduceOp::sum>;
}

MPI_User_function* own_function(DataType type, ReduceOp op) {
  return with_type(type, [&]<class T>() -> MPI_User_function* {
    if constexpr (is_small_float<T>)
      return own_function_for<T>(op);
    else
      return combine<std::uint8_t, ReduceOp::sum>;
  });
}

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
    case ReduceOp::mulsum:
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

template <class T>
void multiply(const void* from, void* to, std::uint64_t elements, int factor) {
  const T* const input = static_cast<const T*>(from);
  T* const output = static_cast<T*>(to);
  for (std::uint64_t i = 0; i < elements; ++i) {
    if constexpr (std::is_integral_v<T>)  // wraps
      output[i] = static_cast<T>(static_cast<std::uint64_t>(input[i]) * static_cast<std::uint64_t>(factor));
    else if constexpr (std::is_floating_point_v<T>)
      output[i] = input[i] * static_cast<T>(factor);
    else
      output[i] = T(static_cast<float>(input[i]) * static_cast<float>(factor));
  }
}

// Elements per call; larger reductions are split, because MPI cannot reduce derived types.
constexpr std::uint64_t largest_piece = std::uint64_t{1} << 30;

// Calls perform(first, count) for consecutive pieces.
template <class Perform>
void each_piece(std::uint64_t elements, Perform&& perform) {
  for (std::uint64_t first = 0; first < elements; first += largest_piece)
    perform(first, static_cast<int>(std::min(largest_piece, elements - first)));
}

const std::byte* at(const void* memory, std::uint64_t element, DataType type) {
  return static_cast<const std::byte*>(memory) + element * size_of(type);
}
std::byte* at(void* memory, std::uint64_t element, DataType type) {
  return static_cast<std::byte*>(memory) + element * size_of(type);
}

int size_of_group(MPI_Comm comm) {
  int ranks = 1;
  check(MPI_Comm_size(comm, &ranks));
  return ranks;
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check(MPI_Comm_rank(comm, &rank));
  return rank;
}

// Datatype and operation of a reduction. A custom MPI_Op is created per call, which is cheap beside a collective.
class Reduction {
 public:
  Reduction(DataType type, ReduceOp op, int rank)
      : data_type_(type),
        averages_(op == ReduceOp::avg),
        factor_(op == ReduceOp::mulsum ? mulsum_factor(rank) : 1),
        type_(base_type(type, op == ReduceOp::sum || op == ReduceOp::prod || op == ReduceOp::mulsum)),
        op_(built_in(op)),
        own_(needs_custom_op(type, op)) {
    if (own_) check(MPI_Op_create(own_function(type, op), /*commute=*/1, &op_));
  }
  ~Reduction() {
    if (own_) MPI_Op_free(&op_);
  }
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  MPI_Datatype type() const { return type_; }
  MPI_Op op() const { return op_; }
  // MPI has no sum with factors: the input is multiplied before it, where it lies in place, else in a copy, which is
  // valid as long as this object.
  const void* prepare(const void* input, std::uint64_t elements) {
    if (factor_ == 1) return input;
    copy_ = std::make_unique_for_overwrite<std::byte[]>(elements * size_of(data_type_));
    with_type(data_type_, [&]<class T>() { multiply<T>(input, copy_.get(), elements, factor_); });
    return copy_.get();
  }
  void prepare_in_place(void* data, std::uint64_t elements) const {
    if (factor_ != 1) with_type(data_type_, [&]<class T>() { multiply<T>(data, data, elements, factor_); });
  }
  // Divides sums by the number of ranks for ReduceOp::avg.
  void finish(void* output, std::uint64_t elements, int ranks) const {
    if (averages_) with_type(data_type_, [&]<class T>() { divide<T>(output, elements, ranks); });
  }

 private:
  DataType data_type_;
  bool averages_;
  int factor_;
  MPI_Datatype type_;
  MPI_Op op_;
  bool own_;
  std::unique_ptr<std::byte[]> copy_;
};

// Reduces in pieces, without finish(). A null input means in place at the root.
void reduce_pieces(const void* input, void* output, std::uint64_t elements, DataType type, const Reduction& reduction,
                   int root, MPI_Comm comm) {
  each_piece(elements, [&](std::uint64_t first, int count) {
    check(MPI_Reduce(input ? at(input, first, type) : MPI_IN_PLACE, output ? at(output, first, type) : nullptr, count,
                     reduction.type(), reduction.op(), root, comm));
  });
}

}  // namespace

Count::Count(std::uint64_t elements, DataType type) {
  constexpr std::uint64_t piece = largest_piece;
  const MPI_Datatype base = base_type(type, false);
  if (elements <= piece) {
    count_ = static_cast<int>(elements);
    type_ = base;
    return;
  }
  // One element of a derived type: the whole pieces, then the remainder.
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
  Reduction reduction(type, op, rank_in(comm));
  if (input)
    input = reduction.prepare(input, elements);
  else
    reduction.prepare_in_place(output, elements);
  each_piece(elements, [&](std::uint64_t first, int count) {
    check(MPI_Allreduce(input ? at(input, first, type) : MPI_IN_PLACE, at(output, first, type), count, reduction.type(),
                        reduction.op(), comm));
  });
  reduction.finish(output, elements, size_of_group(comm));
}

void reduce(const void* input, void* output, std::uint64_t elements, DataType type, ReduceOp op, int root,
            MPI_Comm comm) {
  Reduction reduction(type, op, rank_in(comm));
  const bool at_root = rank_in(comm) == root, in_place = at_root && input == output;
  if (in_place)
    reduction.prepare_in_place(output, elements);
  else
    input = reduction.prepare(input, elements);
  reduce_pieces(in_place ? nullptr : input, at_root ? output : nullptr, elements, type, reduction, root, comm);
  if (at_root) reduction.finish(output, elements, size_of_group(comm));
}

void reduce_scatter(void* input, void* output, std::uint64_t share, DataType type, ReduceOp op, MPI_Comm comm) {
  const int ranks = size_of_group(comm), rank = rank_in(comm);
  Reduction reduction(type, op, rank);
  const bool in_place = output == at(input, share * static_cast<std::uint64_t>(rank), type);
  const std::uint64_t elements = share * static_cast<std::uint64_t>(ranks);
  if (in_place) reduction.prepare_in_place(input, elements);
  const void* const prepared = in_place ? input : reduction.prepare(input, elements);
  // The total count overflows an int in MPI libraries, and shares cannot be split: each share is reduced to its rank.
  if (share > largest_piece / static_cast<std::uint64_t>(ranks)) {
    for (int root = 0; root < ranks; ++root) {
      const std::byte* const part = at(prepared, share * static_cast<std::uint64_t>(root), type);
      reduce_pieces(in_place && root == rank ? nullptr : part, root == rank ? output : nullptr, share, type, reduction,
                    root, comm);
    }
  } else if (in_place) {
    // In place, MPI leaves the share at the start of the buffer.
    check(
        MPI_Reduce_scatter_block(MPI_IN_PLACE, input, static_cast<int>(share), reduction.type(), reduction.op(), comm));
    std::memmove(output, input, share * size_of(type));
  } else {
    check(MPI_Reduce_scatter_block(prepared, output, static_cast<int>(share), reduction.type(), reduction.op(), comm));
  }
  reduction.finish(output, share, ranks);
}

}  // namespace p5::mpi
