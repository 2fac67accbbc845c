// NCCL's RAS service (since 2.24): what NCCL's processes know of each other. One of them on each host answers on a TCP
// socket, NCCL_RAS_ADDR; https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html
#pragma once

#include <string>

#include "bench/base/units.hpp"

namespace p5 {

// What NCCL's processes that p5bench starts listen at, unless the operator chose otherwise: not NCCL's own address,
// where the processes of another job on this host may answer.
inline constexpr const char* ras_variable = "NCCL_RAS_ADDR";
inline constexpr const char* ras_address = "localhost:28128";

// All that the service at HOST:PORT tells within the limit, as it words it; "" where nobody answers. Printable ASCII.
std::string ask_ras(const std::string& address, Seconds limit);

}  // namespace p5
