// What is known of an instance type beforehand and cannot be discovered, from platforms/*.json. The files are compiled in.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/units.hpp"

namespace p5::topo {

struct Platform {
  std::string name;     // "p5.48xlarge"
  std::string summary;  // "8 x H100, NVLink 4, 32 x 100 Gb/s EFA"
  int gpus = 0;
  std::string gpu;                  // "H100"
  Bytes gpu_memory;                 // per GPU
  int links_per_gpu = 0;            // NVLinks
  GBps link_rate;                   // one link, one direction, as NCCL and NVIDIA count it (payload)
  GBps link_rate_raw;               // one link, one direction, signalling as NVML prints it
  GBps link_rate_achievable;        // one link, one direction, in NCCL's own model of the protocol
  int nics = 0;                     // per node
  GBps nic_rate;                    // one NIC, one direction
  double nic_efficiency = 0;        // share of the wire rate that NCCL's protocols reach over it
  std::optional<double> dollars_per_hour;  // on demand, us-east-1
  std::string price_date;           // ISO date of that price
  // Model constants for the simulator only.
  Seconds link_latency, nic_latency;
  std::vector<std::string> sources;
};

// One file of platforms/. Throws UsageError naming the file and the field that is missing, unknown or out of bounds.
Platform parse_platform(std::string_view file, std::string_view text);

const std::vector<Platform>& platforms();
std::vector<std::string> platform_names();
// Throws UsageError with the nearest name.
const Platform& find_platform(std::string_view name);
// The one whose name is this instance type, or null.
const Platform* platform_of_instance_type(std::string_view instance_type);

}  // namespace p5::topo
