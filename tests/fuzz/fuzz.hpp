// Each target has one function that is given an input. It refuses an input only with an error of ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bench/base/error.hpp"

namespace p5::fuzz {

// Runs `action` on the input, which may be refused as a user's mistake; every other exception ends the target.
template <class Action>
int on(const std::uint8_t* data, std::size_t size, const Action& action) {
  try {
    action(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const UsageError&) {
  }
  return 0;
}

}  // namespace p5::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
