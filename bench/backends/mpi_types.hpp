// Features that MPI 3.1 lacks: counts above 2^31 - 1, 16-bit floats, averages.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "bench/model/data_type.hpp"

namespace p5::mpi {

// A count and a datatype for any number of elements; MPI's count is an int.
class Count {
 public:
  Count(std::uint64_t elements, DataType type);
  ~Count();
  Count(const Count&) = delete;
  Count& operator=(const Count&) = delete;
  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_ = 0;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  bool own_ = false;
};

// MPI_Allreduce of any length, type and operation. A null input means in place.
void all_reduce(const void* input, void* output, std::uint64_t elements, DataType type, ReduceOp op, MPI_Comm comm);

// MPI_Reduce likewise. Only the root has an output; in place it is the input.
void reduce(const void* input, void* output, std::uint64_t elements, DataType type, ReduceOp op, int root,
            MPI_Comm comm);

// MPI_Reduce_scatter_block likewise, with `share` elements per rank. In place, as in NCCL, the output is the rank's
// share of the input; the rest of the input may change.
void reduce_scatter(void* input, void* output, std::uint64_t share, DataType type, ReduceOp op, MPI_Comm comm);

}  // namespace p5::mpi
