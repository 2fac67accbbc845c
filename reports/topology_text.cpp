#include "reports/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "reports/markup.hpp"

namespace p5::reports {

namespace {

using topo::Finding;
using topo::Gpu;
using topo::Host;
using topo::Nic;

struct Node {
  std::string name;
  std::vector<std::string> devices;
  std::vector<Node> children;
};

Node& child(Node& node, const std::string& name) {
  const auto at = std::ranges::find(node.children, name, &Node::name);
  if (at != node.children.end()) return *at;
  return node.children.emplace_back(Node{name, {}, {}});
}

std::string link_text(const topo::PcieLink& link) {
  if (!link.generation || !link.width) return "";
  std::string text = format_printable("Gen{} x{}", *link.generation, *link.width);
  const bool less = (link.generation_max && *link.generation < *link.generation_max) ||
                    (link.width_max && *link.width < *link.width_max);
  if (less)
    text += format_printable(" (of Gen{} x{})", link.generation_max.value_or(*link.generation),
                             link.width_max.value_or(*link.width));
  return text;
}

std::string memory_text(Bytes size) {
  const double gib = static_cast<double>(size.count) / static_cast<double>(GiB(1).count);
  return size.count == 0 ? "memory unknown" : format_printable("{:.{}f} GiB", gib, gib < 100 ? 1 : 0);
}

std::string state_text(const topo::GpuState& state) {
  std::vector<std::string> parts;
  if (state.sm_clock_mhz) parts.push_back(format_printable("{} MHz", *state.sm_clock_mhz));
  if (state.temperature_c) parts.push_back(format_printable("{} °C", *state.temperature_c));
  if (state.power_w) parts.push_back(format_printable("{:.0f} W", *state.power_w));
  if (state.throttle_mask && *state.throttle_mask)
    parts.push_back(join(topo::throttle_reasons(*state.throttle_mask), "+"));
  return join(parts, " ");
}

// Mark of a device with findings: "!" for an error, "?" for a warning.
std::string mark(const std::vector<Finding>& findings, const Host& host, std::optional<int> gpu,
                 const std::string& nic = "") {
  std::string worst = "  ";
  for (const Finding& finding : findings) {
    const bool mine = finding.subject.host == host.name &&
                      ((gpu && finding.subject.gpu == gpu) || (!nic.empty() && finding.subject.nic == nic));
    if (!mine || finding.severity == topo::Severity::info) continue;
    if (finding.severity == topo::Severity::error) return "! ";
    worst = "? ";
  }
  return worst;
}

void append(std::string& line, const std::string& part) {
  if (!part.empty()) line += "  " + printable(part);
}

// NCCL's topology has the compute capability in place of a name.
std::string model_text(const Gpu& gpu) {
  if (!gpu.name.empty()) return gpu.name;
  return gpu.architecture == 0
             ? "(model unknown)"
             : format_printable("(compute capability {}.{})", gpu.architecture / 10, gpu.architecture % 10);
}

std::string gpu_line(const Gpu& gpu, std::size_t index) {
  std::string line = format_printable("GPU {}", index);
  if (gpu.nccl_device) line += format_printable(" (device {} of NCCL)", *gpu.nccl_device);
  append(line, model_text(gpu));
  append(line, gpu.pci.address);
  append(line, link_text(gpu.pcie));
  if (gpu.links)
    append(line, gpu.link_rate_raw
                     ? format_printable("{} NVLinks x {:.5g} GB/s raw", *gpu.links, gpu.link_rate_raw->count)
                     : format_printable("{} NVLinks", *gpu.links));
  append(line, state_text(gpu.state));
  if (!gpu.problem.empty()) append(line, "[" + gpu.problem + "]");
  return line;
}

std::string nic_line(const Nic& nic) {
  std::string line = format_printable("NIC {}", nic.name);
  append(line, nic.kind);
  append(line, nic.state);
  append(line, nic.rate ? format_printable("{:.4g} GB/s", nic.rate->count) : "rate unknown");
  append(line, nic.pci.address);
  append(line, link_text(nic.pcie));
  if (nic.gdr) append(line, *nic.gdr ? "GPU Direct" : "no GPU Direct");
  append(line, join(nic.addresses, " "));
  return line;
}

// Prints a chain of bridges without a fork as one line.
void print(std::string& text, const Node& node, int depth) {
  const Node* at = &node;
  std::string name = node.name;
  while (at->devices.empty() && at->children.size() == 1 && !at->name.starts_with("NUMA")) {
    at = &at->children.front();
    name += " > " + at->name;
  }
  text += format_printable("  {:{}}{}\n", "", 2 * depth, name);
  for (const std::string& device : at->devices)
    text += format_printable("{}{:{}}{}\n", device.substr(0, 2), "", 2 * depth + 2, device.substr(2));
  for (const Node& below : at->children) print(text, below, depth + 1);
}

std::string numa_name(const Host& host, int index) {
  if (index < 0) return "NUMA node unknown";
  const auto at = std::ranges::find(host.numa, index, &topo::NumaNode::index);
  if (at == host.numa.end()) return format_printable("NUMA node {}", index);
  if (at->cpus.empty()) return format_printable("NUMA node {}", index);
  return format_printable("NUMA node {}  cpus {}  {}", index, at->cpus, memory_text(at->memory));
}

void add_tree(std::string& text, const Host& host, const std::vector<Finding>& findings) {
  std::map<int, Node> numa;
  for (const topo::NumaNode& node : host.numa) numa[node.index];
  const auto place = [&](int node, const topo::PciPosition& pci) -> Node& {
    Node* at = &numa[node];
    for (const std::string& bridge : pci.path) at = &child(*at, bridge);
    return *at;
  };
  for (std::size_t i = 0; i < host.gpu_devices.size(); ++i)
    place(host.gpu_devices[i].numa_node, host.gpu_devices[i].pci)
        .devices.push_back(mark(findings, host, static_cast<int>(i)) + gpu_line(host.gpu_devices[i], i));
  for (const Nic& nic : host.nics)
    if (nic.kind != "virtual")
      place(nic.numa_node, nic.pci).devices.push_back(mark(findings, host, {}, nic.name) + nic_line(nic));
  for (auto& [index, node] : numa) {
    node.name = numa_name(host, index);
    print(text, node, 1);
  }
}

// "GPU 0, 1, 2: 18 of 18 links ...": GPUs with equal links share a line.
void add_links(std::string& text, const Host& host) {
  std::vector<std::pair<std::string, std::vector<std::string>>> links;
  for (std::size_t i = 0; i < host.gpu_devices.size(); ++i) {
    const Gpu& gpu = host.gpu_devices[i];
    if (!gpu.links || gpu.nvlinks.empty()) continue;
    std::map<std::string, int> ends;
    for (const topo::NvLink& link : gpu.nvlinks)
      if (link.active == true)
        ++ends[link.remote.empty() ? "unknown ends" : link.remote == "gpu" ? "GPUs" : "switches"];
    std::vector<std::string> parts;
    for (const auto& [kind, count] : ends) parts.push_back(format_printable("{} to {}", count, kind));
    std::string what = format_printable("{} of {} links active", *gpu.links, gpu.nvlinks.size());
    if (!parts.empty()) what += ", " + join(parts);
    if (!gpu.fabric_state.empty()) what += ", fabric " + gpu.fabric_state;
    auto at = std::ranges::find(links, what, &decltype(links)::value_type::first);
    if (at == links.end()) at = links.insert(at, {what, {}});
    at->second.push_back(std::to_string(i));
  }
  for (const auto& [what, gpus] : links) text += format_printable("    NVLink  GPU {}: {}\n", join(gpus), what);
}

void add_bindings(std::string& text, const Host& host, int index, const std::vector<topo::Binding>& bindings) {
  for (const topo::Binding& binding : bindings) {
    if (binding.host != index || binding.gpu < 0) continue;
    const Gpu& gpu = host.gpu_devices[static_cast<std::size_t>(binding.gpu)];
    std::string line = format_printable("    rank {:<3} GPU {}", binding.rank, binding.gpu);
    if (!binding.nics.empty())
      line += format_printable(
          "  rails {} (same {}{})", join(binding.nics, " "), gpu.nics_by,
          gpu.nics_shared.value_or(1) > 1 ? format_printable(", shared by {} GPUs", *gpu.nics_shared) : "");
    if (!binding.cores.empty()) line += format_printable("  cores {}", topo::list_text(binding.cores));
    text += line + "\n";
  }
}

void add_host(std::string& text, const Host& host) {
  text += printable(host.name);
  if (host.pretended) text += format_printable(" (pretended by NCCL_HOSTID, the machine is {})", host.host_name);
  append(text, host.instance);
  append(text, host.instance_type);
  for (const auto& [name, value] : host.placement) append(text, format_printable("{} {}", name, value));
  text += "\n";
  if (host.threads > 0)
    text += format_printable("    {}, {}, {}{}, {}\n", counted(host.packages, "package"), counted(host.cores, "core"),
                             counted(host.threads, "thread"),
                             host.allowed_threads == 0 ? "" : format_printable(" ({} for us)", host.allowed_threads),
                             memory_text(host.memory));
  std::vector<std::string> parts;
  if (!host.cpu_model.empty()) parts.push_back(host.cpu_model);
  if (!host.kernel.empty()) parts.push_back("kernel " + host.kernel);
  if (host.virtual_machine) parts.push_back(*host.virtual_machine ? "virtual machine" : "bare metal");
  if (host.container == true) parts.push_back("in a container");
  if (!parts.empty()) text += format_printable("    {}\n", join(parts));
  std::vector<std::string> versions;
  for (const auto& [name, version] : host.versions) versions.push_back(name + " " + version);
  if (!versions.empty()) text += format_printable("    {}\n", join(versions, ", "));
  if (host.libfabric) {
    const topo::Libfabric& libfabric = *host.libfabric;
    text += libfabric.problem.empty() ? format_printable("    libfabric providers: {}; {} devices\n",
                                                         join(libfabric.providers, " "), libfabric.domains.size())
                                      : format_printable("    libfabric: {}\n", libfabric.problem);
  }
  if (!host.gpu_problem.empty()) text += format_printable("  ! NVML: {}\n", host.gpu_problem);
}

void add_findings(std::string& text, const std::vector<Finding>& findings) {
  if (findings.empty()) {
    text += "No findings.\n";
    return;
  }
  for (const Finding& finding : findings) {
    std::string where = finding.subject.host;
    if (finding.subject.gpu) where += format_printable(" GPU {}", *finding.subject.gpu);
    if (finding.subject.nic) where += " " + *finding.subject.nic;
    text += format_printable("{}: {}{}: {}\n    {}\n", name_of(finding.severity), finding.id,
                             where.empty() ? "" : " " + where, finding.evidence, finding.action);
  }
}

// A line for each NVLink domain of several hosts: "NVLink domain d0: 18 hosts, n0 to n17".
void add_domains(std::string& text, const topo::Topology& topology) {
  std::map<int, std::vector<std::string>> hosts;
  const std::vector<int> domains = domains_of_hosts(topology);
  for (std::size_t host = 0; host < domains.size(); ++host) hosts[domains[host]].push_back(topology.hosts[host].name);
  if (hosts.size() == domains.size()) return;
  for (const auto& [domain, names] : hosts)
    text += format_printable("NVLink domain d{}: {}, {}{}\n", domain, counted(names.size(), "host"), names.front(),
                             names.size() > 1 ? " to " + names.back() : "");
}

}  // namespace

std::string render_topology(const topo::Topology& topology, const std::vector<Finding>& findings,
                            const std::vector<topo::Binding>& bindings) {
  std::string text;
  if (topology.provenance != "discovered")
    text += format_printable("{}{}: NOT this machine\n", topology.provenance == "recorded" ? "RECORDED" : "SYNTHETIC",
                             topology.taken.empty() ? "" : " " + topology.taken);
  text += format_printable("{}, platform {}\n", counted(topology.hosts.size(), "host"),
                           topology.platform.empty() ? "unknown" : topology.platform);
  add_domains(text, topology);
  for (std::size_t h = 0; h < topology.hosts.size(); ++h) {
    const Host& host = topology.hosts[h];
    text += "\n";
    add_host(text, host);
    add_tree(text, host, findings);
    add_links(text, host);
    add_bindings(text, host, static_cast<int>(h), bindings);
  }
  text += "\n";
  add_findings(text, findings);
  return text;
}

}  // namespace p5::reports
