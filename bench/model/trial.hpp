// One short sample of one setting, on request: see bench/measure/trials.hpp.
#pragma once

#include <string>

#include "bench/base/units.hpp"

namespace p5 {

struct Trial {
  enum class Outcome { measured, failed, wrong_data, skipped };  // skipped: something before it in the block failed
  Outcome outcome = Outcome::measured;
  Seconds time{};            // per operation, the slowest rank's
  std::string because = {};  // unless measured
};

}  // namespace p5
