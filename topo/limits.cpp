// The arithmetic of limits: each rate together with a sentence by which a reader can check it by hand.
#include "topo/limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/names.hpp"
#include "topo/checks/families.hpp"

namespace p5::topo {

using nlohmann::json;

namespace {

constexpr std::array<std::pair<Level, std::string_view>, 3> level_names{
    {{Level::wire, "wire"}, {Level::achievable, "achievable"}, {Level::published, "published"}}};

// Open MPI's shared memory without a single-copy mechanism (vader without CMA) copies a message into a shared segment
// and the receiver out of it again; containers and ptrace restrictions often forbid the single copy.
constexpr double copies_in_and_out = 0.5;

Limit limit(std::string_view name, Level level, double rate, std::string_view binding, std::string because) {
  return {std::string(name), level, {rate}, std::string(binding), std::move(because)};
}

void add_link_limits(Limits& limits, const Platform& platform) {
  const int links = platform.links_per_gpu;
  const double wire = links * platform.link_rate.count;
  const double achievable = links * platform.link_rate_achievable.count;
  const std::string_view name = platform.nvswitch ? gpu_link : gpu_mesh;
  limits.push_back(
      limit(name, Level::wire, wire, "nvlink",
            fmt::format("{} NVLinks x {} GB/s = {} GB/s, one direction (raw signalling {} x {} = {} GB/s)", links,
                        shown(platform.link_rate.count), shown(wire), links, shown(platform.link_rate_raw.count),
                        shown(links * platform.link_rate_raw.count))));
  limits.push_back(limit(name, Level::achievable, achievable, "nvlink",
                         fmt::format("{} NVLinks x {} GB/s = {} GB/s: the rate of a link in NCCL's own model", links,
                                     shown(platform.link_rate_achievable.count), shown(achievable))));
}

// Ratio of an all-reduce's bus bandwidth to the rate of a GPU's links. A share is 1/n of the message. With NVLS each
// GPU sends its input (n shares) and the sum of its own share, and receives as much: n + 1 shares each way. A ring
// needs 2 (n - 1).
double nvls_factor(int gpus) { return 2.0 * (gpus - 1) / (gpus + 1); }

// "8 x H100": the GPUs of the published all-reduce within an NVLink domain whose fraction of NVLS's wire rate is
// nearest to this one.
std::string gpus_that_reached(const Platform& platform, double link, double fraction) {
  std::string gpus = platform.gpu;
  std::optional<double> nearest;
  for (const Published& row : published_of(platform)) {
    const int number = row.nodes * row.gpus;
    if (!row.healthy || !row.busbw || row.collective != "all_reduce" || row.algorithm == "ring" ||
        platform.domains(row.nodes) > 1 || number < 2)
      continue;
    const double distance = std::abs(row.busbw->count / (link * nvls_factor(number)) - fraction);
    if (nearest && distance >= *nearest) continue;
    nearest = distance;
    gpus = fmt::format("{} x {}", number, platform.gpu);
  }
  return gpus;
}

void add_nvls_limits(Limits& limits, const Platform& platform) {
  const double link = platform.links_per_gpu * platform.link_rate.count;
  const double wire = link * nvls_factor(platform.gpus);
  const std::string text = fmt::format(
      "{} GB/s x 2 x {} / {} = {} GB/s of bus bandwidth for all_reduce: with reduction in the switch each of {} "
      "GPUs moves {} shares, in a ring {}",
      shown(link), platform.gpus - 1, platform.gpus + 1, shown(wire), platform.gpus, platform.gpus + 1,
      2 * (platform.gpus - 1));
  limits.push_back(limit(gpu_nvls, Level::wire, wire, "nvls", text));
  if (!platform.nvls_efficiency) return;
  const double achievable = wire * *platform.nvls_efficiency;
  limits.push_back(limit(gpu_nvls, Level::achievable, achievable, "nvls",
                         fmt::format("{} GB/s x {} = {} GB/s: the fraction that published NCCL runs on {} reached",
                                     shown(wire), shown(*platform.nvls_efficiency), shown(achievable),
                                     gpus_that_reached(platform, link, *platform.nvls_efficiency))));
}

void add_nic_limits(Limits& limits, const Platform& platform) {
  const double rate = platform.nic_rate.count, node = platform.nics * rate;
  const std::string node_text = fmt::format("{} NICs x {} GB/s", platform.nics, shown(rate));
  const auto add = [&](std::string_view name, double wire, const std::string& text) {
    limits.push_back(
        limit(name, Level::wire, wire, "nic", fmt::format("{} = {} GB/s, one direction", text, shown(wire))));
    if (!platform.nic_efficiency) return;
    const double achievable = wire * *platform.nic_efficiency;
    limits.push_back(
        limit(name, Level::achievable, achievable, "nic",
              fmt::format("{} x {} = {} GB/s: the fraction that published NCCL runs on {} reached over many nodes",
                          text, shown(*platform.nic_efficiency), shown(achievable), platform.name)));
  };
  limits.push_back(
      limit(one_nic, Level::wire, rate, "nic", fmt::format("1 NIC of {} GB/s, one direction", shown(rate))));
  add(gpu_nics, node / platform.gpus, fmt::format("{} / {} GPUs", node_text, platform.gpus));
  const int own = std::max(1, platform.nics / platform.gpus);
  add(gpu_nics_alone, own * rate,
      fmt::format("{} {} x {} GB/s beside one GPU", own, own == 1 ? "NIC" : "NICs", shown(rate)));
  add(node_nics, node, node_text);
}

// The NICs that carry a job's traffic. On a host with a fabric, Ethernet is not counted: it often shares the fabric's
// ports (EFA and ENA). Null where it is not known which of InfiniBand and Ethernet carries the traffic.
std::optional<std::vector<const Nic*>> traffic_nics(const Host& host) {
  std::vector<const Nic*> nics = nics_of_fabric(host);
  const bool has_fabric = !nics.empty();
  for (const Nic& nic : host.nics) {
    if (has_fabric) break;
    if (nic.kind == "infiniband" && nic.state == "up") return std::nullopt;
    if (nic.kind == "ethernet") nics.push_back(&nic);
  }
  std::erase_if(nics, [](const Nic* nic) { return nic->state != "up"; });
  return nics;
}

struct Sum {
  double rate = 0;
  std::string text;  // "32 x 12.5 GB/s"
};

std::optional<Sum> stated_sum(const Host& host) {
  std::map<double, int> count_of_rate;
  const auto nics = traffic_nics(host);
  if (!nics) return std::nullopt;
  for (const Nic* const nic : *nics) {
    if (!nic->rate) return std::nullopt;
    ++count_of_rate[nic->rate->count];
  }
  if (count_of_rate.empty()) return std::nullopt;
  Sum sum;
  std::vector<std::string> parts;
  for (const auto& [rate, count] : count_of_rate) {
    sum.rate += rate * count;
    parts.push_back(fmt::format("{} x {} GB/s", count, shown(rate)));
  }
  sum.text = join(parts, " + ");
  return sum;
}

bool share_a_kernel(const std::vector<Host>& hosts) {
  std::set<std::string> seen;
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](const Host& host) { return !host.boot_id.empty() && !seen.insert(host.boot_id).second; });
}

// Keeps the compiler from removing a copy whose result is never read.
void keep(const void* data) { asm volatile("" : : "r"(data) : "memory"); }

double elapsed(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

void add_copy_limits(Limits& limits, std::string_view name, double rate, const std::string& measured) {
  limits.push_back(limit(name, Level::wire, rate, "host memory", measured));
  limits.push_back(limit(name, Level::achievable, rate * copies_in_and_out, "host memory",
                         fmt::format("{} x {} = {} GB/s: MPI over shared memory copies every message in and out",
                                     measured, copies_in_and_out, shown(rate * copies_in_and_out))));
}

Level level_from(const std::string& name) {
  for (const auto& [level, text] : level_names)
    if (text == name) return level;
  throw UsageError(fmt::format("unknown level {}; known are wire, achievable, published", in_quotes(name)));
}

}  // namespace

std::string shown(double rate) { return fmt::format("{:.6g}", rate); }

std::string_view name_of(Level level) {
  const auto at =
      std::find_if(level_names.begin(), level_names.end(), [&](const auto& row) { return row.first == level; });
  assert(at != level_names.end());
  return at->second;
}

const Limit* find(const Limits& limits, std::string_view name, Level level) {
  const auto at = std::find_if(limits.begin(), limits.end(), [&](const Limit& candidate) {
    return candidate.name == name && candidate.level == level;
  });
  return at == limits.end() ? nullptr : &*at;
}

namespace {

// One NVLink of a generation, one direction: the payload rate, and the rate in NCCL's own model (src/graph/topo.h:
// SM80_NVLINK_BW 20.0, SM90_NVLINK_BW 20.6, SM100_NVLINK_BW 40.1), in GB/s. Only for generations that have boards with
// a switch, which capability 8.6 has not.
struct LinkRates {
  int architecture;
  double wire, achievable;
};
constexpr int without_switch = 86;
constexpr std::array link_rates{LinkRates{80, 25, 20.0}, LinkRates{90, 25, 20.6}, LinkRates{100, 50, 40.1}};

const LinkRates* rates_of(const Gpu& gpu) {
  const auto rates = std::ranges::find(link_rates, gpu.architecture / 10 * 10, &LinkRates::architecture);
  return rates == link_rates.end() || gpu.architecture == without_switch ? nullptr : &*rates;
}

// Compares the links of two GPUs: by their rates where these are known, else by their number.
bool is_weaker(const Gpu& one, const Gpu& other) {
  const LinkRates *const first = rates_of(one), *const second = rates_of(other);
  return first && second ? *one.links * first->wire < *other.links * second->wire : *one.links < *other.links;
}

const Gpu* weakest_gpu(const Topology& topology) {
  const Gpu* weakest = nullptr;
  for (const Host& host : topology.hosts) {
    bool known = false;
    for (const Gpu& gpu : host.gpu_devices) {
      if (!gpu.links) continue;
      known = true;
      if (!weakest || is_weaker(gpu, *weakest)) weakest = &gpu;
    }
    if (!known) return nullptr;
  }
  return weakest;
}

// The fewest NVLinks between two GPUs of a host; null where NVLinks do not lead from GPU to GPU, or where it is unknown
// where they lead.
std::optional<int> fewest_direct_links(const Topology& topology) {
  if (std::ranges::all_of(platforms_of_hosts(topology),
                          [](const Platform* platform) { return platform && platform->nvswitch; }))
    return std::nullopt;
  bool direct = false;
  std::optional<int> fewest;
  for (const Host& host : topology.hosts)
    for (const Gpu& one : host.gpu_devices) {
      direct = direct || std::ranges::any_of(one.nvlinks, [](const NvLink& link) {
                 return link.active != false && link.remote == "gpu";
               });
      for (const Gpu& other : host.gpu_devices) {
        if (&one == &other || !one.links || !other.links) continue;
        const int links = links_between(one, other);
        fewest = std::min(fewest.value_or(links), links);
      }
    }
  return direct ? std::optional(fewest.value_or(0)) : std::nullopt;
}

}  // namespace

Limits link_limits(const Topology& topology) {
  const Gpu* const gpu = weakest_gpu(topology);
  if (!gpu) return {};
  const LinkRates* const rates = rates_of(*gpu);
  if (!rates) return {};
  const std::optional<int> direct = fewest_direct_links(topology);
  const int links = direct.value_or(*gpu->links);
  if (links == 0) return {};
  const std::string_view name = direct ? gpu_pair : gpu_link;
  const std::string raw = gpu->link_rate_raw
                              ? fmt::format(" (raw signalling {} x {} = {} GB/s)", links,
                                            shown(gpu->link_rate_raw->count), shown(links * gpu->link_rate_raw->count))
                              : "";
  const double wire = links * rates->wire, achievable = links * rates->achievable;
  return {limit(name, Level::wire, wire, "nvlink",
                fmt::format("{} active NVLinks {} {} x {} GB/s = {} GB/s, one direction{}", links,
                            direct ? "between two" : "of", gpu->name, shown(rates->wire), shown(wire), raw)),
          limit(name, Level::achievable, achievable, "nvlink",
                fmt::format("{} active NVLinks x {} GB/s = {} GB/s: the rate of a link in NCCL's own model", links,
                            shown(rates->achievable), shown(achievable)))};
}

Limits limits_of(const Platform& platform) {
  Limits limits;
  if (platform.links_per_gpu > 0) add_link_limits(limits, platform);
  if (platform.nvls && platform.gpus > 1) add_nvls_limits(limits, platform);
  if (platform.nics > 0) add_nic_limits(limits, platform);
  return limits;
}

Limits nic_limits(const Topology& topology) {
  if (share_a_kernel(topology.hosts)) return {};
  const Host* weakest = nullptr;
  Sum least;
  // A port that is down on one host only is a fault (nic.down), by which others are not judged.
  const std::vector<std::vector<const Nic*>> down_alone = ports_down_alone(topology);
  const bool all_lack_some = std::ranges::none_of(down_alone, &std::vector<const Nic*>::empty);
  for (std::size_t at = 0; at < topology.hosts.size(); ++at) {
    const Host& host = topology.hosts[at];
    if (!all_lack_some && !down_alone[at].empty()) continue;
    const auto sum = stated_sum(host);
    if (!sum) return {};
    if (!weakest || sum->rate < least.rate) weakest = &host, least = *sum;
  }
  if (!weakest) return {};
  return {limit(
      node_nics, Level::wire, least.rate, "nic",
      fmt::format("the kernel of host {} states {} = {} GB/s, one direction, for its NICs that are up (least of {} {})",
                  weakest->name, least.text, shown(least.rate), topology.hosts.size(),
                  topology.hosts.size() == 1 ? "host" : "hosts"))};
}

GBps measure_copy(Bytes size, Seconds duration) {
  assert(size.count > 0);
  // The buffers are written first, so that no timed pass includes page faults.
  std::vector<std::byte> from(size.count, std::byte{1}), to(size.count, std::byte{2});
  constexpr int least_passes = 3;
  int passes = 0;
  const auto start = std::chrono::steady_clock::now();
  while (passes < least_passes || elapsed(start) < duration.count) {
    std::memcpy(to.data(), from.data(), size.count);
    keep(to.data());
    ++passes;
  }
  return Bytes{size.count * static_cast<std::uint64_t>(passes)} / Seconds{elapsed(start)};
}

Limits copy_limits(const std::vector<HostCopy>& per_host) {
  if (per_host.empty()) return {};
  const auto by_one = [](const HostCopy& a, const HostCopy& b) { return a.one < b.one; };
  const auto by_all = [](const HostCopy& a, const HostCopy& b) { return a.all < b.all; };
  const HostCopy& one = *std::min_element(per_host.begin(), per_host.end(), by_one);
  const HostCopy& all = *std::min_element(per_host.begin(), per_host.end(), by_all);
  const std::string hosts = per_host.size() == 1 ? "" : fmt::format(", the slowest of {} hosts", per_host.size());
  Limits limits;
  if (one.one.count > 0)
    add_copy_limits(
        limits, host_copy_one, one.one.count,
        fmt::format("one core alone copied {} GB/s between two buffers in memory{}", shown(one.one.count), hosts));
  if (all.all.count > 0)
    add_copy_limits(limits, host_copy_all, all.all.count,
                    fmt::format("{} {} copying at once moved {} GB/s together{}", all.ranks,
                                all.ranks == 1 ? "rank" : "ranks", shown(all.all.count), hosts));
  return limits;
}

void fields(auto& archive, Is<Limit> auto& limit) {
  archive.must("name", limit.name);
  archive.must("level", json_fields::named(limit.level, level_from));
  archive.must("gb_per_s", json_fields::above_zero(limit.rate));
  archive.must("binding", limit.binding);
  archive.must("because", limit.because);
}

json to_json(const Limits& limits) { return json_fields::written(limits); }

Limits limits_from_json(const json& j) { return json_fields::read_as<Limits>(j); }

// ---- Derives the limit of an operation from the limits of a machine's parts: the slower of its path within NVLink
// domains and its path between them. Definitions of bus bandwidth: nccl-tests, doc/PERFORMANCE.md.

namespace {

Limit scaled(const Limit& part, double factor, const std::string& why) {
  Limit out = part;
  out.rate = part.rate * factor;
  out.because += fmt::format("; x {} = {} GB/s: {}", shown(factor), shown(out.rate.count), why);
  return out;
}

// On a node of the domain whose limit is wanted.
int ranks_per_node(const Operation& op) {
  return (ranks_per_domain(op) + op.nodes_per_domain - 1) / op.nodes_per_domain;
}

const char* domain_word(const Operation& op) { return op.domains == op.nodes ? "node" : "NVLink domain"; }
std::string domains_of(const Operation& op) {
  return fmt::format("{} {}{}", op.domains, domain_word(op), op.domains == 1 ? "" : "s");
}

// "4 GPUs of each node"
std::string gpus_of_nodes(const Operation& op) {
  const char* const all = op.domains == op.nodes ? "" : "each node of ";
  return fmt::format("{} GPUs of {}", ranks_per_node(op),
                     op.per_domain ? fmt::format("{}the {} with the fewest ranks", all, domain_word(op)) : "each node");
}

// All-reduce in the switches of its domains. Algorithm bandwidth is link x g / (g + 1) whatever their number.
std::optional<Limit> within_switches(const Limits& parts, const Operation& op, Level level) {
  const Limit* const whole = find(parts, gpu_nvls, level);
  const Limit* const whole_wire = find(parts, gpu_nvls, Level::wire);
  const Limit* const link = find(parts, gpu_link, Level::wire);
  if (!whole || !whole_wire || !link) return std::nullopt;
  // A GPU that is alone in its domain needs no switch.
  const double g = std::max(2, ranks_per_domain(op)), n = op.ranks;
  const double wanted = link->rate.count * g / (g + 1) * 2 * (n - 1) / n;
  const double factor = wanted / whole_wire->rate.count;
  if (std::abs(factor - 1) < 1e-9) return *whole;
  return scaled(*whole, factor, fmt::format("{} ranks on {}", op.ranks, domains_of(op)));
}

std::optional<Limit> within_domains(const Limits& parts, const Operation& op, Level level) {
  if (op.nvls && op.route == Route::tree_or_ring) return within_switches(parts, op, level);
  if (const Limit* link = find(parts, gpu_link, level)) {
    if (op.route != Route::all_to_allv) return *link;
    return scaled(*link, (op.ranks - 1.0) / op.ranks, "no block stays with its rank, though bus bandwidth counts so");
  }
  const bool ring = op.route == Route::ring || op.route == Route::tree_or_ring;
  // Rings may use the links of each GPU to all others of the group.
  if (const Limit* pair = find(parts, gpu_pair, level)) {
    const int others = std::max(1, ranks_per_domain(op) - 1);
    if (op.route == Route::point_to_point || (ring && others == 1)) return *pair;
    if (ring) return scaled(*pair, others, fmt::format("each GPU has links to {} others", others));
  }
  // Rings may use all links of a mesh; a pair has as many as happen to join the two.
  if (const Limit* mesh = find(parts, gpu_mesh, level); mesh && ring) return *mesh;
  return std::nullopt;
}

// True if the GPUs that use the NICs of a node at once leave some of them to the others.
bool leaves_nics(const Operation& op, const Limit& gpu, const Limit& node) {
  return op.at_once && *op.at_once * gpu.rate.count < node.rate.count * (1 - 1e-9);
}

// The NICs of one GPU while as many of its node use theirs as the operation has at once.
std::optional<Limit> nics_of_gpu(const Limits& parts, const Operation& op, Level level) {
  const Limit *const gpu = find(parts, gpu_nics, level), *const own = find(parts, gpu_nics_alone, level),
                     *const node = find(parts, node_nics, level);
  if (own && op.alone) return *own;
  if (!gpu || !own || !node || !leaves_nics(op, *gpu, *node)) return gpu ? std::optional(*gpu) : std::nullopt;
  // Each NIC, or group of them, is beside whole GPUs.
  const double sharing = std::ceil(*op.at_once * own->rate.count / node->rate.count - 1e-9);
  if (sharing <= 1) return *own;
  return scaled(*own, 1 / sharing, fmt::format("{} GPUs of a node use its NICs at once", *op.at_once));
}

// The NICs that a group has in one domain.
std::optional<Limit> nics_of_group(const Limits& parts, const Operation& op, Level level) {
  const Limit* const node = find(parts, node_nics, level);
  const Limit* const own = find(parts, gpu_nics_alone, level);
  const Limit* const gpu = op.alone ? own : find(parts, gpu_nics, level);
  const int k = ranks_per_node(op), nodes = op.nodes_per_domain;
  const auto of_all_nodes = [&](const Limit& one) {
    return nodes == 1 ? one
                      : scaled(one, nodes,
                               fmt::format("{} nodes of {}", nodes,
                                           op.nodes == nodes * op.domains ? "each NVLink domain"
                                                                          : "the smallest NVLink domain"));
  };
  if (!node || !gpu) return node && k > 1 ? std::optional(of_all_nodes(*node)) : std::nullopt;
  if (own && !op.alone && leaves_nics(op, *gpu, *node)) {
    const int sharing = std::max(k, *op.at_once);
    const double of_node = node->rate.count * k / sharing;
    if (k * own->rate.count > of_node)
      return of_all_nodes(
          sharing == k ? *node : scaled(*node, 1.0 * k / sharing, fmt::format("{} of {} GPUs at once", k, sharing)));
    return of_all_nodes(k == 1 ? *own : scaled(*own, k, gpus_of_nodes(op)));
  }
  if (k == 1) return of_all_nodes(*gpu);
  const double rate = k * gpu->rate.count;
  if (rate >= node->rate.count) return of_all_nodes(*node);
  return of_all_nodes(scaled(*gpu, k, gpus_of_nodes(op)));
}

// With few domains (N), each sends the sum of its GPUs (N - 1) / N times to reduce and as often to broadcast.
std::optional<Limit> sums_between(const Limit& nics, const Operation& op) {
  if (op.domains > few_domains) return nics;
  const double n = op.ranks, domains = op.domains;
  const double factor = domains * (n - 1) / ((domains - 1) * n);
  if (std::abs(factor - 1) < 1e-9) return nics;
  return scaled(nics, factor,
                fmt::format("of {} each sends only sums, {} GB for a message of 1 GB", domains_of(op),
                            shown(2 * (domains - 1) / domains)));
}

std::optional<Limit> between_domains(const Limits& parts, const Operation& op, Level level) {
  if (op.route == Route::point_to_point) {
    // A pair has one rank on each side. A ring of neighbours in the order of nodes has one GPU of each domain sending
    // to the next one.
    Operation ring = op;
    ring.alone = op.alone || (op.ranks > op.domains && op.at_once.value_or(1) == 1);
    return nics_of_gpu(parts, ring, level);
  }
  if (op.route == Route::all_to_all || op.route == Route::all_to_allv || op.route == Route::rooted) {
    Operation exchange = op;
    exchange.alone = op.route == Route::rooted;
    const std::optional<Limit> nics = nics_of_gpu(parts, exchange, level);
    if (!nics) return std::nullopt;
    return exchange_limit(*nics, op);
  }
  std::optional<Limit> nics = nics_of_group(parts, op, level);
  if (!nics || op.route == Route::ring) return nics;
  return sums_between(*nics, op);
}

}  // namespace

int ranks_per_domain(const Operation& op) {
  const int on_node = (op.ranks + op.nodes - 1) / op.nodes;
  return op.per_domain.value_or(std::min(op.ranks, on_node * op.nodes_per_domain));
}

Limit exchange_limit(const Limit& nics, const Operation& op) {
  const double n = op.ranks, here = ranks_per_domain(op);
  if (op.route == Route::all_to_allv) {
    // The first rank of a domain has the others of its domain next to it, and the least for them.
    const double stays = here * (here - 1) / (n * (n - 1));
    return scaled(nics, (n - 1) / n / (1 - stays),
                  fmt::format("{} % of what a rank sends leave the {}, of which bus bandwidth counts {}/{}",
                              shown(100 * (1 - stays)), domain_word(op), op.ranks - 1, op.ranks));
  }
  const int leaving = op.ranks - ranks_per_domain(op);
  return scaled(nics, (n - 1) / leaving,
                fmt::format("{} of {} blocks leave the {}", leaving, op.ranks - 1, domain_word(op)));
}

std::optional<Limit> limit_of(const Limits& parts, const Operation& op, Level level) {
  if (op.ranks < 2) return std::nullopt;
  const bool one_gpu_each = op.domains == op.ranks;
  if (op.domains < 2) return within_domains(parts, op, level);
  std::optional<Limit> between = between_domains(parts, op, level);
  if (!between || one_gpu_each) return between;
  std::optional<Limit> within = within_domains(parts, op, level);
  if (!within) return std::nullopt;
  if (between->rate <= within->rate) return between;
  if (op.route == Route::tree_or_ring && op.domains <= few_domains)
    within->because += fmt::format(
        "; the NICs could carry {} GB/s, so this does not test them: pairs, rails and "
        "all_gather do",
        shown(between->rate.count));
  return within;
}

Limits published_limits(const Platform& platform, int nodes) {
  std::map<std::string, const Published*> best;
  const std::vector<Published> all = published_of(platform);
  for (const Published& row : all) {
    if (!row.healthy || !row.busbw || row.nodes != nodes || row.gpus != platform.gpus || !row.pattern.empty()) continue;
    const std::string name = fmt::format("{}, {} {}{}", row.collective, nodes, nodes == 1 ? "node" : "nodes",
                                         row.algorithm.empty() ? "" : ", " + row.algorithm);
    const Published*& top = best[name];
    if (!top || *row.busbw > *top->busbw) top = &row;
  }
  Limits limits;
  for (const auto& [name, row] : best)
    limits.push_back(
        {name, Level::published, *row->busbw, "",
         fmt::format("{} GB/s{}{}{}: {}", shown(row->busbw->count), row->bytes ? " at " + to_text(*row->bytes) : "",
                     row->software.empty() ? "" : ", " + row->software, row->date.empty() ? "" : ", " + row->date,
                     row->source)});
  return limits;
}

}  // namespace p5::topo
