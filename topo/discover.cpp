// This host as a value, put together from the parts of discovery. Nothing here fails for a missing file.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <future>

#include "topo/discover.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

namespace fs = std::filesystem;

namespace {

std::string kernel_host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

Bytes kilobytes_of(const fs::path& meminfo, std::string_view key) {
  const auto value = value_of(meminfo, key);
  return KiB(value ? static_cast<std::uint64_t>(leading_number(*value).value_or(0)) : 0);
}

// Only EC2 puts the instance type into the product name and the instance id into the asset tag.
void add_instance(Host& host, const fs::path& root) {
  const fs::path dmi = root / "sys/class/dmi/id";
  if (read_text(dmi / "sys_vendor") != "Amazon EC2") return;
  host.instance_type = read_text(dmi / "product_name").value_or("");
  const std::string tag = read_text(dmi / "board_asset_tag").value_or("");
  if (tag.starts_with("i-")) host.instance = tag;
}

}  // namespace

std::vector<NumaNode> discover_numa(const fs::path& root) {
  const fs::path folder = root / "sys/devices/system/node";
  std::vector<NumaNode> nodes;
  for (const std::string& name : names_in(folder)) {
    if (!name.starts_with("node") || name.find_first_not_of("0123456789", 4) != std::string::npos || name.size() < 5)
      continue;
    NumaNode node{std::stoi(name.substr(4)), read_text(folder / name / "cpulist").value_or("")};
    const auto total = value_of(folder / name / "meminfo", fmt::format("Node {} MemTotal:", node.index));
    node.memory = KiB(static_cast<std::uint64_t>(leading_number(total.value_or("")).value_or(0)));
    nodes.push_back(std::move(node));
  }
  std::ranges::sort(nodes, {}, &NumaNode::index);
  return nodes;
}

namespace {

void add_memory(Host& host, const fs::path& root) {
  const fs::path meminfo = root / "proc/meminfo";
  host.memory = kilobytes_of(meminfo, "MemTotal:");
  host.memory_available = kilobytes_of(meminfo, "MemAvailable:");
  if (const auto left = memory_left_by_cgroup(root)) host.memory_available = std::min(host.memory_available, *left);
}

void add_processors(Host& host, const std::string& root) {
  Processors processors = discover_processors(root);
  for (NumaNode& node : host.numa) node.cores = std::move(processors.cores_of_node[node.index]);
  host.packages = processors.packages;
  host.numa_nodes = processors.numa_nodes;
  host.cores = processors.cores;
  host.threads = processors.threads;
  host.allowed_threads = processors.allowed_threads;
  host.cpu_model = processors.model;
  if (!host.cpu_model.empty()) return;
  const std::string model = value_of(fs::path(root + "/") / "proc/cpuinfo", "model name").value_or("");
  host.cpu_model = trimmed(model.substr(std::min(model.size(), model.find(':') + 1)));
}

}  // namespace

HostName host_name() {
  if (const char* id = std::getenv("NCCL_HOSTID"); id && *id) return {id, true};
  return {kernel_host_name(), false};
}

std::string kernel_boot_id(const std::string& root) {
  return read_text(fs::path(root + "/") / "proc/sys/kernel/random/boot_id").value_or("");
}

namespace {

// Host facts from files alone. PCI discovery needs neither the VBIOS nor the driver, so a GPU with a broken driver
// still counts.
Host host_from_files(const std::string& root, const Environment& environment) {
  const fs::path files = root + "/";
  Host host;
  host.host_name = root.empty() ? kernel_host_name() : read_text(files / "proc/sys/kernel/hostname").value_or("");
  // NCCL_HOSTID names the machine that we run on, not one that was recorded.
  const HostName name = root.empty() ? host_name() : HostName{host.host_name, false};
  host.name = name.name;
  host.pretended = name.pretended;
  host.boot_id = kernel_boot_id(root);
  host.kernel = read_text(files / "proc/sys/kernel/osrelease").value_or("");
  add_instance(host, files);
  host.numa = discover_numa(files);
  add_processors(host, root);
  PciDevices pci = discover_pci(files);
  host.gpus = static_cast<int>(pci.gpus.size());
  host.nvswitches = pci.nvswitches;
  host.efa_without_driver = pci.efa_without_driver;
  host.gpu_devices = std::move(pci.gpus);
  add_memory(host, files);
  host.nics = discover_nics(files);
  add_software(host, files, environment);
  if (host.gpus > 0) host.xids = discover_xids(files);
  return host;
}

// Virtual machines with one NUMA node report no NUMA node for devices, so all devices are on that node.
void place_on_the_only_node(Host& host) {
  if (host.numa.size() != 1) return;
  const int only = host.numa.front().index;
  for (Gpu& gpu : host.gpu_devices)
    if (gpu.numa_node < 0) gpu.numa_node = only;
  for (Nic& nic : host.nics)
    if (nic.numa_node < 0) nic.numa_node = only;
}

void finish(Host& host, const fs::path& files) {
  place_on_the_only_node(host);
  host.bridges = discover_bridges(files, host);
  find_rails(host);
}

// DMI is what the hypervisor shows at once; a container may hide it.
void add_metadata(Host& host, std::map<std::string, std::string> told) {
  if (host.instance.empty()) host.instance = told["instance"];
  if (host.instance_type.empty()) host.instance_type = told["instance type"];
  if (const auto count = leading_number(told["network cards"])) host.network_cards = static_cast<int>(*count);
  for (const char* name : {"availability zone", "vpc", "subnet", "placement group", "partition"})
    if (const auto at = told.find(name); at != told.end()) host.placement.insert(*at);
}

// Metadata is queried on EC2 only: elsewhere its address may belong to another service.
bool on_ec2() {
  const char* const endpoint = std::getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  return (endpoint && *endpoint) || read_text("/sys/class/dmi/id/sys_vendor") == "Amazon EC2";
}

}  // namespace

Host discover_host(const std::string& root) {
  Host host = host_from_files(root, {});
  finish(host, root + "/");
  return host;
}

Host discover_host(const Probes& probes) {
  const auto start = std::chrono::steady_clock::now();
  constexpr Seconds metadata_limit{1};
  const auto launch = [](auto question) {
    // The call is deferred if no thread can be created.
    return std::async(std::launch::async | std::launch::deferred, std::move(question));
  };
  auto nvml = launch([&] {
    if (probes.told) return *probes.told;
    return probes.nvml.empty() ? NvmlAnswer{} : ask_nvml(probes.nvml, probes.limit);
  });
  auto libfabric = launch([&]() -> std::optional<Libfabric> {
    if (probes.libfabric.empty()) return std::nullopt;
    return ask_libfabric(probes.libfabric, probes.limit, probes.environment);
  });
  auto metadata = launch([&] {
    return probes.metadata && on_ec2() ? ask_instance_metadata(metadata_limit) : std::map<std::string, std::string>{};
  });
  Host host = host_from_files("", probes.environment.value_or(current_environment()));
  host.limits = discover_process_limits();
  const auto addresses = interface_addresses();
  for (Nic& nic : host.nics)
    if (const auto at = addresses.find(nic.name); at != addresses.end()) nic.addresses = at->second;
  add_metadata(host, metadata.get());
  host.libfabric = libfabric.get();
  if (host.libfabric && !host.libfabric->version.empty()) host.versions["libfabric"] = host.libfabric->version;
  NvmlAnswer told = nvml.get();
  if (!probes.nvml.empty()) merge_gpus(host, std::move(told), std::move(host.gpu_devices));
  finish(host, "/");
  host.discovery_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return host;
}

}  // namespace p5::topo
