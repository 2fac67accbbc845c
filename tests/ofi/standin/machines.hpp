// The EFA devices of EC2 instance types, for the stand-in provider. Names and addresses for p4d, p5 and p5en were seen
// on instances; those for p6 are invented.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace standin {

struct Device {
  std::string name;  // the kernel's name: "rdmap79s0"
  int bus = 0, slot = 0;
};

struct Machine {
  std::string_view type;
  std::uint32_t part_id = 0;    // PCI device id
  double nic_rate = 0;          // bytes/s, one direction
  double host_memory_rate = 0;  // bytes/s of host memory for all NICs together; 0: unlimited
  bool reads = true;            // supports RDMA read of the peer's memory
  std::vector<Device> devices{};
  int gpus = 8;

  bool writes() const { return part_id != 0xefa0; }  // supports RDMA write to the peer's memory
};

// Throws std::invalid_argument.
Machine machine_of(std::string_view type);

}  // namespace standin
