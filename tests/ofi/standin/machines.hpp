// The EFA devices of EC2's instance types, for the stand-in of libfabric's provider. Names and places of p4d, p5 and
// p5en are those that instances showed; those of p6 are made up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace standin {

struct Device {
  std::string name;  // as the kernel calls it: "rdmap79s0"
  int bus = 0, slot = 0;
};

struct Machine {
  std::string_view type;
  std::uint32_t part_id = 0;    // of the PCI device
  double nic_rate = 0;          // bytes a second, one direction
  double host_memory_rate = 0;  // bytes a second that all NICs together move of host memory; 0: no bound known
  bool reads = true;            // the device reads the peer's memory
  std::vector<Device> devices{};
  int gpus = 8;

  bool writes() const { return part_id != 0xefa0; }  // the device writes to the peer's memory
};

// Throws std::invalid_argument.
Machine machine_of(std::string_view type);

}  // namespace standin
