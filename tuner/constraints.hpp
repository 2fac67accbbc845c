// What the operator's environment forbids the tuner to change. A variable that somebody set has a reason, known or not:
// it is never overridden, and no candidate contradicts it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bench/base/environment.hpp"
#include "tuner/table.hpp"

namespace p5::tuner {

struct Constraints {
  std::set<std::tuple<Function, Algorithm>> forbidden_algorithms;
  std::set<std::tuple<Function, Protocol>> forbidden_protocols;
  int least_channels = 0, most_channels = 0;  // 0: not limited
  std::set<std::string> taken;                // variables that the operator set
  // Values that could not be understood, each a sentence that names the variable. Then all candidates that the variable
  // could mean are forbidden: NCCL may refuse the value, or mean something that we do not know.
  std::vector<std::string> remarks;

  bool allows(Function function, const Setting& setting) const;
  bool allows_variable(const std::string& name) const { return !taken.contains(name); }
};

// From the operator's variables, before NCCL and its plugins added theirs: those that begin with NCCL_, FI_ or
// OFI_NCCL_ count, NCCL_DEBUG* does not.
Constraints constraints_of(const Environment& environment);

// Whether a variable of this name is the tuner's concern: NCCL_*, FI_*, OFI_NCCL_* without NCCL_DEBUG*.
bool concerns_tuning(std::string_view name);

// NCCL_ALGO and NCCL_PROTO: "ring,tree", "^nvls", and since NCCL 2.24 "allreduce:tree,ring;allgather:ring". True for
// those that the text leaves. Null when it is not understood. (NCCL src/graph/tuning.cc)
std::optional<std::set<std::tuple<Function, Algorithm>>> parse_algorithms(std::string_view text);
std::optional<std::set<std::tuple<Function, Protocol>>> parse_protocols(std::string_view text);

}  // namespace p5::tuner
