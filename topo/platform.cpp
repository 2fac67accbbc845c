#include "topo/platform.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "bench/base/embedded.hpp"
#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/names.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

using nlohmann::json;

namespace {

// Constants of the simulator, and its NICs where those of the platform are not known.
struct Simulator {
  double link_latency_us = 0, nic_latency_us = 0;
  int nics = 0;
  GBps nic_rate;
  std::vector<std::vector<int>> links;
};

void fields(auto& archive, Is<Simulator> auto& simulator) {
  archive.must("link_latency_us", simulator.link_latency_us);
  archive.must("nic_latency_us", simulator.nic_latency_us);
  archive.may("nics", simulator.nics);
  archive.may("nic_rate_gb_per_s", simulator.nic_rate);
  archive.may("links_between_gpus", simulator.links);
}

// Figures of one collective on some nodes, by size.
struct PublishedSeries {
  Published row;  // what they have in common
  std::optional<int> gpus;
  std::map<std::string, double> busbw, latency_us;
};

void fields(auto& archive, Is<PublishedSeries> auto& series) {
  archive.must("collective", series.row.collective);
  archive.may("pattern", series.row.pattern);
  archive.may("algorithm", series.row.algorithm);
  archive.must("nodes", json_fields::at_least(1, series.row.nodes));
  archive.may("gpus", series.gpus);
  archive.may("tokens", series.row.tokens);
  archive.may("busbw_gb_per_s", series.busbw);
  archive.may("latency_us", series.latency_us);
  archive.must("healthy", series.row.healthy);
  archive.must("note", json_fields::or_null(series.row.note));
  archive.must("date", json_fields::or_null(series.row.date));
  archive.must("software", json_fields::or_null(series.row.software));
  archive.must("source", series.row.source);
}

// A row for each size.
void add_rows(const PublishedSeries& series, Platform& platform) {
  Published row = series.row;
  row.gpus = series.gpus.value_or(platform.gpus);
  const auto bytes_in = [](const std::string& size) {
    return size == "unknown" ? std::nullopt : std::optional(parse_bytes(size));
  };
  for (const auto& [size, busbw] : series.busbw) {
    row.bytes = bytes_in(size);
    row.busbw = GBps{busbw};
    platform.published.push_back(row);
  }
  row.busbw.reset();
  for (const auto& [size, latency_us] : series.latency_us) {
    row.bytes = bytes_in(size);
    row.latency = Seconds{latency_us * 1e-6};
    platform.published.push_back(row);
  }
}

}  // namespace

void fields(auto& archive, Is<Conflict> auto& conflict) {
  archive.must("about", conflict.about);
  archive.must("text", conflict.text);
}

namespace {

Platform read_platform(const json& j) {
  static constexpr std::array<std::string_view, 2> networks{"efa", "any"};
  const json_fields::Reader archive{json_fields::object_in(j)};
  Platform platform;
  std::uint64_t memory_mib = 0;
  std::optional<int> nics;
  std::optional<GBps> nic_rate;
  Simulator simulator;
  std::vector<PublishedSeries> published;
  archive.must("name", platform.name);
  archive.must("summary", platform.summary);
  archive.must("gpus", json_fields::at_least(1, platform.gpus));
  archive.must("gpu", platform.gpu);
  archive.must("gpu_memory_mib", memory_mib);
  archive.must("gpu_pcie_generation", platform.gpu_pcie_generation);
  archive.must("links_per_gpu", platform.links_per_gpu);
  archive.must("link_rate_gb_per_s", platform.link_rate);
  archive.must("link_rate_raw_gb_per_s", platform.link_rate_raw);
  archive.must("link_rate_achievable_gb_per_s", platform.link_rate_achievable);
  archive.must("nvswitch", platform.nvswitch);
  archive.must("nodes_per_domain", json_fields::at_least(1, platform.nodes_per_domain));
  archive.must("nvls", platform.nvls);
  archive.must("nvls_efficiency", platform.nvls_efficiency);
  archive.must("baseboard", json_fields::or_null(platform.baseboard));
  archive.must("network", json_fields::one_of(platform.network, networks));
  archive.must("nics", nics);
  platform.nics = platform.network_cards = nics.value_or(0);
  archive.may("network_cards", platform.network_cards);
  archive.must("nic_rate_gb_per_s", nic_rate);
  archive.must("nic_efficiency", platform.nic_efficiency);
  archive.must("gpu_direct_rdma", platform.gpu_direct_rdma);
  archive.must("dollars_per_hour", platform.dollars_per_hour);
  archive.must("price_date", json_fields::or_null(platform.price_date));
  archive.must("simulator", simulator);
  archive.must("conflicts", platform.conflicts);
  archive.must("published", published);
  archive.must("sources", platform.sources);
  platform.gpu_memory = MiB(memory_mib);
  platform.nic_rate = nic_rate.value_or(GBps{});
  platform.link_latency = {simulator.link_latency_us * 1e-6};
  platform.nic_latency = {simulator.nic_latency_us * 1e-6};
  platform.simulated_nics = nics ? *nics : simulator.nics;
  platform.simulated_nic_rate = nics ? platform.nic_rate : simulator.nic_rate;
  platform.simulated_links = std::move(simulator.links);
  for (const PublishedSeries& series : published) add_rows(series, platform);
  return platform;
}

std::vector<Platform> load_all() {
  std::vector<Platform> all;
  for (const embedded::File& file : embedded::platform_files()) all.push_back(parse_platform(file.name, file.text));
  std::sort(all.begin(), all.end(), [](const Platform& a, const Platform& b) { return a.name < b.name; });
  return all;
}

}  // namespace

Platform parse_platform(std::string_view file, std::string_view text) try {
  return read_platform(json::parse(text));
} catch (const std::exception& problem) {
  throw UsageError(fmt::format("platform file {}: {}", file, problem.what()));
}

const std::vector<Platform>& platforms() {
  static const std::vector<Platform> all = load_all();
  return all;
}

std::vector<std::string> platform_names() {
  std::vector<std::string> names;
  for (const Platform& platform : platforms()) names.push_back(platform.name);
  return names;
}

const Platform& find_platform(std::string_view name) {
  if (const Platform* platform = platform_of_instance_type(name)) return *platform;
  throw UsageError(unknown_name("platform", name, platform_names()));
}

const Platform* platform_of_instance_type(std::string_view instance_type) {
  const auto at = std::find_if(platforms().begin(), platforms().end(),
                               [&](const Platform& platform) { return platform.name == instance_type; });
  return at == platforms().end() ? nullptr : &*at;
}

const Conflict* Platform::conflict_about(std::string_view what) const {
  const auto at = std::ranges::find(conflicts, what, &Conflict::about);
  return at == conflicts.end() ? nullptr : &*at;
}

namespace {

// The model that platforms have, of a GPU on a board with NVSwitches; "" for others.
std::string model_of(std::string_view name, int links) {
  // Boards for PCIe: "NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIE-40GB", "NVIDIA H100 NVL".
  const std::string words = lower(name);
  if (words.find("pcie") != std::string::npos || words.find("nvl") != std::string::npos) return "";
  for (const Platform& platform : platforms()) {
    if (platform.network != "any" || platform.links_per_gpu != links) continue;
    // "NVIDIA H200" and "NVIDIA H100 80GB HBM3", but not "NVIDIA GH200" nor "NVIDIA A100X", a board for PCIe.
    const std::string model = "NVIDIA " + platform.gpu;
    if (name == model || name.starts_with(model + " ") || name.starts_with(model + "-")) return platform.gpu;
  }
  return "";
}

}  // namespace

std::string gpu_model(const Topology& topology) {
  std::set<std::pair<std::string_view, int>> kinds;
  for (const Host& host : topology.hosts)
    for (const Gpu& gpu : host.gpu_devices)
      if (!gpu.name.empty()) kinds.emplace(gpu.name, gpu.links_possible.value_or(0));
  std::set<std::string> models;
  for (const auto& [name, links] : kinds) models.insert(model_of(name, links));
  if (models.size() > 1) return "";
  if (models.size() == 1 && !models.begin()->empty()) return *models.begin();
  const Platform* const platform = platform_of_instance_type(topology.platform);
  return platform ? platform->gpu : "";
}

namespace {

// Why the host cannot be of the platform; "": nothing says so.
std::string contradiction(const Host& host, const Platform& platform) {
  const Platform* const own = platform_of_instance_type(host.instance_type);
  const bool may_be = !own || own->name == platform.name || (platform.network == "any" && own->gpu == platform.gpu);
  if (!may_be) return fmt::format("{} is a {}", host.name, own->name);
  for (const Gpu& gpu : host.gpu_devices)
    if (const std::string model = model_of(gpu.name, gpu.links_possible.value_or(0));
        !model.empty() && model != platform.gpu)
      return fmt::format("{} has {} ({}), and {} has {}", host.name, model, gpu.name, platform.name, platform.gpu);
  return "";
}

// True if NVLinks join GPUs of the host directly, as on boards without a switch: 4 x GB200 may be such a board.
bool has_direct_links(const Host& host) {
  return std::ranges::any_of(host.gpu_devices, [&](const Gpu& one) {
    return std::ranges::any_of(host.gpu_devices,
                               [&](const Gpu& other) { return &one != &other && links_between(one, other) > 0; });
  });
}

// Names that the hosts of a platform have.
struct Names {
  std::set<std::string> instance_types, gpus;
};

// True if the host, which is of no known platform, has an instance type, links or GPUs that the hosts of the platform
// lack.
bool is_unlike(const Host& host, const Platform& platform, const Names& names) {
  if (platform.nvswitch && has_direct_links(host)) return true;
  if (!host.instance_type.empty() && !names.instance_types.contains(host.instance_type)) return true;
  bool has_names = false;
  for (const Gpu& gpu : host.gpu_devices) {
    if (gpu.name.empty()) continue;
    if (names.gpus.contains(gpu.name) || model_of(gpu.name, gpu.links_possible.value_or(0)) == platform.gpu)
      return false;
    has_names = true;
  }
  return has_names && !names.gpus.empty();
}

}  // namespace

const Platform* platform_of_most(const std::vector<Host>& hosts) {
  std::vector<const Platform*> all;
  for (const Host& host : hosts) all.push_back(platform_of(host));
  const Platform* most = nullptr;
  for (const Platform* const its : all)
    if (its && (!most || std::ranges::count(all, its) > std::ranges::count(all, most))) most = its;
  const Platform* const none = nullptr;
  return std::ranges::count(all, most) >= std::ranges::count(all, none) ? most : nullptr;
}

std::vector<const Platform*> platforms_of_hosts(const Topology& topology) {
  const Platform* const most = platform_of_instance_type(topology.platform);
  std::vector<const Platform*> all(topology.hosts.size(), most);
  if (!most) return all;
  std::vector<const Platform*> own;
  Names names;
  for (const Host& host : topology.hosts) {
    own.push_back(platform_of(host));
    if (own.back() != most) continue;
    names.instance_types.insert(host.instance_type);
    for (const Gpu& gpu : host.gpu_devices)
      if (!gpu.name.empty()) names.gpus.insert(gpu.name);
  }
  const bool is_sure = std::ranges::find(own, most) != own.end();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Host& host = topology.hosts[i];
    if (own[i] == most) continue;
    if (!contradiction(host, *most).empty() || (is_sure && !own[i] && is_unlike(host, *most, names))) all[i] = own[i];
  }
  return all;
}

bool has_one_platform(const Topology& topology) {
  const std::vector<const Platform*> all = platforms_of_hosts(topology);
  return all.empty() || std::ranges::count(all, all.front()) == std::ssize(all);
}

namespace {

// True if the host has the GPUs of the platform, or fewer and the board's NVSwitches all the same. A virtual machine
// may have been given a part of a board.
bool has_board_of(const Platform& platform, const Host& host) {
  if (std::cmp_equal(host.gpu_devices.size(), platform.gpus)) return true;
  return std::cmp_less(host.gpu_devices.size(), platform.gpus) && platform.nvswitch &&
         host.nvswitches.value_or(0) > 0 && host.virtual_machine == false;
}

}  // namespace

const Platform* platform_of(const Host& host) {
  if (const Platform* known = platform_of_instance_type(host.instance_type)) return known;
  for (const Platform& platform : platforms())
    if (platform.network == "any" && has_board_of(platform, host) &&
        std::ranges::any_of(host.gpu_devices, [](const Gpu& gpu) { return !gpu.name.empty(); }) &&
        std::ranges::all_of(host.gpu_devices,
                            [&](const Gpu& gpu) {
                              return gpu.name.empty() ||
                                     model_of(gpu.name, gpu.links_possible.value_or(0)) == platform.gpu;
                            }) &&
        !(platform.nvswitch && has_direct_links(host)))
      return &platform;
  return nullptr;
}

std::string contradiction(const Topology& topology, const Platform& platform) {
  for (const Host& host : topology.hosts)
    if (std::string why = contradiction(host, platform); !why.empty()) return why;
  return "";
}

const Platform& platform_named_for(const Topology& topology, std::string_view name) {
  const Platform& platform = find_platform(name);
  if (const std::string why = contradiction(topology, platform); !why.empty())
    throw UsageError(
        fmt::format("--platform {}: {}; leave --platform out, or name another (p5bench list platforms)", name, why));
  return platform;
}

std::vector<Published> published_of(const Platform& platform) {
  std::vector<Published> all = platform.published;
  if (!platform.baseboard.empty())
    for (const Published& each : find_platform(platform.baseboard).published)
      if (each.nodes == 1) all.push_back(each);
  return all;
}

// ---- The made-up machine of the simulator.

namespace {

void add_links_between_gpus(const Platform& platform, Host& host) {
  if (platform.simulated_links.empty()) return;
  for (std::size_t gpu = 0; gpu < host.gpu_devices.size(); ++gpu)
    host.gpu_devices[gpu].pci.address = fmt::format("0000:{:02x}:00.0", 16 + gpu);
  for (std::size_t a = 0; a < host.gpu_devices.size(); ++a)
    for (std::size_t b = 0; b < host.gpu_devices.size(); ++b)
      for (int link = 0; link < platform.simulated_links[a][b]; ++link) {
        std::vector<NvLink>& links = host.gpu_devices[a].nvlinks;
        links.push_back({.number = static_cast<int>(links.size()),
                         .active = true,
                         .rate_raw = platform.link_rate_raw,
                         .remote = "gpu",
                         .remote_pci = host.gpu_devices[b].pci.address});
      }
}

Host synthetic_host(const Platform& platform, int node) {
  Host host;
  host.name = host.host_name = fmt::format("n{}", node);
  host.boot_id = fmt::format("synthetic-{}", node);
  host.instance_type = platform.name;
  host.gpus = platform.gpus;
  // A switch for each GPU or each NIC, whichever there are fewer of; half of them near each NUMA node.
  host.numa_nodes = platform.gpus > 1 ? 2 : 1;
  for (int i = 0; i < host.numa_nodes; ++i) host.numa.push_back({i});
  const int nics = platform.simulated_nics;
  const int switches = std::max(1, nics > 0 ? std::min(platform.gpus, nics) : platform.gpus);
  const auto numa_of = [&](int at) { return at * host.numa_nodes / switches; };
  const auto place = [&](int at) {
    return PciPosition{"", {fmt::format("pci{:04x}:00", numa_of(at)), fmt::format("switch {}", at)}};
  };
  for (int i = 0; i < platform.gpus; ++i) {
    const int at = i * switches / platform.gpus;
    Gpu gpu;
    gpu.uuid = fmt::format("SIM-{}g{}", host.name, i);
    gpu.name = platform.gpu;
    gpu.memory = platform.gpu_memory;
    if (platform.links_per_gpu > 0) gpu.links = gpu.links_possible = platform.links_per_gpu;
    if (platform.nodes_per_domain > 1) {
      gpu.fabric_cluster = fmt::format("{:032x}", node / platform.nodes_per_domain + 1);
      gpu.fabric_clique = 0;
    }
    gpu.pci = place(at);
    gpu.numa_node = numa_of(at);
    host.gpu_devices.push_back(std::move(gpu));
  }
  add_links_between_gpus(platform, host);
  for (int i = 0; i < nics; ++i) {
    const int at = i * switches / nics;
    Nic nic{fmt::format("rdma{}", i), "efa", "efa", "up", platform.simulated_nic_rate, numa_of(at)};
    nic.pci = place(at);
    host.nics.push_back(std::move(nic));
  }
  find_rails(host);
  return host;
}

}  // namespace

Topology synthetic(const Platform& platform, int nodes) {
  Topology topology;
  topology.provenance = "synthetic";
  topology.platform = platform.name;
  for (int node = 0; node < nodes; ++node) {
    topology.hosts.push_back(synthetic_host(platform, node));
    topology.host_of_rank.insert(topology.host_of_rank.end(), static_cast<std::size_t>(platform.gpus), node);
  }
  return topology;
}

}  // namespace p5::topo
