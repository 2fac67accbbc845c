// The reason for which the import of a text of nccl-tests is refused.
#pragma once

#include <string>

#include "bench/base/error.hpp"
#include "reports/nccl_tests.hpp"

namespace p5::reports::nccl_tests {

inline std::string problem_of(const std::string& text, const std::string& collective = "", const JobSize& job = {}) {
  try {
    import(text, collective, "x", job);
  } catch (const UsageError& problem) {
    return problem.what();
  }
  return "imported";
}

}  // namespace p5::reports::nccl_tests
