#pragma once

#include <string_view>

namespace p5 {

// Of p5bench: "0.2.0".
std::string_view version();

}  // namespace p5
