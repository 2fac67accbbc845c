// Rate limits of each part of the machine, in one direction, with the sentence that derives each.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/route.hpp"
#include "bench/base/units.hpp"
#include "topo/platform.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

enum class Level { wire, achievable, published };
std::string_view name_of(Level level);

struct Limit {
  std::string name;  // the limited part: one of the names below
  Level level = Level::wire;
  GBps rate;
  std::string binding;  // the part, as a verdict names it: "nvlink", "nic", "host memory"
  std::string because;  // the sentence that derives the rate
};

// Names of limits.
inline constexpr std::string_view gpu_link = "gpu.link";  // one GPU into the node's switch
inline constexpr std::string_view gpu_mesh = "gpu.mesh";  // one GPU to its neighbours, without a switch
inline constexpr std::string_view gpu_pair = "gpu.pair";  // one GPU to another, where each is joined to each other
inline constexpr std::string_view gpu_nvls = "gpu.nvls";  // bus bandwidth of an all-reduce within the switch
inline constexpr std::string_view one_nic = "nic.one";    // a single NIC
inline constexpr std::string_view gpu_nics = "gpu.nics";  // the share of one GPU in its node's NICs
inline constexpr std::string_view gpu_nics_alone = "gpu.nics.alone";  // the same while no other GPU uses them
inline constexpr std::string_view node_nics = "node.nics";            // all NICs of one node
inline constexpr std::string_view host_copy_one = "host.copy.one";    // one core copying, alone on its host
inline constexpr std::string_view host_copy_all = "host.copy.all";    // all ranks of a host copying at once, their sum

using Limits = std::vector<Limit>;
const Limit* find(const Limits& limits, std::string_view name, Level level);

// Wire and achievable limits of the known parts. Achievable is absent where no figures were published.
Limits limits_of(const Platform& platform);

// Best published figures for this platform on that many nodes: a limit for each collective and algorithm, named like
// "all_reduce, 2 nodes, nvls".
Limits published_limits(const Platform& platform, int nodes);

// An operation, as far as it matters for what binds it.
struct Operation {
  Route route = Route::ring;
  int ranks = 2, nodes = 1;                // one group; for pairs: one pair, one direction
  int domains = nodes;                     // NVLink domains that it spans
  int nodes_per_domain = nodes / domains;  // of the smallest domain, which has the fewest NICs and most to send
  // Ranks of the domain whose limit is wanted, where domains have different numbers of them: those of the one with the
  // fewest bind a ring, which has the fewest NICs there. Null: as many on each node.
  std::optional<int> per_domain = {};
  bool nvls = false;   // reduced within the switch of each node
  bool alone = false;  // no other group uses the NICs of its nodes at the same time
  // Most ranks of a node that use its NICs at the same time, in all groups; with `per_domain` those of a node of that
  // domain. Null: all GPUs of a node do, and of a ring of messages one.
  std::optional<int> at_once = {};
};

// Ranks in the domain whose limit is wanted.
int ranks_per_domain(const Operation& operation);

// Limit on the bus bandwidth (nccl-tests' definition) of an operation, derived from the limits of the parts at one
// level. Null if the limit of a part is unknown.
std::optional<Limit> limit_of(const Limits& parts, const Operation& operation, Level level);

// Limit that the NICs of one rank set on an exchange of blocks between several nodes: bus bandwidth also counts the
// blocks for ranks on the same node, which pass no NIC.
Limit exchange_limit(const Limit& nics, const Operation& operation);

// All-reduce between so few NVLink domains needs less of the NICs than a ring: each domain sends the sum of its GPUs
// only once or twice. From four domains on the busiest one of a tree sends as much as in a ring.
inline constexpr int few_domains = 3;

// gpu.link of the weakest GPU, from the NVLinks that NVML reports as active; absent when a host's are unknown. Where
// NVLinks lead from GPU to GPU: gpu.pair of the GPUs with the fewest between them; absent where two have none.
Limits link_limits(const Topology& topology);

// node.nics (wire) of the weakest host, from the rates that its kernel states for physical NICs that are up: those of
// its fabric, or its Ethernet ones where it has none. A host with a port that is down there alone does not count.
// Absent when a host leaves the rate of one of them open, or has InfiniBand ports up beside faster Ethernet ports with
// RDMA, and when two hosts are really one (same kernel), whose traffic need not pass a NIC.
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

// A rate for a sentence: enough digits for the arithmetic to be followed, no noise.
std::string shown(double rate);

nlohmann::json to_json(const Limits& limits);
Limits limits_from_json(const nlohmann::json& j);

// ---- What a traffic matrix asks of each part of the machine, and the limit that follows from it.

// A part, or several that share their load freely, in one direction.
struct TrafficPart {
  std::string name;     // "NICs rdma0, rdma1 of n0"
  std::string binding;  // as Limit::binding
  bool receives = false;
  std::vector<int> members;  // whose load it is: places in their groups, which are rows or columns of the matrix
  double load = 0;           // bytes through it, for each byte that the busiest rank sends or receives
  GBps rate;
  std::string because;                               // where the rate comes from
  double time() const { return load / rate.count; }  // seconds for a message of 1 GB
};

struct TrafficLoad {
  std::vector<TrafficPart> parts;  // the one that decides first
  // What the busiest rank sends, or receives, over the mean of all ranks, without blocks for itself.
  double sent_imbalance = 1, received_imbalance = 1;
  // Share of the limit that is lost because a receiving part is busier than any sending one.
  double incast_loss = 0;
};

// Load when all groups perform the matrix at the same time. A rank's blocks for ranks of other NVLink domains may
// take any of its GPU's rails, in any proportion; switches carry what their ends can send. Null where
// the rate of a part that is used is unknown.
std::optional<TrafficLoad> load_of(const TrafficMatrix& matrix, std::span<const std::vector<int>> groups,
                                   const Topology& topology, const Limits& limits, Level level);

// Limit on the bus bandwidth; `bus_factor` is that of the collective for the group.
Limit limit_of(const TrafficLoad& load, Level level, double bus_factor);

}  // namespace p5::topo
