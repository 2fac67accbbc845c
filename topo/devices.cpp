// Facts that GPUs and NICs report: clocks event reasons, direct NVLinks and counters.
#include "topo/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "topo/discover.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

// ---- Meanings of NVML's clocks event reasons (NVIDIA, NVML API Reference Guide, nvmlClocksEventReasons).

namespace {

struct Reason {
  std::uint64_t bit;
  std::string_view name;
  bool holds_back;
};
// A power cap is the ordinary state of a GPU at full load: what it costs shows in the clock. Application clocks are the
// operator's: AWS's own guide sets them to the maximum.
constexpr std::array reasons{
    Reason{0x1, "idle", false},
    Reason{0x2, "application clocks", false},
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

int links_between(const Gpu& one, const Gpu& other) {
  return static_cast<int>(std::ranges::count_if(one.nvlinks, [&](const NvLink& link) {
    return link.active != false && !link.remote_pci.empty() && link.remote_pci == other.pci.address;
  }));
}

// ---- The counters of RDMA devices.

namespace fs = std::filesystem;

namespace {

// Read as integers: as doubles, large counts would lose their last digits.
std::optional<std::uint64_t> count_in(const fs::path& file) {
  const auto text = read_text(file);
  if (!text || text->empty() || text->find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  try {
    return std::stoull(*text);
  } catch (const std::out_of_range&) {
    return std::nullopt;
  }
}

}  // namespace

std::map<std::string, std::uint64_t> nic_counters(const fs::path& root, const std::string& device) {
  std::map<std::string, std::uint64_t> counters;
  const fs::path port = root / "sys/class/infiniband" / device / "ports/1";
  for (const char* folder : {"counters", "hw_counters"})
    for (const std::string& name : names_in(port / folder))
      if (const auto count = name == "lifespan" ? std::nullopt : count_in(port / folder / name))
        counters[name] = *count;
  return counters;
}

}  // namespace p5::topo
