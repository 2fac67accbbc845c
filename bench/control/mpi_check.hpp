// Turns an MPI error code into an exception. For the MPI ControlPlane and the mpi backend only.
#pragma once

#include <source_location>

namespace p5::mpi {

// Throws CaseError with MPI's words and the caller's place.
void check(int result, std::source_location where = std::source_location::current());

}  // namespace p5::mpi
