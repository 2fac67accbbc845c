// Reads the platform files strictly: a mistake in a new instance type is reported by file and field.
#include "topo/platform.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "bench/base/embedded.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

using nlohmann::json;

namespace {

// The fields of one object. Every field has to be there, in bounds and known.
class Fields {
 public:
  Fields(std::string_view file, const json& object, std::string prefix = "")
      : file_(file), object_(object), prefix_(std::move(prefix)) {
    if (!object_.is_object()) throw refused(prefix_, "has to be an object");
  }

  UsageError refused(std::string_view field, std::string_view why) const {
    return UsageError(
        fmt::format("platform file {}: {} {}", file_, field.empty() ? "it" : fmt::format("'{}'", field), why));
  }

  const json& at(const std::string& field) {
    known_.insert(field);
    if (!object_.contains(field)) throw refused(prefix_ + field, "is missing");
    return object_[field];
  }

  std::string text(const std::string& field) {
    const json& value = at(field);
    if (!value.is_string() || value.get_ref<const std::string&>().empty())
      throw refused(prefix_ + field, fmt::format("has to be a text that is not empty, not {}", value.dump()));
    return value.get<std::string>();
  }

  double number(const std::string& field, double least, double most) {
    const json& value = at(field);
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most))
      throw refused(prefix_ + field,
                    fmt::format("has to be a number from {} to {}, not {}", least, most, value.dump()));
    return value.get<double>();
  }

  int whole(const std::string& field, int least, int most) {
    const double value = number(field, least, most);
    if (value != std::floor(value))
      throw refused(prefix_ + field, fmt::format("has to be a whole number, not {}", value));
    return static_cast<int>(value);
  }

  std::optional<double> number_or_null(const std::string& field, double least, double most) {
    if (at(field).is_null()) return std::nullopt;
    return number(field, least, most);
  }

  std::string text_or_null(const std::string& field) { return at(field).is_null() ? "" : text(field); }

  // A field that need not be there, as the next one.
  int whole_or(const std::string& field, int least, int most, int otherwise) {
    known_.insert(field);
    return object_.contains(field) ? whole(field, least, most) : otherwise;
  }

  std::string text_or(const std::string& field, const std::string& otherwise) {
    known_.insert(field);
    return object_.contains(field) ? text_or_null(field) : otherwise;
  }

  bool yes(const std::string& field) {
    const json& value = at(field);
    if (!value.is_boolean())
      throw refused(prefix_ + field, fmt::format("has to be true or false, not {}", value.dump()));
    return value.get<bool>();
  }

  GBps rate(const std::string& field) { return {number(field, 0, 1e6)}; }
  Seconds latency(const std::string& field) { return {number(field, 0, 1e6) * 1e-6}; }

  void refuse_unknown() const {
    const std::vector<std::string> candidates(known_.begin(), known_.end());
    for (const auto& [field, value] : object_.items())
      if (!known_.contains(field))
        throw refused(prefix_ + field, fmt::format("is an {}", unknown_name("field", field, candidates)));
  }

 private:
  std::string_view file_;
  const json& object_;
  std::string prefix_;
  std::set<std::string> known_;
};

std::vector<std::string> sources(Fields& fields) {
  std::vector<std::string> list;
  const json& value = fields.at("sources");
  for (const json& source : value)
    if (source.is_string()) list.push_back(source);
  if (!value.is_array() || list.empty() || list.size() != value.size())
    throw fields.refused("sources", "has to be a list of texts, at least one: a fact without a source is a rumour");
  return list;
}

void read_latencies(std::string_view file, Fields& fields, Platform& platform) {
  const json& object = fields.at("simulator");
  Fields simulator(file, object, "simulator.");
  platform.link_latency = simulator.latency("link_latency_us");
  platform.nic_latency = simulator.latency("nic_latency_us");
  platform.simulated_nics = platform.nics;
  platform.simulated_nic_rate = platform.nic_rate;
  if (platform.nics == 0 && object.contains("nics")) {
    platform.simulated_nics = simulator.whole("nics", 1, 1024);
    platform.simulated_nic_rate = {simulator.number("nic_rate_gb_per_s", 1e-3, 1e6)};
  }
  if (!platform.nvswitch && object.contains("links_between_gpus")) {
    const json& rows = simulator.at("links_between_gpus");
    const auto gpus = static_cast<std::size_t>(platform.gpus);
    bool right = rows.is_array() && rows.size() == gpus;
    for (std::size_t a = 0; right && a < gpus; ++a) right = rows[a].is_array() && rows[a].size() == gpus;
    for (std::size_t a = 0; right && a < gpus; ++a)
      for (std::size_t b = 0; right && b < gpus; ++b)
        right = rows[a][b].is_number_unsigned() && rows[a][b] == rows[b][a] && rows[a][b] <= platform.links_per_gpu;
    if (!right) throw simulator.refused("links_between_gpus", "has to have a whole number for each two GPUs");
    platform.simulated_links = rows.get<std::vector<std::vector<int>>>();
  }
  simulator.refuse_unknown();
}

// One collective on some nodes: a row for each of its sizes.
void read_series(std::string_view file, const json& object, const std::string& prefix, Platform& platform) {
  Fields fields(file, object, prefix);
  Published row;
  row.collective = fields.text("collective");
  row.pattern = fields.text_or("pattern", "");
  row.algorithm = fields.text_or("algorithm", "");
  row.nodes = fields.whole("nodes", 1, 1 << 20);
  row.gpus = object.contains("gpus") ? fields.whole("gpus", 1, 1024) : platform.gpus;
  if (object.contains("tokens")) row.tokens = fields.whole("tokens", 1, 1 << 20);
  row.healthy = fields.yes("healthy");
  row.note = fields.text_or_null("note");
  row.date = fields.text_or_null("date");
  row.software = fields.text_or_null("software");
  row.source = fields.text("source");
  if (!row.healthy && row.note.empty())
    throw fields.refused(prefix + "note", "has to say what is not healthy about these figures");
  const bool rates = object.contains("busbw_gb_per_s");
  const std::string quantity = rates ? "busbw_gb_per_s" : "latency_us";
  if (row.tokens && rates) throw fields.refused(prefix + "latency_us", "is what figures of tokens have");
  const json& figures = fields.at(quantity);
  fields.refuse_unknown();
  if (!figures.is_object() || figures.empty())
    throw fields.refused(prefix + quantity, "has to be an object of sizes and figures, at least one");
  Fields sizes(file, figures, prefix + quantity + ".");
  for (const auto& [size, figure] : figures.items()) {
    const double value = sizes.number(size, 1e-3, 1e6);
    row.bytes = size == "unknown" ? std::nullopt : std::optional(parse_bytes(size));
    (rates ? row.busbw.emplace().count : row.latency.emplace().count) = rates ? value : value * 1e-6;
    platform.published.push_back(row);
  }
}

void read_published(std::string_view file, Fields& fields, Platform& platform) {
  const json& list = fields.at("published");
  if (!list.is_array()) throw fields.refused("published", "has to be a list, also where it is empty");
  for (std::size_t i = 0; i < list.size(); ++i) read_series(file, list[i], fmt::format("published[{}].", i), platform);
}

void read_conflicts(std::string_view file, Fields& fields, Platform& platform) {
  const json& list = fields.at("conflicts");
  if (!list.is_array()) throw fields.refused("conflicts", "has to be a list, also where it is empty");
  for (std::size_t i = 0; i < list.size(); ++i) {
    Fields conflict(file, list[i], fmt::format("conflicts[{}].", i));
    platform.conflicts.push_back({conflict.text("about"), conflict.text("text")});
    conflict.refuse_unknown();
  }
}

void read_network(Fields& fields, Platform& platform) {
  platform.network = fields.text("network");
  if (platform.network != "efa" && platform.network != "any")
    throw fields.refused("network", fmt::format("has to be \"efa\" or \"any\", not \"{}\"", platform.network));
  platform.nics = fields.at("nics").is_null() ? 0 : fields.whole("nics", 0, 1024);
  platform.network_cards = fields.whole_or("network_cards", platform.nics, 1024, platform.nics);
  platform.nic_rate = {fields.number_or_null("nic_rate_gb_per_s", 0, 1e6).value_or(0)};
  platform.nic_efficiency = fields.number_or_null("nic_efficiency", 0, 1);
  platform.gpu_direct_rdma = fields.yes("gpu_direct_rdma");
}

void read_parts(Fields& fields, Platform& platform) {
  platform.gpus = fields.whole("gpus", 1, 1024);
  platform.gpu = fields.text("gpu");
  platform.gpu_memory = MiB(static_cast<std::uint64_t>(fields.whole("gpu_memory_mib", 1, 1 << 30)));
  if (const auto generation = fields.number_or_null("gpu_pcie_generation", 1, 6))
    platform.gpu_pcie_generation = static_cast<int>(*generation);
  platform.links_per_gpu = fields.whole("links_per_gpu", 0, 1024);
  platform.link_rate = fields.rate("link_rate_gb_per_s");
  platform.link_rate_raw = fields.rate("link_rate_raw_gb_per_s");
  platform.link_rate_achievable = fields.rate("link_rate_achievable_gb_per_s");
  platform.nvswitch = fields.yes("nvswitch");
  platform.nodes_per_domain = fields.whole("nodes_per_domain", 1, 1024);
  platform.nvls = fields.yes("nvls");
  platform.nvls_efficiency = fields.number_or_null("nvls_efficiency", 0, 1);
  platform.baseboard = fields.text_or_null("baseboard");
  read_network(fields, platform);
}

void check_consistent(const Fields& fields, std::string_view file, const Platform& platform) {
  if (file != platform.name + ".json") throw fields.refused("name", "has to be the name of the file without '.json'");
  if (platform.link_rate_achievable > platform.link_rate || platform.link_rate > platform.link_rate_raw)
    throw fields.refused("link_rate_gb_per_s", "has to lie between the achievable rate and the raw one");
  if (platform.links_per_gpu > 0 && !(platform.link_rate_achievable.count > 0))
    throw fields.refused("link_rate_achievable_gb_per_s", "has to be above zero where there are links");
  if (platform.nics > 0 && !(platform.nic_rate.count > 0 && platform.nic_efficiency.value_or(1) > 0))
    throw fields.refused("nic_rate_gb_per_s", "and 'nic_efficiency' have to be above zero where there are NICs");
  if (platform.nodes_per_domain > 1 && !platform.nvswitch)
    throw fields.refused("nodes_per_domain", "has to be 1 where there is no switch");
  if (platform.nvls && !platform.nvswitch) throw fields.refused("nvls", "is a faculty of the switch: there is none");
  if (!platform.nvls && platform.nvls_efficiency)
    throw fields.refused("nvls_efficiency", "has to be null where there is no NVLS");
  if (platform.dollars_per_hour.has_value() == platform.price_date.empty())
    throw fields.refused("price_date", "has to be there where there is a price, and only there");
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

Platform parse_platform(std::string_view file, std::string_view text) {
  json object;
  try {
    object = json::parse(text);
  } catch (const json::exception& problem) {
    throw UsageError(fmt::format("platform file {}: not JSON: {}", file, problem.what()));
  }
  Fields fields(file, object);
  Platform platform;
  platform.name = fields.text("name");
  platform.summary = fields.text("summary");
  read_parts(fields, platform);
  platform.dollars_per_hour = fields.number_or_null("dollars_per_hour", 0, 1e6);
  platform.price_date = fields.text_or_null("price_date");
  read_latencies(file, fields, platform);
  read_conflicts(file, fields, platform);
  read_published(file, fields, platform);
  platform.sources = sources(fields);
  fields.refuse_unknown();
  check_consistent(fields, file, platform);
  return platform;
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
