// What the operating system has given this process, for the costs of communicators.
#pragma once

#include "bench/model/backend.hpp"

namespace p5 {

// host_memory_bytes (resident), file_descriptors, connections (descriptors of sockets); from /proc/self, without what
// cannot be read there.
CommunicatorCosts footprint();

// What is in `after` beyond `before`, of names in both; 0 where it is less.
CommunicatorCosts grown(const CommunicatorCosts& before, const CommunicatorCosts& after);

}  // namespace p5
