// Specifications of instance types that cannot be discovered, from platforms/*.json. The files are compiled in.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/units.hpp"

namespace p5::topo {

struct Host;
struct Topology;

// A published figure with its source.
struct Published {
  std::string collective, pattern;           // pattern: "" or of p2p "all_gpus" (all of a node at once), "one_nic"
  std::string algorithm;                     // "ring", "nvls", "nvls_tree"; "": not stated
  int nodes = 1, gpus = 8;                   // GPUs of each node
  std::optional<Bytes> bytes;                // null: not stated
  std::optional<GBps> busbw;                 // either this, as nccl-tests defines it,
  std::optional<Seconds> latency;            // or this
  std::optional<int> tokens;                 // of dispatch and combine, whose time is `latency`: tokens of each rank
  bool healthy = true;                       // false: measured with a hardware or software fault, see `note`
  std::string note, date, software, source;  // "": not stated; the source always is
};

// Sources that differ about something: what hangs on it stays unknown.
struct Conflict {
  std::string about;  // "nics", "nodes" or a collective
  std::string text;
};

struct Platform {
  std::string name;     // "p5.48xlarge"; boxes outside EC2: "hgx-h100"
  std::string summary;  // "8 x H100, NVLink 4, 32 x 100 Gb/s EFA"
  int gpus = 0;
  std::string gpu;                         // "H100"
  Bytes gpu_memory;                        // per GPU
  std::optional<int> gpu_pcie_generation;  // link to the host under load; null: unknown
  int links_per_gpu = 0;                   // NVLinks
  GBps link_rate;                          // one link, one direction, as NCCL and NVIDIA count it (payload)
  GBps link_rate_raw;                      // one link, one direction, signalling as NVML prints it
  GBps link_rate_achievable;               // one link, one direction, in NCCL's own model of the protocol
  bool nvswitch = false;                   // each GPU reaches each other with all its links
  int nodes_per_domain = 1;                // at most; nodes whose GPUs share the switches of an NVLink domain
  bool nvls = false;                       // the switch can reduce (NVLink SHARP)
  std::optional<double> nvls_efficiency;   // share of its wire limit that NCCL's NVLS all-reduce reached
  std::string baseboard;                   // platform whose figures within a node are this one's too, ""
  std::string network;                     // "efa", or "any": as found
  int nics = 0;                            // per node; 0: none, or not known
  int network_cards = 0;                   // of EC2; more than `nics` where some have no EFA
  GBps nic_rate;                           // one NIC, one direction
  std::optional<double> nic_efficiency;    // share of the wire rate that NCCL's protocols reached over it
  bool gpu_direct_rdma = false;            // NICs have to reach GPU memory
  std::optional<double> dollars_per_hour;  // on demand, us-east-1
  std::string price_date;                  // ISO date of that price, ""
  // Model constants for the simulator only. Its NICs are those above where they are known.
  Seconds link_latency, nic_latency;
  int simulated_nics = 0;
  GBps simulated_nic_rate;
  std::vector<std::vector<int>>
      simulated_links;  // NVLinks between each two GPUs where no switch joins them; empty: none
  std::vector<Conflict> conflicts;
  std::vector<Published> published;
  std::vector<std::string> sources;

  const Conflict* conflict_about(std::string_view what) const;
  // NVLink domains of that many nodes.
  int domains(int nodes) const { return (nodes + nodes_per_domain - 1) / nodes_per_domain; }
};

// One file of platforms/. Throws UsageError naming the file and a field that is missing or of another type.
Platform parse_platform(std::string_view file, std::string_view text);

const std::vector<Platform>& platforms();
std::vector<std::string> platform_names();
// Throws UsageError with the nearest name.
const Platform& find_platform(std::string_view name);
// Platform of that name, or null.
const Platform* platform_of_instance_type(std::string_view instance_type);
// Platform of the host by its instance type; else a box with NVSwitches by its GPUs and their links, with fewer GPUs
// too where the host sees the switches and is no virtual machine. Null: neither, as of boards whose GPUs are joined
// directly.
const Platform* platform_of(const Host& host);
// The platform that most hosts have, of several with as many the first host's. Null: most have none.
const Platform* platform_of_most(const std::vector<Host>& hosts);
// The platform that each host is held against: that of the topology, and another one (null: none known) for hosts that
// are none of it by their instance type or their GPUs.
std::vector<const Platform*> platforms_of_hosts(const Topology& topology);
bool has_one_platform(const Topology& topology);
// Why the hosts cannot be of the platform: an instance type or GPUs that it does not have. "": nothing says so.
std::string contradiction(const Topology& topology, const Platform& platform);
// The platform that the user names for these hosts. Throws UsageError also where they contradict it: by the limits of
// other GPUs a slow part would be fast.
const Platform& platform_named_for(const Topology& topology, std::string_view name);
// The model of all GPUs whose name is known, as platforms name it ("H200"), on boards with NVSwitches; else that of the
// platform. "" when neither is known or they differ.
std::string gpu_model(const Topology& topology);
// Published figures of the platform, and those of its baseboard for one node.
std::vector<Published> published_of(const Platform& platform);

}  // namespace p5::topo
