// Reads the platform files strictly: a mistake in a new instance type is reported by file and field.
#include "topo/platform.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

using json_fields::BadValue, json_fields::between, json_fields::or_null;

// The fields of one object, which all have to be known.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) { json_fields::object_in(object); }

  // A field that a function reads.
  void take(const char* name, const auto& function) {
    known_.emplace_back(name);
    json_fields::at(name, [&, &j = json_fields::member(object_, name)] { function(j); });
  }
  // A list of which a function reads each item.
  void take_each(const char* name, const auto& function) {
    take(name, [&](const json& list) { json_fields::each_item(list, function); });
  }
  void must(const char* name, auto&& value) {
    take(name, [&](const json& j) { json_fields::read(j, value); });
  }
  void may(const char* name, auto&& value) {
    if (object_.contains(name))
      must(name, value);
    else
      known_.emplace_back(name);
  }

  void refuse_unknown() const {
    for (const auto& [name, value] : object_.items())
      if (std::ranges::find(known_, name) == known_.end())
        throw BadValue("/" + name, fmt::format("is an {}", unknown_name("field", name, known_)));
  }

 private:
  const json& object_;
  std::vector<std::string> known_;
};

// A text that is not empty.
auto not_empty(std::string& text) {
  return json_fields::As{text, [](const std::string& each) { return json(each); },
                         [](const json& j) {
                           if (json_fields::text_in(j).empty())
                             throw BadValue("", "has to be a text that is not empty");
                           return json_fields::text_in(j);
                         }};
}

auto in_microseconds(Seconds& time) {
  return json_fields::As{time, [](Seconds each) { return json(each.count * 1e6); },
                         [](const json& j) { return Seconds{json_fields::number_in(j, {.most = 1e6}) * 1e-6}; }};
}

void read_simulator(const json& j, Platform& platform) {
  Fields fields(j);
  fields.must("link_latency_us", in_microseconds(platform.link_latency));
  fields.must("nic_latency_us", in_microseconds(platform.nic_latency));
  platform.simulated_nics = platform.nics;
  platform.simulated_nic_rate = platform.nic_rate;
  if (platform.nics == 0) {
    fields.may("nics", between(1, 1024, platform.simulated_nics));
    if (platform.simulated_nics > 0) fields.must("nic_rate_gb_per_s", between(1e-3, 1e6, platform.simulated_nic_rate));
  }
  if (!platform.nvswitch) fields.may("links_between_gpus", platform.simulated_links);
  fields.refuse_unknown();
  const std::vector<std::vector<int>>& links = platform.simulated_links;
  bool right = links.empty() || std::cmp_equal(links.size(), platform.gpus);
  for (const std::vector<int>& of_gpu : links) right = right && of_gpu.size() == links.size();
  for (std::size_t a = 0; right && a < links.size(); ++a)
    for (std::size_t b = 0; right && b < links.size(); ++b)
      right = links[a][b] == links[b][a] && links[a][b] <= platform.links_per_gpu;
  if (!right) throw BadValue("/links_between_gpus", "has to have a whole number for each two GPUs");
}

// One collective on some nodes: a row for each of its sizes.
void read_series(const json& j, Platform& platform) {
  Fields fields(j);
  Published row;
  row.gpus = platform.gpus;
  fields.must("collective", not_empty(row.collective));
  fields.may("pattern", or_null(row.pattern));
  fields.may("algorithm", or_null(row.algorithm));
  fields.must("nodes", between(1, 1 << 20, row.nodes));
  fields.may("gpus", between(1, 1024, row.gpus));
  fields.may("tokens", between(1, 1 << 20, row.tokens));
  fields.must("healthy", row.healthy);
  fields.must("note", or_null(row.note));
  fields.must("date", or_null(row.date));
  fields.must("software", or_null(row.software));
  fields.must("source", not_empty(row.source));
  if (!row.healthy && row.note.empty()) throw BadValue("/note", "has to say what is not healthy about these figures");
  const bool rates = j.contains("busbw_gb_per_s");
  if (row.tokens && rates) throw BadValue("/latency_us", "is what figures of tokens have");
  fields.take(rates ? "busbw_gb_per_s" : "latency_us", [&](const json& figures) {
    if (json_fields::object_in(figures).empty()) throw BadValue("", "has to have a size and its figure, at least");
    for (const auto& figure : json_fields::object_in(figures))
      json_fields::at(figure.first, [&] {
        const double value = json_fields::number_in(figure.second, {.least = 1e-3, .most = 1e6});
        row.bytes = figure.first == "unknown" ? std::nullopt : std::optional(parse_bytes(figure.first));
        (rates ? row.busbw.emplace().count : row.latency.emplace().count) = rates ? value : value * 1e-6;
        platform.published.push_back(row);
      });
  });
  fields.refuse_unknown();
}

void read_conflict(const json& j, Platform& platform) {
  Fields fields(j);
  Conflict& conflict = platform.conflicts.emplace_back();
  fields.must("about", not_empty(conflict.about));
  fields.must("text", not_empty(conflict.text));
  fields.refuse_unknown();
}

void read_network(Fields& fields, Platform& platform) {
  static constexpr std::array<std::string_view, 2> networks{"efa", "any"};
  std::optional<int> nics;
  std::optional<double> nic_rate;
  fields.must("network", json_fields::one_of(platform.network, networks));
  fields.must("nics", between(0, 1024, nics));
  platform.nics = platform.network_cards = nics.value_or(0);
  fields.may("network_cards", between(platform.nics, 1024, platform.network_cards));
  fields.must("nic_rate_gb_per_s", between(0, 1e6, nic_rate));
  platform.nic_rate = {nic_rate.value_or(0)};
  fields.must("nic_efficiency", between(0, 1, platform.nic_efficiency));
  fields.must("gpu_direct_rdma", platform.gpu_direct_rdma);
}

Platform read_platform(const json& j) {
  Fields fields(j);
  Platform platform;
  std::uint64_t memory_mib = 0;
  fields.must("name", not_empty(platform.name));
  fields.must("summary", not_empty(platform.summary));
  fields.must("gpus", between(1, 1024, platform.gpus));
  fields.must("gpu", not_empty(platform.gpu));
  fields.must("gpu_memory_mib", between(1, 1 << 30, memory_mib));
  platform.gpu_memory = MiB(memory_mib);
  fields.must("gpu_pcie_generation", between(1, 6, platform.gpu_pcie_generation));
  fields.must("links_per_gpu", between(0, 1024, platform.links_per_gpu));
  fields.must("link_rate_gb_per_s", between(0, 1e6, platform.link_rate));
  fields.must("link_rate_raw_gb_per_s", between(0, 1e6, platform.link_rate_raw));
  fields.must("link_rate_achievable_gb_per_s", between(0, 1e6, platform.link_rate_achievable));
  fields.must("nvswitch", platform.nvswitch);
  fields.must("nodes_per_domain", between(1, 1024, platform.nodes_per_domain));
  fields.must("nvls", platform.nvls);
  fields.must("nvls_efficiency", between(0, 1, platform.nvls_efficiency));
  fields.must("baseboard", or_null(platform.baseboard));
  read_network(fields, platform);
  fields.must("dollars_per_hour", between(0, 1e6, platform.dollars_per_hour));
  fields.must("price_date", or_null(platform.price_date));
  fields.take("simulator", [&](const json& simulator) { read_simulator(simulator, platform); });
  fields.take_each("conflicts", [&](const json& conflict) { read_conflict(conflict, platform); });
  fields.take_each("published", [&](const json& series) { read_series(series, platform); });
  fields.must("sources", platform.sources);
  fields.refuse_unknown();
  return platform;
}

void check_consistent(std::string_view file, const Platform& platform) {
  if (file != platform.name + ".json") throw BadValue("/name", "has to be the name of the file without '.json'");
  if (platform.link_rate_achievable > platform.link_rate || platform.link_rate > platform.link_rate_raw)
    throw BadValue("/link_rate_gb_per_s", "has to lie between the achievable rate and the raw one");
  if (platform.links_per_gpu > 0 && !(platform.link_rate_achievable.count > 0))
    throw BadValue("/link_rate_achievable_gb_per_s", "has to be above zero where there are links");
  if (platform.nics > 0 && !(platform.nic_rate.count > 0 && platform.nic_efficiency.value_or(1) > 0))
    throw BadValue("/nic_rate_gb_per_s", "and 'nic_efficiency' have to be above zero where there are NICs");
  if (platform.nodes_per_domain > 1 && !platform.nvswitch)
    throw BadValue("/nodes_per_domain", "has to be 1 where there is no switch");
  if (platform.nvls && !platform.nvswitch) throw BadValue("/nvls", "is a faculty of the switch: there is none");
  if (!platform.nvls && platform.nvls_efficiency)
    throw BadValue("/nvls_efficiency", "has to be null where there is no NVLS");
  if (platform.dollars_per_hour.has_value() == platform.price_date.empty())
    throw BadValue("/price_date", "has to be there where there is a price, and only there");
  if (platform.sources.empty()) throw BadValue("/sources", "has to name a source, at least");
}

std::vector<Platform> load_all() {
  std::vector<Platform> all;
  for (const embedded::File& file : embedded::platform_files()) all.push_back(parse_platform(file.name, file.text));
  std::sort(all.begin(), all.end(), [](const Platform& a, const Platform& b) { return a.name < b.name; });
  for (const Platform& platform : all)
    if (!platform.baseboard.empty() && std::ranges::find(all, platform.baseboard, &Platform::name) == all.end())
      throw UsageError(fmt::format("platform file {}.json: 'baseboard': there is no platform '{}'", platform.name,
                                   platform.baseboard));
  return all;
}

}  // namespace

Platform parse_platform(std::string_view file, std::string_view text) try {
  Platform platform = read_platform(json::parse(text));
  check_consistent(file, platform);
  return platform;
} catch (const json::exception& problem) {
  throw UsageError(fmt::format("platform file {}: not JSON: {}", file, problem.what()));
} catch (const BadValue& problem) {
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
