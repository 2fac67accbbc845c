// Tokens of dispatch and combine in a run: the latency of decode and the bandwidth of prefill, with figures that others
// have published of the same machine beside them.
#pragma once

#include <string>

#include "reports/report.hpp"

namespace p5::reports {

// A line for each collective and type: "tokens, dispatch of 7168 bfloat16: decode (128 tokens) latency 61 us; prefill
// (4096 tokens) 330 GB/s in 0.9 ms"; "" without.
std::string token_lines(const Report& report);

}  // namespace p5::reports
