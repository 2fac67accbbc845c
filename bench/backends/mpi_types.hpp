// What MPI 3.1 lacks: counts above 2^31 - 1, 16-bit floats, averages.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "bench/data_type.hpp"

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

}  // namespace p5::mpi
