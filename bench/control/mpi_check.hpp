// Turns an MPI error code into an exception, for the MPI ControlPlane and the mpi backend.
#pragma once

#include <source_location>
#include <string>
#include <vector>

#include "bench/base/units.hpp"

namespace p5::mpi {

// Throws CaseError with MPI's error text and the caller's location.
void check(int result, std::source_location where = std::source_location::current());

}  // namespace p5::mpi

namespace p5 {

// An unreachable rank; `host` is "" where unknown.
struct UnreachableRank {
  int rank = 0;
  std::string host;
};
std::string describe(const std::vector<UnreachableRank>& unreachable);

// Called after MPI_Init and before any other exchange, on all ranks: each sends its host name to rank 0, one rank of
// each host sends enough to use all connections that MPI has between two processes, and all pass a barrier. Throws
// UnreachableError when that takes longer than `limit`: at rank 0 with the missing hosts and `remedy`; at the others, a
// while later, without a message.
void check_connectivity(Seconds limit, const std::string& remedy);

}  // namespace p5
