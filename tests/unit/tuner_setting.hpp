// Settings as tests write them.
#pragma once

#include <string_view>

#include "tuner/table.hpp"

namespace p5::tuner {

inline Setting setting(std::string_view text) { return *parse_setting(text); }

}  // namespace p5::tuner
