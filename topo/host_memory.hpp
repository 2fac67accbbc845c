// What NICs reach from and to host memory where that is less than their wires carry: the table is host_memory.json.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/base/units.hpp"
#include "topo/platform.hpp"

namespace p5::topo {

struct HostMemoryRate {
  std::vector<std::string> platforms;
  double read = 0;  // GB/s of all NICs of a node together, one direction, by the device out of the peer's memory
  std::string source;
};

// Null: nobody has shown that it binds.
const HostMemoryRate* host_memory_of(const Platform& platform);

// How many NICs of a node may move host memory at the same time so that each still shows its own rate: what they carry
// together is a fifth below what host memory feeds. At least 1; nullopt: not known.
std::optional<int> nics_fed_by_host_memory(const Platform& platform);

}  // namespace p5::topo
