// How fast each part of the machine can go, one direction, with the sentence that derives it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/units.hpp"
#include "topo/platform.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

enum class Level { wire, achievable, published };
std::string_view name_of(Level level);

struct Limit {
  std::string name;  // what it limits: one of the names below
  Level level = Level::wire;
  GBps rate;
  std::string binding;  // the part, as a verdict names it: "nvlink", "nic", "host memory"
  std::string because;  // the sentence that derives the rate
};

// Names of limits.
inline constexpr std::string_view gpu_link = "gpu.link";            // one GPU into the node's switch
inline constexpr std::string_view gpu_nics = "gpu.nics";            // the NICs that belong to one GPU
inline constexpr std::string_view node_nics = "node.nics";          // all NICs of one node
inline constexpr std::string_view host_copy_one = "host.copy.one";  // one core copying, alone on its host
inline constexpr std::string_view host_copy_all = "host.copy.all";  // all ranks of a host copying at once, their sum

using Limits = std::vector<Limit>;
const Limit* find(const Limits& limits, std::string_view name, Level level);

// wire and achievable of gpu.link, gpu.nics, node.nics.
Limits limits_of(const Platform& platform);

// gpu.link of the weakest GPU, from the NVLinks that NVML says are active; absent when a host's are not known.
Limits link_limits(const Topology& topology);

// node.nics (wire) of the weakest host, from the rates that its kernel states for physical NICs that are up: its
// InfiniBand and EFA devices, or its Ethernet ones where it has no others. Absent when a host leaves the rate of one of
// them open, and when two hosts are really one (same kernel), whose traffic need not pass a NIC.
Limits nic_limits(const Topology& topology);

// Bytes copied per second by one thread between two buffers of `size`, sustained over about `duration`. Sustained and
// not the best pass, because the rates of several ranks that copy at once are added up.
GBps measure_copy(Bytes size, Seconds duration);

// host.copy.one and host.copy.all, wire and achievable, from measured copies: the worst host's.
struct HostCopy {
  GBps one, all;
  int ranks = 1;  // on that host, copying at once for `all`
};
Limits copy_limits(const std::vector<HostCopy>& per_host);

nlohmann::json to_json(const Limits& limits);
Limits limits_from_json(const nlohmann::json& j);

}  // namespace p5::topo
