// Topology as JSON: how hosts travel between ranks and how a machine is recorded.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

using json_fields::read;
using json_fields::written;
using nlohmann::json;

void fields(auto& visit, Is<PcieLink> auto& link) {
  visit.may("generation", link.generation);
  visit.may("width", link.width);
  visit.may("generation_max", link.generation_max);
  visit.may("width_max", link.width_max);
}

void fields(auto& visit, Is<PciPlace> auto& place) {
  visit.may("address", place.address);
  visit.may("path", place.path);
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
  visit.must("numa_node", nic.numa_node);
  visit.may("pci", nic.pci);
  visit.may("pcie", nic.pcie);
  visit.may("hardware_address", nic.hardware_address);
  visit.may("firmware", nic.firmware);
  visit.may("gdr", nic.gdr);
  visit.may("verbs", nic.verbs);
  visit.may("verbs_usable", nic.verbs_usable);
  visit.may("counters", nic.counters);
  visit.may("addresses", nic.addresses);
}

void fields(auto& visit, Is<NvLink> auto& link) {
  visit.must("number", link.number);
  visit.may("active", link.active);
  visit.may("rate_raw_gb_per_s", link.rate_raw);
  visit.may("remote", link.remote);
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
  visit.may("temperature_c", state.temperature_c);
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
  visit.may("processes", gpu.processes);
  visit.may("pci", gpu.pci);
  visit.may("numa_node", gpu.numa_node);
  visit.may("serial", gpu.serial);
  visit.may("memory_bytes", gpu.memory);
  visit.may("nvlinks", gpu.nvlinks);
  visit.may("links_possible", gpu.links_possible);
  visit.may("fabric_state", gpu.fabric_state);
  visit.may("fabric_status", gpu.fabric_status);
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
  visit.may("slowdown_temperature_c", gpu.slowdown_temperature_c);
  visit.may("problem", gpu.problem);
  visit.may("nics", gpu.nics);
  visit.may("nics_by", gpu.nics_by);
  visit.may("nics_shared", gpu.nics_shared);
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
  visit.may("limits", host.limits);
  visit.may("discovery_s", host.discovery_s);
}

void fields(auto& visit, Is<Topology> auto& topology) {
  visit.must("provenance", topology.provenance);
  visit.must("platform", topology.platform);
  visit.must("hosts", topology.hosts);
  visit.must("host_of_rank", topology.host_of_rank);
  visit.may("gpus_seen_of_rank", topology.gpus_seen_of_rank);
  visit.may("gpu_of_rank", topology.gpu_of_rank);
  visit.may("taken", topology.taken);
}

namespace {

Topology read_topology(const json& j) {
  Topology topology;
  read(j, topology);
  const int hosts = static_cast<int>(topology.hosts.size());
  for (const int host : topology.host_of_rank)
    if (host < 0 || host >= hosts)
      throw UsageError(
          fmt::format("topology: host_of_rank names host {}, but there are {} hosts, counted from 0; record it again",
                      host, hosts));
  return topology;
}

UsageError unreadable(std::string_view what, const json::exception& problem) {
  return UsageError(
      fmt::format("{} is not in the form that this version writes: {}; record it again", what, problem.what()));
}

}  // namespace

json to_json(const GpuState& state) { return written(state); }

GpuState gpu_state_from_json(const json& j) try {
  GpuState state;
  read(j, state);
  return state;
} catch (const json::exception& problem) {
  throw unreadable("the state of a GPU", problem);
}

json to_json(const Gpu& gpu) { return written(gpu); }

Gpu gpu_from_json(const json& j) try {
  Gpu gpu;
  read(j, gpu);
  return gpu;
} catch (const json::exception& problem) {
  throw unreadable("GPU", problem);
}

json to_json(const Libfabric& libfabric) { return written(libfabric); }

Libfabric libfabric_from_json(const json& j) try {
  Libfabric libfabric;
  read(j, libfabric);
  return libfabric;
} catch (const json::exception& problem) {
  throw unreadable("libfabric", problem);
}

json to_json(const Host& host) { return written(host); }

Host host_from_json(const json& j) try {
  Host host;
  read(j, host);
  return host;
} catch (const json::exception& problem) {
  throw unreadable("host", problem);
}

json to_json(const Topology& topology) { return written(topology); }

Topology topology_from_json(const json& j) try { return read_topology(j); } catch (const json::exception& problem) {
  throw unreadable("topology", problem);
}

}  // namespace p5::topo
