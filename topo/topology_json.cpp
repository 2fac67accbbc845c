// Topology as JSON: how hosts travel between ranks and how a machine is recorded.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

using json_fields::written;
using nlohmann::json;

namespace {

constexpr std::array<std::string_view, 3> remotes{"gpu", "switch", ""};
constexpr std::array<std::string_view, 5> fabric_states{"not supported", "not started", "in progress", "completed", ""};
constexpr std::array<std::string_view, 5> nics_by{"pcie switch", "host bridge", "numa node", "host", ""};
constexpr std::array<std::string_view, 4> provenances{"discovered", "synthetic", "imported", "recorded"};

// Bridges above a device; the tree that is shown of them is as deep.
constexpr std::size_t deepest_path = 64;

}  // namespace

void fields(auto& visit, Is<PcieLink> auto& link) {
  visit.may("generation", link.generation);
  visit.may("width", link.width);
  visit.may("generation_max", link.generation_max);
  visit.may("width_max", link.width_max);
}

void fields(auto& visit, Is<PciPlace> auto& place) {
  visit.may("address", place.address);
  visit.may("path", json_fields::at_most(deepest_path, place.path));
}

void fields(auto& visit, Is<NumaNode> auto& node) {
  visit.must("index", node.index);
  visit.may("cpus", node.cpus);
  visit.may("cores", node.cores);
  visit.may("memory_bytes", node.memory);
}

void fields(auto& visit, Is<PciBridge> auto& bridge) {
  visit.must("address", bridge.address);
  visit.may("link", bridge.link);
  visit.may("acs", bridge.acs);
}

void fields(auto& visit, Is<Nic> auto& nic) {
  visit.must("name", nic.name);
  visit.must("kind", nic.kind);
  visit.must("driver", nic.driver);
  visit.must("state", nic.state);
  visit.may("rate_gb_per_s", nic.rate);
  visit.must("numa_node", json_fields::at_least(-1, nic.numa_node));
  visit.may("pci", nic.pci);
  visit.may("pcie", nic.pcie);
  visit.may("hardware_address", nic.hardware_address);
  visit.may("firmware", nic.firmware);
  visit.may("gdr", nic.gdr);
  visit.may("verbs", nic.verbs);
  visit.may("verbs_usable", nic.verbs_usable);
  visit.may("counters", nic.counters);
  visit.may("addresses", nic.addresses);
  visit.may("mtu", nic.mtu);
}

void fields(auto& visit, Is<NvLink> auto& link) {
  visit.must("number", link.number);
  visit.may("active", link.active);
  visit.may("rate_raw_gb_per_s", link.rate_raw);
  visit.may("remote", json_fields::one_of(link.remote, remotes));
  visit.may("remote_pci", link.remote_pci);
  visit.may("errors", link.errors);
}

void fields(auto& visit, Is<GpuMemoryErrors> auto& errors) {
  visit.may("ecc", errors.ecc);
  visit.may("corrected", errors.corrected);
  visit.may("uncorrected", errors.uncorrected);
  visit.may("corrected_ever", errors.corrected_ever);
  visit.may("uncorrected_ever", errors.uncorrected_ever);
  visit.may("retired_pages", errors.retired_pages);
  visit.may("retirement_pending", errors.retirement_pending);
  visit.may("remapped_corrected", errors.remapped_corrected);
  visit.may("remapped_uncorrected", errors.remapped_uncorrected);
  visit.may("remap_pending", errors.remap_pending);
  visit.may("remap_failed", errors.remap_failed);
}

void fields(auto& visit, Is<GpuState> auto& state) {
  visit.may("sm_clock_mhz", state.sm_clock_mhz);
  visit.may("memory_clock_mhz", state.memory_clock_mhz);
  visit.may("temperature_c", json_fields::any(state.temperature_c));
  visit.may("power_w", state.power_w);
  visit.may("throttle_mask", state.throttle_mask);
}

void fields(auto& visit, Is<Gpu> auto& gpu) {
  visit.must("uuid", gpu.uuid);
  visit.must("name", gpu.name);
  visit.must("architecture", gpu.architecture);
  visit.may("links", gpu.links);
  visit.may("link_rate_raw_gb_per_s", gpu.link_rate_raw);
  visit.may("pcie", gpu.pcie);
  visit.may("processes", json_fields::any(gpu.processes));
  visit.may("used_by", gpu.used_by);
  visit.may("pci", gpu.pci);
  visit.may("numa_node", json_fields::at_least(-1, gpu.numa_node));
  visit.may("serial", gpu.serial);
  visit.may("memory_bytes", gpu.memory);
  visit.may("nvlinks", gpu.nvlinks);
  visit.may("links_possible", gpu.links_possible);
  visit.may("fabric_state", json_fields::one_of(gpu.fabric_state, fabric_states));
  visit.may("fabric_status", json_fields::any(gpu.fabric_status));
  visit.may("mig", gpu.mig);
  visit.may("compute_mode", gpu.compute_mode);
  visit.may("persistence", gpu.persistence);
  visit.may("errors", gpu.errors);
  visit.may("pcie_replays", gpu.pcie_replays);
  visit.may("state", gpu.state);
  visit.may("sm_clock_max_mhz", gpu.sm_clock_max_mhz);
  visit.may("memory_clock_max_mhz", gpu.memory_clock_max_mhz);
  visit.may("power_cap_w", gpu.power_cap_w);
  visit.may("power_cap_default_w", gpu.power_cap_default_w);
  visit.may("slowdown_temperature_c", json_fields::any(gpu.slowdown_temperature_c));
  visit.may("problem", gpu.problem);
  visit.may("nics", gpu.nics);
  visit.may("nics_by", json_fields::one_of(gpu.nics_by, nics_by));
  visit.may("nics_shared", gpu.nics_shared);
}

void fields(auto& visit, Is<Xid> auto& xid) {
  visit.must("pci", xid.pci);
  visit.must("code", xid.code);
  visit.must("count", xid.count);
  visit.must("text", xid.text);
}

void fields(auto& visit, Is<Libfabric::Domain> auto& domain) {
  visit.must("name", domain.name);
  visit.may("provider", domain.provider);
  visit.may("fabric", domain.fabric);
  visit.may("nic", domain.nic);
  visit.may("pci", domain.pci);
  visit.may("rate_gb_per_s", domain.rate);
  visit.may("state", domain.state);
}

void fields(auto& visit, Is<Libfabric> auto& libfabric) {
  visit.may("version", libfabric.version);
  visit.may("path", libfabric.path);
  visit.may("providers", libfabric.providers);
  visit.may("domains", libfabric.domains);
  visit.may("problem", libfabric.problem);
  visit.may("answered", libfabric.answered);
}

void fields(auto& visit, Is<ProcessLimits> auto& limits) {
  visit.may("locked_memory_bytes", limits.locked_memory);
  visit.may("open_files", limits.open_files);
  visit.may("shared_memory_bytes", limits.shared_memory);
  visit.may("shared_memory_free_bytes", limits.shared_memory_free);
  visit.may("huge_pages", limits.huge_pages);
  visit.may("huge_pages_free", limits.huge_pages_free);
}

void fields(auto& visit, Is<Host> auto& host) {
  visit.must("name", host.name);
  visit.must("host_name", host.host_name);
  visit.must("pretended", host.pretended);
  visit.must("boot_id", host.boot_id);
  visit.must("instance", host.instance);
  visit.must("instance_type", host.instance_type);
  visit.must("kernel", host.kernel);
  visit.must("cpu_model", host.cpu_model);
  visit.must("packages", host.packages);
  visit.must("numa_nodes", host.numa_nodes);
  visit.must("cores", host.cores);
  visit.must("threads", host.threads);
  visit.must("allowed_threads", host.allowed_threads);
  visit.must("gpus", host.gpus);
  visit.must("memory_bytes", host.memory);
  visit.must("memory_available_bytes", host.memory_available);
  visit.must("nics", host.nics);
  visit.must("gpu_devices", host.gpu_devices);
  visit.must("gpu_driver", host.gpu_driver);
  visit.must("gpu_problem", host.gpu_problem);
  visit.may("numa", host.numa);
  visit.may("bridges", host.bridges);
  visit.may("nvswitches", host.nvswitches);
  visit.may("virtual_machine", host.virtual_machine);
  visit.may("container", host.container);
  visit.may("iommu", host.iommu);
  visit.may("modules", host.modules);
  visit.may("fabric_manager_running", host.fabric_manager_running);
  visit.may("versions", host.versions);
  visit.may("net_plugins", host.net_plugins);
  visit.may("libfabric", host.libfabric);
  visit.may("placement", host.placement);
  visit.may("xids", host.xids);
  visit.may("limits", host.limits);
  visit.may("discovery_s", host.discovery_s);
}

void fields(auto& visit, Is<JobSettings> auto& settings) {
  visit.must("variables", settings.variables);
  visit.must("dangling", settings.dangling);
}

void fields(auto& visit, Is<Topology> auto& topology) {
  visit.must("provenance", json_fields::one_of(topology.provenance, provenances));
  visit.must("platform", topology.platform);
  visit.must("hosts", topology.hosts);
  visit.must("host_of_rank", topology.host_of_rank);
  visit.may("gpus_seen_of_rank", topology.gpus_seen_of_rank);
  visit.may("gpu_of_rank", topology.gpu_of_rank);
  visit.some("nics_of_rank", topology.nics_of_rank);
  visit.may("settings", topology.settings);
  visit.may("taken", topology.taken);
}

namespace {

// Of what other programs of this build said.
template <class Value>
Value read_of(std::string_view what, const json& j) try {
  return json_fields::read_as<Value>(j);
} catch (const json_fields::BadValue& problem) {
  throw UsageError(fmt::format("{} is not in the form that this version writes: {}; build all programs alike", what,
                               problem.what()));
}

}  // namespace

json to_json(const GpuState& state) { return written(state); }
GpuState gpu_state_from_json(const json& j) { return read_of<GpuState>("the state of a GPU", j); }

json to_json(const Gpu& gpu) { return written(gpu); }
Gpu gpu_from_json(const json& j) { return read_of<Gpu>("GPU", j); }

json to_json(const Libfabric& libfabric) { return written(libfabric); }
Libfabric libfabric_from_json(const json& j) { return read_of<Libfabric>("libfabric", j); }

json to_json(const Host& host) { return written(host); }
Host host_from_json(const json& j) { return read_of<Host>("host", j); }

json to_json(const Topology& topology) { return written(topology); }

Topology topology_from_json(const json& j) {
  Topology topology = json_fields::read_as<Topology>(j);
  for (std::size_t rank = 0; rank < topology.host_of_rank.size(); ++rank)
    if (const int host = topology.host_of_rank[rank]; std::cmp_greater_equal(host, topology.hosts.size()))
      throw json_fields::BadValue(
          fmt::format("/host_of_rank/{}", rank),
          fmt::format("names host {}, but there are {} hosts, counted from 0", host, topology.hosts.size()));
  return topology;
}

}  // namespace p5::topo
