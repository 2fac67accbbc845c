// Meanings of NVML's clocks event reasons (NVIDIA, NVML API Reference Guide, nvmlClocksEventReasons).
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "topo/devices.hpp"

namespace p5::topo {

namespace {

struct Reason {
  std::uint64_t bit;
  std::string_view name;
  bool holds_back;
};
// A power cap is the ordinary state of a GPU at full load: what it costs shows in the clock.
constexpr std::array reasons{
    Reason{0x1, "idle", false},
    Reason{0x2, "application clocks", true},
    Reason{0x4, "power cap", false},
    Reason{0x8, "hardware slowdown", true},
    Reason{0x10, "sync boost", true},
    Reason{0x20, "software thermal", true},
    Reason{0x40, "hardware thermal", true},
    Reason{0x80, "power brake", true},
    Reason{0x100, "display clock", false},
};

}  // namespace

std::vector<std::string> throttle_reasons(std::uint64_t mask) {
  std::vector<std::string> names;
  for (const Reason& reason : reasons) {
    if (mask & reason.bit) names.emplace_back(reason.name);
    mask &= ~reason.bit;
  }
  if (mask) names.push_back(fmt::format("0x{:x}", mask));
  return names;
}

bool held_back(std::uint64_t mask) {
  for (const Reason& reason : reasons)
    if (reason.holds_back && (mask & reason.bit)) return true;
  return false;
}

}  // namespace p5::topo
