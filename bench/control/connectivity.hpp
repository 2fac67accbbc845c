// The first words between ranks: MPI_Init returns also where MPI's TCP went the wrong way, and what comes after it
// would then wait for ever. For the MPI ControlPlane only.
#pragma once

#include <string>
#include <vector>

#include "bench/base/units.hpp"

namespace p5 {

// Ranks of one host, as a message names them: "h2 (ranks 2, 3)"; without a host only the ranks are known.
struct UnreachableRank {
  int rank = 0;
  std::string host;
};
std::string describe(const std::vector<UnreachableRank>& unreachable);

// After MPI_Init and before any other exchange, on all ranks: each says its host's name to rank 0, one rank of each
// host sends enough to go over all connections that MPI has between two processes, and all wait for each other. Throws
// UnreachableError when that takes longer than `limit`: at rank 0 with the hosts that were not heard of and `remedy`;
// at the others, a while later, without words.
void meet(Seconds limit, const std::string& remedy);

}  // namespace p5
