// What MPI 3.1 lacks: counts above 2^31 - 1, 16-bit floats, averages.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "bench/model/data_type.hpp"

namespace p5::mpi {

// Any number of elements as a count and a datatype that MPI's int can say.
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

// MPI_Allreduce of any length, type and operation. input null: in place.
void all_reduce(const void* input, void* output, std::uint64_t elements, DataType type, ReduceOp op, MPI_Comm comm);

// MPI_Reduce, likewise. The output is the root's alone; in place it is the input.
void reduce(const void* input, void* output, std::uint64_t elements, DataType type, ReduceOp op, int root,
            MPI_Comm comm);

// MPI_Reduce_scatter_block, likewise: `share` elements for each rank. In place, the output is the rank's own share of
// the input, as NCCL has it; the rest of the input may then change.
void reduce_scatter(void* input, void* output, std::uint64_t share, DataType type, ReduceOp op, MPI_Comm comm);

}  // namespace p5::mpi
