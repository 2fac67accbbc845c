// Ways of calling NCCL that are no setting: the application has to do something for them. What they are worth is
// measured beside the settings, and the report says how a job gets them.
#pragma once

#include <span>
#include <string_view>

namespace p5::tuner {

struct CallMode {
  std::string_view name;
  // As a case has them.
  bool cuda_graph = false;
  std::string_view registration = "none";
  int since = 0;         // NCCL, as ncclGetVersion counts
  std::string_view how;  // a job gets it, PyTorch's first
};
std::span<const CallMode> call_modes();

}  // namespace p5::tuner
