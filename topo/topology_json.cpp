// Topology as JSON: how hosts travel between ranks and how a machine is recorded.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
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

void fields(auto& archive, Is<PcieLink> auto& link) {
  archive.may("generation", link.generation);
  archive.may("width", link.width);
  archive.may("generation_max", link.generation_max);
  archive.may("width_max", link.width_max);
}

void fields(auto& archive, Is<PciPosition> auto& place) {
  archive.may("address", place.address);
  archive.may("path", json_fields::at_most(deepest_path, place.path));
}

void fields(auto& archive, Is<NumaNode> auto& node) {
  archive.must("index", node.index);
  archive.may("cpus", node.cpus);
  archive.may("cores", node.cores);
  archive.may("memory_bytes", node.memory);
}

void fields(auto& archive, Is<PciBridge> auto& bridge) {
  archive.must("address", bridge.address);
  archive.may("link", bridge.link);
  archive.may("acs", bridge.acs);
}

void fields(auto& archive, Is<Nic> auto& nic) {
  archive.must("name", nic.name);
  archive.must("kind", nic.kind);
  archive.must("driver", nic.driver);
  archive.must("state", nic.state);
  archive.may("rate_gb_per_s", nic.rate);
  archive.must("numa_node", json_fields::at_least(-1, nic.numa_node));
  archive.may("pci", nic.pci);
  archive.may("pcie", nic.pcie);
  archive.may("hardware_address", nic.hardware_address);
  archive.may("firmware", nic.firmware);
  archive.may("gdr", nic.gdr);
  archive.may("verbs", nic.verbs);
  archive.may("verbs_usable", nic.verbs_usable);
  archive.may("counters", nic.counters);
  archive.may("addresses", nic.addresses);
  archive.may("mtu", nic.mtu);
}

void fields(auto& archive, Is<NvLink> auto& link) {
  archive.must("number", link.number);
  archive.may("active", link.active);
  archive.may("rate_raw_gb_per_s", link.rate_raw);
  archive.may("remote", json_fields::one_of(link.remote, remotes));
  archive.may("remote_pci", link.remote_pci);
  archive.may("errors", link.errors);
}

void fields(auto& archive, Is<GpuMemoryErrors> auto& errors) {
  archive.may("ecc", errors.ecc);
  archive.may("corrected", errors.corrected);
  archive.may("uncorrected", errors.uncorrected);
  archive.may("corrected_ever", errors.corrected_ever);
  archive.may("uncorrected_ever", errors.uncorrected_ever);
  archive.may("retired_pages", errors.retired_pages);
  archive.may("retirement_pending", errors.retirement_pending);
  archive.may("remapped_corrected", errors.remapped_corrected);
  archive.may("remapped_uncorrected", errors.remapped_uncorrected);
  archive.may("remap_pending", errors.remap_pending);
  archive.may("remap_failed", errors.remap_failed);
}

void fields(auto& archive, Is<GpuState> auto& state) {
  archive.may("sm_clock_mhz", state.sm_clock_mhz);
  archive.may("memory_clock_mhz", state.memory_clock_mhz);
  archive.may("temperature_c", json_fields::any(state.temperature_c));
  archive.may("power_w", state.power_w);
  archive.may("throttle_mask", state.throttle_mask);
}

void fields(auto& archive, Is<Gpu> auto& gpu) {
  archive.must("uuid", gpu.uuid);
  archive.must("name", gpu.name);
  archive.must("architecture", gpu.architecture);
  archive.may("links", gpu.links);
  archive.may("link_rate_raw_gb_per_s", gpu.link_rate_raw);
  archive.may("pcie", gpu.pcie);
  archive.may("processes", json_fields::any(gpu.processes));
  archive.may("used_by", gpu.used_by);
  archive.may("pci", gpu.pci);
  archive.may("numa_node", json_fields::at_least(-1, gpu.numa_node));
  archive.may("serial", gpu.serial);
  archive.may("memory_bytes", gpu.memory);
  archive.may("nvlinks", gpu.nvlinks);
  archive.may("links_possible", gpu.links_possible);
  archive.may("fabric_state", json_fields::one_of(gpu.fabric_state, fabric_states));
  archive.may("fabric_status", json_fields::any(gpu.fabric_status));
  archive.some("fabric_cluster", gpu.fabric_cluster);
  archive.some("fabric_clique", gpu.fabric_clique);
  archive.some("fabric_trouble", gpu.fabric_trouble);
  archive.may("mig", gpu.mig);
  archive.may("compute_mode", gpu.compute_mode);
  archive.may("persistence", gpu.persistence);
  archive.may("errors", gpu.errors);
  archive.may("pcie_replays", gpu.pcie_replays);
  archive.may("state", gpu.state);
  archive.may("sm_clock_max_mhz", gpu.sm_clock_max_mhz);
  archive.may("memory_clock_max_mhz", gpu.memory_clock_max_mhz);
  archive.may("power_cap_w", gpu.power_cap_w);
  archive.may("power_cap_default_w", gpu.power_cap_default_w);
  archive.may("slowdown_temperature_c", json_fields::any(gpu.slowdown_temperature_c));
  archive.may("problem", gpu.problem);
  archive.may("nics", gpu.nics);
  archive.may("nics_by", json_fields::one_of(gpu.nics_by, nics_by));
  archive.may("nics_shared", gpu.nics_shared);
  archive.some("nccl_device", gpu.nccl_device);
}

void fields(auto& archive, Is<Xid> auto& xid) {
  archive.must("pci", xid.pci);
  archive.must("code", xid.code);
  archive.must("count", xid.count);
  archive.must("text", xid.text);
}

void fields(auto& archive, Is<Libfabric::Domain> auto& domain) {
  archive.must("name", domain.name);
  archive.may("provider", domain.provider);
  archive.may("fabric", domain.fabric);
  archive.may("nic", domain.nic);
  archive.may("pci", domain.pci);
  archive.may("rate_gb_per_s", domain.rate);
  archive.may("state", domain.state);
}

void fields(auto& archive, Is<Libfabric> auto& libfabric) {
  archive.may("version", libfabric.version);
  archive.may("path", libfabric.path);
  archive.may("providers", libfabric.providers);
  archive.may("domains", libfabric.domains);
  archive.may("problem", libfabric.problem);
  archive.may("answered", libfabric.answered);
}

void fields(auto& archive, Is<ProcessLimits> auto& limits) {
  archive.may("locked_memory_bytes", limits.locked_memory);
  archive.may("open_files", limits.open_files);
  archive.may("shared_memory_bytes", limits.shared_memory);
  archive.may("shared_memory_free_bytes", limits.shared_memory_free);
  archive.may("huge_pages", limits.huge_pages);
  archive.may("huge_pages_free", limits.huge_pages_free);
}

void fields(auto& archive, Is<Imex> auto& imex) {
  archive.may("running", imex.running);
  archive.may("nodes", imex.nodes);
  archive.may("channels", json_fields::at_least(0, imex.channels));
}

void fields(auto& archive, Is<Host> auto& host) {
  archive.must("name", host.name);
  archive.must("host_name", host.host_name);
  archive.must("pretended", host.pretended);
  archive.must("boot_id", host.boot_id);
  archive.must("instance", host.instance);
  archive.must("instance_type", host.instance_type);
  archive.must("kernel", host.kernel);
  archive.must("cpu_model", host.cpu_model);
  archive.must("packages", host.packages);
  archive.must("numa_nodes", host.numa_nodes);
  archive.must("cores", host.cores);
  archive.must("threads", host.threads);
  archive.must("allowed_threads", host.allowed_threads);
  archive.must("gpus", host.gpus);
  archive.must("memory_bytes", host.memory);
  archive.must("memory_available_bytes", host.memory_available);
  archive.must("nics", host.nics);
  archive.must("gpu_devices", host.gpu_devices);
  archive.must("gpu_driver", host.gpu_driver);
  archive.must("gpu_problem", host.gpu_problem);
  archive.may("numa", host.numa);
  archive.may("bridges", host.bridges);
  archive.may("nvswitches", host.nvswitches);
  archive.some("efa_without_driver", host.efa_without_driver);
  archive.some("network_cards", host.network_cards);
  archive.may("virtual_machine", host.virtual_machine);
  archive.may("container", host.container);
  archive.may("iommu", host.iommu);
  archive.may("modules", host.modules);
  archive.may("fabric_manager_running", host.fabric_manager_running);
  archive.some("imex", host.imex);
  archive.may("versions", host.versions);
  archive.may("net_plugins", host.net_plugins);
  archive.some("other_net_plugins", host.other_net_plugins);
  archive.may("libfabric", host.libfabric);
  archive.may("placement", host.placement);
  archive.may("xids", host.xids);
  archive.may("limits", host.limits);
  archive.may("discovery_s", host.discovery_s);
  archive.some("seen_by", host.seen_by);
}

void fields(auto& archive, Is<NvmlAnswer> auto& told) {
  archive.must("driver", told.driver);
  archive.must("cuda", told.cuda);
  archive.must("problem", told.problem);
  archive.may("asked", told.asked);
  archive.must("answered", told.answered);
  archive.must("gpus", told.gpus);
}

void fields(auto& archive, Is<JobSettings> auto& settings) {
  archive.must("variables", settings.variables);
  archive.must("dangling", settings.dangling);
}

void fields(auto& archive, Is<Topology> auto& topology) {
  archive.must("provenance", json_fields::one_of(topology.provenance, provenances));
  archive.must("platform", topology.platform);
  archive.must("hosts", topology.hosts);
  archive.must("host_of_rank", topology.host_of_rank);
  archive.may("gpus_seen_of_rank", topology.gpus_seen_of_rank);
  archive.may("gpu_of_rank", topology.gpu_of_rank);
  archive.some("nics_of_rank", topology.nics_of_rank);
  archive.may("settings", topology.settings);
  archive.may("taken", topology.taken);
}

UsageError not_of_this_build(std::string_view what, const char* why) {
  return UsageError(fmt::format("{} is not in the form that this version writes: {}; {}, of one version", what, why,
                                beside_each_other));
}

namespace {

// Reads the output of another program of this build.
template <class Value>
Value read_of(std::string_view what, const json& j) try {
  return json_fields::read_as<Value>(j);
} catch (const json_fields::BadValue& problem) {
  throw not_of_this_build(what, problem.what());
}

}  // namespace

json parse_output(std::string_view what, std::string_view text) try {
  return parse_json(text);
} catch (const UsageError& problem) {
  throw not_of_this_build(what, problem.what());
}

json to_json(const GpuState& state) { return written(state); }
GpuState gpu_state_from_json(const json& j) { return read_of<GpuState>("the state of a GPU", j); }

json to_json(const Gpu& gpu) { return written(gpu); }

json to_json(const Libfabric& libfabric) { return written(libfabric); }
Libfabric libfabric_from_json(const json& j) { return read_of<Libfabric>("the answer of libfabric's probe", j); }
NvmlAnswer nvml_answer_from_json(const json& j) { return read_of<NvmlAnswer>("the answer of NVML's probe", j); }

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
