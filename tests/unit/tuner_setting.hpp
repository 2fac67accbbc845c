// Settings and times in the form that tests use.
#pragma once

#include <string_view>

#include "tuner/table.hpp"

namespace p5::tuner {

inline Setting setting(std::string_view text) { return *parse_setting(text); }

// Factors alternately a little above and below 1, so that medians are exact.
inline double wobble(int i) { return 1 + (i % 2 == 0 ? 1 : -1) * 0.001 * (1 + i % 5); }

}  // namespace p5::tuner
