// Rates of NICs to and from host memory where they are below the NICs' line rate: the table is host_memory.json.
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

// Null: no published figure shows that host memory limits this platform.
const HostMemoryRate* host_memory_of(const Platform& platform);

// Number of a node's NICs that can transfer host memory at once while each still reaches its own rate: their sum stays
// 20 % below the rate of host memory. At least 1; nullopt: unknown.
std::optional<int> nics_fed_by_host_memory(const Platform& platform);

}  // namespace p5::topo
