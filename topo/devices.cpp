// Facts that GPUs and NICs report: clocks event reasons, the state of their fabric, direct NVLinks, counters, and GPUs
// that do not start.
#include "topo/devices.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
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

// ---- NVML's mask of the health of a GPU's fabric: fields of two bits each, 1: it is so, 3: it is so until a reset, 2:
// it is not, 0: not reported; then one of four bits, a number, of which 0 is not reported and 1 none; then, by newer
// drivers in place of its "no partition", two bits: 1: the GPU is in a partition, 2: it is in none, 0: not reported
// (open-gpu-kernel-modules, src/common/nvlink/interface/nvlink_inband_msg.h).

std::vector<std::string> fabric_troubles(unsigned mask) {
  constexpr std::array<const char*, 4> troubles{"degraded bandwidth", "route recovery in progress", "route unhealthy",
                                                "access timeout recovery"};
  constexpr std::array<const char*, 7> wrong{"wrong system GUID",    "wrong chassis serial number", no_partition,
                                             "insufficient NVLinks", "incompatible GPU firmware",   "invalid location",
                                             "invalid GPU state"};
  std::vector<std::string> found;
  for (const char* const trouble : troubles) {
    const unsigned state = mask & 3U;
    if (state % 2 == 1) found.push_back(fmt::format("{}{}", trouble, state == 3 ? ", reset required" : ""));
    mask >>= 2;
  }
  constexpr unsigned first_wrong = 2, in_no_partition = 2;
  if (const unsigned number = mask & 0xfU; number >= first_wrong)
    found.push_back(number - first_wrong < wrong.size() ? wrong.at(number - first_wrong)
                                                        : fmt::format("wrong configuration {}", number));
  if ((mask >> 4 & 3U) == in_no_partition && std::ranges::find(found, no_partition) == found.end())
    found.emplace_back(no_partition);
  return found;
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

// ---- GPUs that the driver has, whether NVML lists them or not.

std::vector<DriverGpu> gpus_of_driver(const fs::path& root) {
  const fs::path folder = root / "proc/driver/nvidia/gpus";
  std::vector<DriverGpu> gpus;
  for (const std::string& name : names_in(folder))
    if (const auto minor = value_of(folder / name / "information", "Device Minor:"); minor && !minor->empty())
      gpus.push_back({name, root / ("dev/nvidia" + *minor)});
  return gpus;
}

// With O_NONBLOCK the driver would return at once and start the GPU afterwards, so that no error would show.
std::string why_not_started(const fs::path& device_file) {
  const int descriptor = ::open(device_file.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0)
    return errno == EIO
               ? fmt::format("the driver cannot start it (opening {}: {})", device_file.string(), std::strerror(EIO))
               : "";
  ::close(descriptor);
  return "";
}

std::vector<Gpu> unlisted_gpus(const std::vector<Gpu>& listed, const std::vector<DriverGpu>& of_driver) {
  const auto address_of = [](const Gpu& gpu) { return gpu.pci.address; };
  std::vector<Gpu> found;
  if (std::ranges::find(listed, "", address_of) != listed.end()) return found;
  for (const DriverGpu& each : of_driver) {
    if (each.problem.empty() || std::ranges::find(listed, each.address, address_of) != listed.end()) continue;
    Gpu& gpu = found.emplace_back();
    gpu.pci.address = each.address;
    gpu.problem = each.problem;
  }
  return found;
}

}  // namespace p5::topo
