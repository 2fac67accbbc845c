#include "tests/ofi/standin/machines.hpp"

#include <algorithm>
#include <initializer_list>
#include <stdexcept>

namespace standin {

namespace {

constexpr double GB = 1e9;

// Devices on consecutive buses from each of `firsts` on.
std::vector<Device> on_buses(std::initializer_list<int> firsts, int each) {
  std::vector<Device> devices;
  for (const int first : firsts)
    for (int bus = first; bus < first + each; ++bus) devices.push_back({"rdmap" + std::to_string(bus) + "s0", bus, 0});
  return devices;
}

std::vector<Device> of_p4d() {
  std::vector<Device> devices;
  for (const int bus : {0x10, 0x20, 0x90, 0xa0}) devices.push_back({"rdmap" + std::to_string(bus) + "s27", bus, 0x1b});
  return devices;
}

}  // namespace

Machine machine_of(std::string_view type) {
  const std::vector<Machine> known{
      {"c5n.18xlarge", 0xefa0, 12.5 * GB, 0, false, on_buses({0}, 1)},
      {"p4d.24xlarge", 0xefa0, 12.5 * GB, 0, true, of_p4d()},
      {"p5.48xlarge", 0xefa1, 12.5 * GB, 63 * GB, true, on_buses({0x4f, 0x60, 0x71, 0x82, 0x93, 0xa4, 0xb5, 0xc6}, 4)},
      {"p5en.48xlarge", 0xefa2, 25 * GB, 212 * GB, true, on_buses({0x55, 0x6e, 0x87, 0xa0}, 4)},
      {"p6-b200.48xlarge", 0xefa3, 50 * GB, 226 * GB, true,
       on_buses({0x4f, 0x60, 0x71, 0x82, 0x93, 0xa4, 0xb5, 0xc6}, 1)},
      {"p6-b300.48xlarge", 0xefa3, 50 * GB, 270 * GB, true,
       on_buses({0x4f, 0x60, 0x71, 0x82, 0x93, 0xa4, 0xb5, 0xc6}, 2)},
  };
  const auto at = std::ranges::find(known, type, &Machine::type);
  if (at == known.end()) throw std::invalid_argument("the stand-in knows no machine " + std::string(type));
  return *at;
}

}  // namespace standin
