// PCI as /sys shows it: where devices sit, how fast their links are, and what stands above them.
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "topo/discover.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

namespace fs = std::filesystem;

namespace {

// "0000:53:00.0"
bool is_address(const std::string& name) {
  return name.size() >= 12 && name[name.size() - 2] == '.' && std::count(name.begin(), name.end(), ':') == 2;
}

// "32.0 GT/s PCIe"; "Unknown" is unknown.
std::optional<int> generation_of(const fs::path& file) {
  const auto rate = read_number(file);
  return rate ? pcie_generation(*rate) : std::nullopt;
}

// The kernel prints 0 and 255 where the device does not report a width.
std::optional<int> width_of(const fs::path& file) {
  const auto width = read_number(file);
  if (!width || *width < 1 || *width > 32) return std::nullopt;
  return static_cast<int>(*width);
}

unsigned little_endian(const std::string& bytes, std::size_t at, std::size_t count) {
  unsigned value = 0;
  for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// True if a bridge's access control (ACS) redirects requests between its neighbours upstream (PCI Express Base
// Specification, extended capability 0x000d). Only root may read that part of the configuration space.
std::optional<bool> acs_redirects(const fs::path& device) {
  std::error_code problem;
  if (!fs::is_regular_file(device / "config", problem)) return std::nullopt;
  std::ostringstream bytes;
  bytes << std::ifstream(device / "config", std::ios::binary).rdbuf();  // unreadable bytes are missing
  const std::string config = bytes.str();
  constexpr std::size_t extended = 0x100, most_capabilities = 64;
  if (config.size() <= extended) return std::nullopt;
  std::size_t at = extended;
  for (std::size_t i = 0; i < most_capabilities && at >= extended && at + 8 <= config.size(); ++i) {
    const unsigned header = little_endian(config, at, 4);
    constexpr unsigned access_control = 0x000d, request_redirect = 0x4, completion_redirect = 0x8;
    if ((header & 0xffff) == access_control)
      return (little_endian(config, at + 6, 2) & (request_redirect | completion_redirect)) != 0;
    at = header >> 20;
  }
  return false;
}

}  // namespace

std::optional<int> pcie_generation(double rate) {
  constexpr std::array rates{2.5, 5.0, 8.0, 16.0, 32.0, 64.0};
  const auto at = std::ranges::find_if(rates, [&](double each) { return std::abs(rate - each) < 0.05 * each; });
  return at == rates.end() ? std::nullopt : std::optional(1 + static_cast<int>(at - rates.begin()));
}

PciPosition pci_position_of(const fs::path& device) {
  const fs::path real = target_of(device);
  PciPosition place;
  for (const fs::path& part : real)
    if (const std::string name = part; name.starts_with("pci0") || is_address(name)) place.path.push_back(name);
  if (place.path.empty() || !is_address(place.path.back()) || real.filename() != place.path.back()) return {};
  place.address = place.path.back();
  place.path.pop_back();
  return place;
}

PcieLink pcie_link_of(const fs::path& device) {
  return {.generation = generation_of(device / "current_link_speed"),
          .width = width_of(device / "current_link_width"),
          .generation_max = generation_of(device / "max_link_speed"),
          .width_max = width_of(device / "max_link_width")};
}

int numa_node_of(const fs::path& device) { return static_cast<int>(read_number(device / "numa_node").value_or(-1)); }

PciDevices discover_pci(const fs::path& root) {
  const fs::path folder = root / "sys/bus/pci/devices";
  PciDevices found;
  if (!present(folder)) return found;
  found.nvswitches = found.efa_without_driver = 0;
  for (const std::string& name : names_in(folder)) {
    const fs::path device = folder / name;
    const std::string vendor = read_text(device / "vendor").value_or("");
    if (vendor == "0x1d0f" && read_text(device / "device").value_or("").starts_with("0xefa"))
      *found.efa_without_driver += target_name(device / "driver") == "efa" ? 0 : 1;
    if (vendor != "0x10de") continue;
    const std::string kind = read_text(device / "class").value_or("");
    if (kind.starts_with("0x0680")) ++*found.nvswitches;
    if (!kind.starts_with("0x0300") && !kind.starts_with("0x0302")) continue;
    Gpu gpu;
    gpu.pci = pci_position_of(device);
    gpu.pci.address = name;
    gpu.pcie = pcie_link_of(device);
    gpu.numa_node = numa_node_of(device);
    found.gpus.push_back(std::move(gpu));
  }
  return found;
}

std::vector<PciBridge> discover_bridges(const fs::path& root, const Host& host) {
  std::vector<PciBridge> bridges;
  std::set<std::string> seen;
  const auto add_above = [&](const PciPosition& place) {
    for (const std::string& name : place.path) {
      if (!is_address(name) || !seen.insert(name).second) continue;
      const fs::path device = root / "sys/bus/pci/devices" / name;
      bridges.push_back({name, pcie_link_of(device), acs_redirects(device)});
    }
  };
  for (const Gpu& gpu : host.gpu_devices) add_above(gpu.pci);
  for (const Nic& nic : host.nics) add_above(nic.pci);
  return bridges;
}

}  // namespace p5::topo
