// How MPI is asked for one operation of each collective, and for the messages of pairs.
#pragma once

#include <mpi.h>

#include "bench/backends/host_buffers.hpp"
#include "bench/model/case.hpp"

namespace p5::mpi {

// What the operations of a case work on in one round. Pairs use the job's communicator, the others their group's.
struct OperationContext {
  const Case& of;
  const HostBuffers& buffers;
  const RankInGroup& place;
  MPI_Comm group = MPI_COMM_NULL;
};

// `count` operations on consecutive slots from `first`, wrapping round, finished on this rank on return.
using Perform = void (*)(const OperationContext& ground, int first, int count);

// Throws CaseError when there is none.
Perform perform_for(const Case& c);

}  // namespace p5::mpi
