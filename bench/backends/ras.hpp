// NCCL's RAS service (since 2.24), the status of NCCL's processes. One process per host listens on a TCP socket,
// NCCL_RAS_ADDR; https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html
#pragma once

#include <string>

#include "bench/base/units.hpp"

namespace p5 {

// Address of the RAS service in p5bench's workers unless the user sets one. It differs from NCCL's default, where
// another job on this host may answer.
inline constexpr const char* ras_variable = "NCCL_RAS_ADDR";
inline constexpr const char* ras_address = "localhost:28128";

// Returns the service's answer within the limit, as printable ASCII; "" if there is none.
std::string query_ras(const std::string& address, Seconds limit);

}  // namespace p5
