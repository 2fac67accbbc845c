// What tests put into a run to see it fail.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "bench/base/units.hpp"
#include "bench/model/backend.hpp"

namespace p5 {

struct FaultHooks {
  // Called with the backend that the options chose, on each rank; what it returns is measured.
  std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>, int rank)> wrap_backend = {};
  // Called on each rank when it begins with a phase.
  std::function<void(const std::string& phase, int rank)> enter_phase = {};
  std::optional<Seconds> longest_wait = {};  // for other ranks, outside of cases
};

}  // namespace p5
