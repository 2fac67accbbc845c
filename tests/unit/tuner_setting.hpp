// Settings and times as tests write them.
#pragma once

#include <string_view>

#include "tuner/table.hpp"

namespace p5::tuner {

inline Setting setting(std::string_view text) { return *parse_setting(text); }

// Of times: alternately a little more and a little less, so that medians are what they are said to be.
inline double wobble(int i) { return 1 + (i % 2 == 0 ? 1 : -1) * 0.001 * (1 + i % 5); }

}  // namespace p5::tuner
