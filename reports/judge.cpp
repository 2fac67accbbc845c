#include "reports/judge.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <ranges>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/base/embedded.hpp"
#include "bench/base/names.hpp"
#include "bench/model/backends.hpp"
#include "reports/decision.hpp"
#include "reports/findings.hpp"
#include "reports/local_checks.hpp"
#include "reports/markup.hpp"
#include "reports/nccl_tests.hpp"
#include "reports/nodes.hpp"
#include "reports/reachability.hpp"
#include "reports/traffic.hpp"
#include "topo/platform.hpp"
#include "topo/tables.hpp"

namespace p5::reports {

namespace {

using nlohmann::json;

// Names of routes in bars.json.
constexpr std::array<std::pair<std::string_view, Route>, 6> route_names{{{"rings", Route::ring},
                                                                         {"sums", Route::tree_or_ring},
                                                                         {"exchange", Route::all_to_all},
                                                                         {"uneven_exchange", Route::all_to_allv},
                                                                         {"star", Route::rooted},
                                                                         {"neighbours", Route::point_to_point}}};

Bar bar_from(const json& row) {
  Bar bar{.binding = row.at("binding"),
          .level = row.at("level"),
          .because = row.at("because"),
          .collectives = row.at("collectives"),
          .gpus = row.value("gpus", std::vector<std::string>{}),
          .platforms = row.value("platforms", std::vector<std::string>{}),
          .ranks = row.value("ranks", 1),
          .from = parse_bytes(row.at("from").get<std::string>()),
          .ok_from = row.at("ok_from")};
  if (row.contains("nodes")) std::tie(bar.fewest_nodes, bar.most_nodes) = row.at("nodes").get<std::pair<int, int>>();
  return bar;
}

Floor floor_from(const json& row) {
  Floor floor{.routes = {},
              .ranks = row.at("ranks"),
              .most_ranks = row.value("most_ranks", Floor{}.most_ranks),
              .from = parse_bytes(row.at("from").get<std::string>()),
              .share = row.at("share"),
              .lowest = row.at("lowest"),
              .figures = row.at("figures"),
              .platforms = row.at("platforms"),
              .of = row.at("of")};
  std::tie(floor.fewest_nodes, floor.most_nodes) = row.at("nodes").get<std::pair<int, int>>();
  for (const std::string name : row.at("routes"))
    for (const auto& [known, route] : route_names)
      if (known == name) floor.routes.push_back(route);
  return floor;
}

struct BarsFile {
  std::vector<Bar> bars;
  std::vector<Floor> floors;
};

const BarsFile& bars_file() {
  static const BarsFile all = [] {
    BarsFile read;
    for (const embedded::File& file : embedded::report_files()) {
      if (file.name != "bars.json") continue;
      const json rows = json::parse(file.text);
      for (const json& row : rows.at("bars")) read.bars.push_back(bar_from(row));
      for (const json& row : rows.at("floors")) read.floors.push_back(floor_from(row));
    }
    return read;
  }();
  return all;
}

bool matches(const std::string& what, const std::vector<std::string>& list) {
  return list.empty() || std::ranges::find(list, what) != list.end();
}

bool uses_whole_nodes(const Case& c, const topo::Platform& platform) { return c.ranks == c.nodes * platform.gpus; }

// A bar of a platform applies only to cases on whole nodes, as its published figures do.
bool applies_to(const Bar& bar, const Case& c, const topo::Topology& topology) {
  const bool in_hosts = find_backend(c.backend).parts == BackendInfo::Parts::hosts;
  if (in_hosts != (bar.binding == "host memory")) return false;
  if (!matches(std::string(c.collective->name), bar.collectives) || c.ranks < bar.ranks) return false;
  if (domains_of(c) < bar.fewest_nodes || domains_of(c) > bar.most_nodes) return false;
  if (!bar.gpus.empty() && !matches(gpu_model(topology), bar.gpus)) return false;
  if (bar.platforms.empty()) return true;
  const topo::Platform* const platform = topo::platform_of_instance_type(topology.platform);
  return platform && matches(platform->name, bar.platforms) && uses_whole_nodes(c, *platform);
}

bool is_bar_of(const Bar& bar, const topo::Limit& limit) {
  return bar.binding == limit.binding && bar.level == topo::name_of(limit.level);
}

// Reason without a matching bar. The wording is the same for all sizes, so that readers see each reason once.
std::string reason_without_bar(const Case& c, const std::vector<const Bar*>& bars, const topo::Limit& limit,
                               const topo::Topology& topology) {
  const auto against = std::ranges::find_if(bars, [&](const Bar* bar) { return is_bar_of(*bar, limit); });
  if (against != bars.end())
    return fmt::format("less than {} per rank: too little to judge bandwidth by", to_text((*against)->from));
  const auto another = std::ranges::find(bars, topo::name_of(limit.level), &Bar::level);
  if (another != bars.end())
    return fmt::format("published figures of healthy machines are limited by {}, this one by {}", (*another)->binding,
                       limit.binding);
  const std::string model = gpu_model(topology);
  const std::string kind = !topology.platform.empty() ? topology.platform
                           : !model.empty()           ? "machine of " + model
                                                      : "machine of this kind";
  return fmt::format("no figures of a healthy {} are known for {} with {} ranks on {}", kind, c.collective->name,
                     c.ranks, counted(static_cast<std::size_t>(c.nodes), "node"));
}

topo::Limit scaled(const topo::Limit& limit, double factor, const std::string& why) {
  topo::Limit out = limit;
  out.rate = limit.rate * factor;
  out.because += why;
  return out;
}

// Limit of host memory. Bus bandwidth is per rank, so the ranks of a host share its copy bandwidth.
std::optional<topo::Limit> host_limit(const Case& c, const topo::Limits& limits, const topo::Topology& topology) {
  const auto* one = find(limits, topo::host_copy_one, topo::Level::wire);
  const auto* all = find(limits, topo::host_copy_all, topo::Level::wire);
  if (!one || !all) return std::nullopt;
  std::vector<int> ranks_on(topology.hosts.size());
  for (int host : topology.host_of_rank) ++ranks_on[static_cast<std::size_t>(host)];
  const int most_ranks = ranks_on.empty() ? 1 : *std::ranges::max_element(ranks_on);
  if (is_alone(c)) {
    // Two copies run at once in both directions.
    return c.pattern == "both_ways" ? scaled(*all, 1.0 / std::min(2, most_ranks), "; two copies at once") : *one;
  }
  // Bus bandwidth of a star counts the root's bytes, which all ranks help to copy.
  if (c.collective->route == Route::rooted) return *all;
  const int copies = c.collective->pairwise && c.pattern != "both_ways" ? std::max(1, most_ranks / 2) : most_ranks;
  topo::Limit share = scaled(*all, 1.0 / copies, fmt::format("; shared by {} ranks that copy at once", copies));
  return share.rate < one->rate ? share : *one;
}

// True if the switches reduced: NVLS, or NCCL's kernels on symmetric memory that load by multicast (LDMC), such as
// allreduce_rsxldmc_agxstmc. Its other kernels there (AGxLL, AGxLLMC, RSxLD) reduce on the GPUs.
bool reduced_in_switch(const Measurement& m) {
  if (!m.selection) return false;
  const std::string& algorithm = m.selection->algorithm;
  return algorithm.starts_with("nvls") || algorithm.find("ldmc") != std::string::npos;
}

// NVLink domain of each rank; its host where nodes are domains.
std::vector<int> domain_of_each_rank(const Case& c, const topo::Topology& topology) {
  return domains_of(c) == c.nodes ? topology.host_of_rank : domains_of_ranks(topology);
}

// Numbers of ranks of the domains that may bind a case; null: as many in each. Those of the domain with the fewest have
// the fewest NICs, and in an exchange most to send; but where GPUs share NICs, those of a domain with more have less of
// them each. A star is bound by the root's domain.
std::vector<std::optional<int>> ranks_of_binding_domains(const Case& c, const topo::Topology& topology) {
  const Route route = c.collective->route;
  const bool exchange = route == Route::all_to_all || route == Route::all_to_allv || route == Route::rooted;
  if (route == Route::point_to_point) return {std::nullopt};
  if (!exchange || !c.fewest_per_domain || !c.rounds || topology.host_of_rank.empty()) return {c.fewest_per_domain};
  const std::vector<int> domains = domain_of_each_rank(c, topology);
  const Round& round = c.rounds->front();
  const Group& widest = *std::ranges::max_element(round, {}, &Group::size);
  const auto domain = [&](int rank) { return domains.at(static_cast<std::size_t>(rank)); };
  std::map<int, int> ranks;
  for (const int rank : widest) ++ranks[domain(rank)];
  if (route == Route::rooted && !c.every_root)
    return {ranks.at(domain(widest.at(static_cast<std::size_t>(c.root.value_or(0)))))};
  std::set<std::optional<int>> numbers;
  for (const auto& [its, number] : ranks) numbers.insert(number);
  return {numbers.begin(), numbers.end()};
}

// Lowest limit of those by the ranks of each domain that may bind the case. Null if one is unknown.
template <class LimitOf>
std::optional<topo::Limit> lowest_over_domains(const Case& c, const topo::Topology& topology, topo::Operation op,
                                               const LimitOf& limit_of_one) {
  std::optional<topo::Limit> lowest;
  for (const std::optional<int>& ranks : ranks_of_binding_domains(c, topology)) {
    op.per_domain = ranks;
    op.at_once = ranks_at_once(c, topology, ranks);
    const std::optional<topo::Limit> limit = limit_of_one(op);
    if (!limit) return std::nullopt;
    if (!lowest || limit->rate < lowest->rate) lowest = limit;
  }
  return lowest;
}

// Limit of GPUs: the GPU's link into its node, and across nodes also its NICs; the slower binds. The wire rate applies
// if the achievable rate is unknown.
std::optional<topo::Limit> gpu_limit(const Measurement& m, const topo::Limits& limits, const topo::Topology& topology) {
  const Case& c = m.measured_case;
  topo::Operation op{.route = c.collective->route,
                     .ranks = c.ranks,
                     .nodes = c.nodes,
                     .domains = domains_of(c),
                     .nodes_per_domain = c.nodes_per_domain,
                     .nvls = reduced_in_switch(m),
                     .alone = is_alone(c)};
  for (const topo::Level level : {topo::Level::achievable, topo::Level::wire}) {
    if (auto limit = limit_over_domains(c, topology, op, limits, level)) return limit;
    // The limit of NVLS is unknown, but NCCL chose it as faster than a ring.
    op.nvls = false;
    if (auto limit = limit_over_domains(c, topology, op, limits, level)) return limit;
  }
  return std::nullopt;
}

std::optional<topo::Limit> limit_for(const Measurement& m, const topo::Limits& limits, const topo::Topology& topology) {
  const Case& c = m.measured_case;
  const BackendInfo::Parts parts = find_backend(c.backend).parts;
  if (c.shape.traffic) return traffic_limit(c, limits, topology);
  if (c.nic) {
    const topo::Limit* const nic = find(limits, topo::one_nic, topo::Level::wire);
    return nic ? std::optional(*nic) : std::nullopt;
  }
  // The rate of host memory is below the wire rate, and known on some platforms only: see reason_without_limit().
  if (parts == BackendInfo::Parts::nics) return std::nullopt;
  if (parts == BackendInfo::Parts::gpus) return gpu_limit(m, limits, topology);
  if (c.nodes < 2) return host_limit(c, limits, topology);
  const auto* nics = find(limits, topo::node_nics, topo::Level::wire);
  if (!nics) return std::nullopt;
  const Route route = c.collective->route;
  if (route != Route::rooted && route != Route::all_to_all && route != Route::all_to_allv) return *nics;
  const topo::Operation op{.route = route, .ranks = c.ranks, .nodes = c.nodes};
  const auto exchanged = [&](const topo::Operation& one) -> std::optional<topo::Limit> {
    if (route == Route::rooted) return exchange_limit(*nics, one);
    const int sharing = ranks_per_domain(one);
    return exchange_limit(scaled(*nics, 1.0 / sharing, fmt::format("; shared by {} ranks", sharing)), one);
  };
  return c.domains ? exchanged(op) : lowest_over_domains(c, topology, op, exchanged);
}

// Conflict of sources that prevents judging on this kind of machine; "" without one.
std::string find_conflict(const Case& c, const topo::Topology& topology) {
  const topo::Platform* const platform = topo::platform_of_instance_type(topology.platform);
  if (!platform || find_backend(c.backend).parts == BackendInfo::Parts::hosts) return "";
  if (const auto* about = platform->conflict_about(c.collective->name)) return about->text;
  const auto* about = domains_of(c) > 1 ? platform->conflict_about("nics") : nullptr;
  return about ? about->text : "";
}

std::string memory_of(const Measurement& m) {
  return m.selection && !m.selection->memory.empty() ? m.selection->memory : "host memory";
}

// Single NICs are compared with each other, not with their wire rate: see suspects.
std::string reason_nic_not_judged(const Measurement& m) {
  std::string why = "NICs are compared with each other, not judged by their wire rate: data in " + memory_of(m);
  if (m.selection && m.selection->protocol == packets_protocol)
    why +=
        ", and without device RDMA: processors copied it in packets (libfabric below 1.18, FI_EFA_USE_DEVICE_RDMA=0 "
        "or a device that has none)";
  else if (m.selection && !m.selection->protocol.empty())
    why += fmt::format(", moved by {}", m.selection->protocol);
  return why;
}

// Reason for a missing limit; includes the known rate of host memory for messages through all NICs.
std::string reason_without_limit(const Measurement& m, const topo::Topology& topology) {
  const Case& c = m.measured_case;
  if (c.nic && find_backend(c.backend).parts == BackendInfo::Parts::nics) return reason_nic_not_judged(m);
  const topo::Platform* const platform = topo::platform_of_instance_type(topology.platform);
  const topo::HostMemoryRate* const known = platform ? topo::host_memory_of(*platform) : nullptr;
  if (!known || find_backend(c.backend).parts != BackendInfo::Parts::nics || memory_of(m) == memory_of_gpus)
    return "the limit is not known";
  return fmt::format("not judged: data in host memory, which feeds {:g} of the {:g} GB/s of a {}'s NICs", known->read,
                     platform->nics * platform->nic_rate.count, platform->name);
}

Verdict without_limit(Grade grade, std::string because) {
  Verdict v;
  v.grade = grade;
  v.because = std::move(because);
  return v;
}

std::string wrong_text(const Measurement& m) {
  if (!m.first_wrong) return fmt::format("{} wrong elements", m.wrong_elements);
  const WrongElement& first = *m.first_wrong;
  return fmt::format("{}; the first at rank {}{}, {} {}: wanted {}, got {}", counted(m.wrong_elements, "wrong element"),
                     first.rank, first.work.empty() ? "" : " in " + first.work,
                     first.guard ? "byte beside the buffer" : "element", first.offset, first.wanted, first.got);
}

// Names the slowest of several groups, whose figures the measurement has.
std::string slowest_of(const Measurement& m, const topo::Topology& topology) {
  if (m.groups.size() < 2 || m.slowest_group.empty()) return "";
  if (m.measured_case.collective->pairwise)
    return fmt::format("; the slowest of {} pairs, {} to {}", m.groups.size(),
                       name_of_rank(topology, m.slowest_group.front()), name_of_rank(topology, m.slowest_group.back()));
  return fmt::format("; the slowest of {} groups, from {} on", m.groups.size(),
                     name_of_rank(topology, m.slowest_group.front()));
}

std::string share_of_limit(const Verdict& v) {
  return fmt::format("{} of what {} can do ({:.4g} GB/s, {})", percent_beside(*v.fraction, v.least_fraction), v.binding,
                     v.limit->count, v.level);
}

// Computes the fraction of the limit from the trimmed mean, which shows what slow samples cost while they are fewer
// than half. If it is below `least` and the median's is not, sets mean_fraction and returns the reason; else "". Host
// memory is exempt, because its samples depend on other programs.
std::string judge_trimmed_mean(const Measurement& m, const topo::Limit& limit, double least, Verdict& v) {
  const Summary& times = m.throughput->summary;
  if (!times.trimmed_mean || *v.fraction < least || !uses_gpus(m.measured_case)) return "";
  const double by_mean = bus_bandwidth(m.measured_case, {*times.trimmed_mean}).count / limit.rate.count;
  if (by_mean >= least) return "";
  v.mean_fraction = by_mean;
  return fmt::format(
      "; but its samples differ: their mean without the slowest twentieth is {:.3g} times the median, "
      "{} of the limit",
      *times.trimmed_mean / times.median, percent_beside(by_mean, least));
}

std::string note_on_nics(const Case& c, const topo::Limit& limit) {
  if (domains_of(c) < 2 || limit.binding == "nic") return "";
  return fmt::format(
      "; on {} {} the NICs do not limit this operation, so it does not test them; pairs and all_gather do",
      domains_of(c), c.domains ? "NVLink domains" : "nodes");
}

// Sets `slow` below the floor, which holds for machines without a bar.
void apply_floor(const Measurement& m, const topo::Limit& limit, const topo::Topology& topology, Verdict& v) {
  const Floor* const floor = find_floor(m.measured_case, topology);
  if (!floor) return;
  const double share = floor->share * achievable_fraction(limit);
  v.least_fraction = share;
  const std::string unsteady = judge_trimmed_mean(m, limit, share, v);
  if (*v.fraction >= share && !v.mean_fraction) return;
  v.grade = Grade::slow;
  v.because = fmt::format(
      "{}; slow below {} on any machine: the lowest published figure of a healthy one is {:.0f} % of what is "
      "achievable, with {} per rank and more ({})",
      share_of_limit(v) + unsteady, percent_beside(share, v.mean_fraction ? v.mean_fraction : v.fraction),
      floor->lowest * 100, to_text(floor->from), floor->of);
  v.because += slowest_of(m, topology) + note_on_nics(m.measured_case, limit);
}

// True if sources differ about the rate that the limit is made of.
bool is_disputed(const topo::Limit& limit, const topo::Topology& topology) {
  const topo::Platform* const platform = topo::platform_of_instance_type(topology.platform);
  return limit.binding == "nic" && platform && platform->conflict_about("nics");
}

// Verdict against one limit. `conflict` is a disagreement of sources that disables bars; "" without one.
Verdict judge_against(const Measurement& m, const topo::Limit& limit, const topo::Topology& topology,
                      const std::string& conflict) {
  const Case& c = m.measured_case;
  Verdict v;
  v.level = topo::name_of(limit.level);
  v.limit = limit.rate;
  v.binding = limit.binding;
  v.fraction = bus_bandwidth(c, {m.throughput->summary.median}).count / limit.rate.count;
  if (c.nic && find_backend(c.backend).parts == BackendInfo::Parts::nics) {
    v.because = reason_nic_not_judged(m);
    return v;
  }
  if (c.shape.traffic) {
    v.because = "not judged: no figure of a healthy machine is known for this traffic; " + limit.because;
    return v;
  }
  // A group of one node is judged like a job of one node, and a domain likewise.
  if (c.group != "world" && c.group != "node" && c.group != "domain") {
    v.because = fmt::format("not judged: no figures of healthy machines are known for groups ({})", c.group);
    return v;
  }
  const std::vector<const Bar*> bars = find_bars(c, topology);
  const Bar* bar = nullptr;
  for (const Bar* each : bars)
    if (is_bar_of(*each, limit) && bytes_of_rank(c) >= each->from) bar = each;
  if (!bar || !conflict.empty()) {
    v.because = "not judged: " + (conflict.empty() ? reason_without_bar(c, bars, limit, topology) : conflict);
    if (!is_disputed(limit, topology)) apply_floor(m, limit, topology, v);
    return v;
  }
  v.least_fraction = bar->ok_from;
  const std::string unsteady = judge_trimmed_mean(m, limit, bar->ok_from, v);
  v.grade = *v.fraction >= bar->ok_from && !v.mean_fraction ? Grade::ok : Grade::slow;
  v.because = fmt::format("{}; good from {}: {}", share_of_limit(v) + unsteady,
                          percent_beside(bar->ok_from, v.mean_fraction ? v.mean_fraction : v.fraction), bar->because);
  v.because += slowest_of(m, topology) + note_on_nics(c, limit);
  return v;
}

}  // namespace

const std::vector<Floor>& all_floors() { return bars_file().floors; }

Bytes bytes_of_rank(const Case& c) {
  return c.collective->route == Route::point_to_point ? c.bytes
                                                      : Bytes{c.bytes.count / static_cast<std::uint64_t>(c.ranks)};
}

bool is_alone(const Case& c) {
  return c.collective->pairwise && c.rounds &&
         std::ranges::all_of(*c.rounds, [](const Round& round) { return round.size() == 1; });
}

std::optional<topo::Limit> limit_over_domains(const Case& c, const topo::Topology& topology, const topo::Operation& op,
                                              const topo::Limits& limits, topo::Level level) {
  return lowest_over_domains(c, topology, op, [&](const topo::Operation& one) { return limit_of(limits, one, level); });
}

std::optional<int> ranks_at_once(const Case& c, const topo::Topology& topology, std::optional<int> per_domain) {
  const std::vector<int>& hosts = topology.host_of_rank;
  if (!c.rounds || hosts.empty() || domains_of(c) < 2) return std::nullopt;
  std::map<int, int> of_host;
  // Rounds of pairs differ, and repetitions of them have some of the pairs only.
  if (c.collective->pairwise) {
    for (const int host : hosts) ++of_host[host];
    return std::ranges::max(std::views::values(of_host));
  }
  const std::vector<int> domains = domain_of_each_rank(c, topology);
  const bool ring = c.collective->route == Route::point_to_point;
  int found = 0;
  for (const Round& round : *c.rounds) {
    of_host.clear();
    std::set<int> wanted;  // hosts
    for (const Group& group : round) {
      const auto domain = [&](std::size_t at) { return domains.at(static_cast<std::size_t>(group[at])); };
      std::map<int, int> of_domain;
      for (std::size_t at = 0; at < group.size(); ++at) ++of_domain[domain(at)];
      for (std::size_t at = 0; of_domain.size() > 1 && at < group.size(); ++at) {
        const int host = hosts.at(static_cast<std::size_t>(group[at]));
        if (!per_domain || of_domain[domain(at)] == *per_domain) wanted.insert(host);
        // All ranks use NICs, but in a ring of messages only those whose neighbour is in another domain.
        if (!ring || domain(at) != domain((at + 1) % group.size())) ++of_host[host];
      }
    }
    for (const auto& [host, ranks] : of_host)
      if (wanted.contains(host)) found = std::max(found, ranks);
    if (found > 0 && is_repeated(c)) break;
  }
  return found > 0 ? std::optional(found) : std::nullopt;
}

std::vector<const Bar*> find_bars(const Case& c, const topo::Topology& topology) {
  std::vector<const Bar*> bars;
  for (const Bar& bar : bars_file().bars)
    if (applies_to(bar, c, topology)) bars.push_back(&bar);
  std::ranges::stable_sort(bars, {}, [](const Bar* bar) { return bar->from.count; });
  return bars;
}

const Floor* find_floor(const Case& c, const topo::Topology& topology) {
  if (c.nic || is_alone(c)) return nullptr;
  if (c.nodes > 1) {
    const topo::Platform* const platform = topo::platform_of_instance_type(topology.platform);
    if (!c.collective->pairwise && (!platform || !uses_whole_nodes(c, *platform))) return nullptr;
    // Pairs of fewer GPUs than share the NICs may have them alone, as a single pair has.
    if (c.collective->pairwise && platform && platform->nics < platform->gpus &&
        ranks_at_once(c, topology).value_or(platform->gpus) < platform->gpus)
      return nullptr;
  }
  const Floor* best = nullptr;
  for (const Floor& floor : all_floors()) {
    const bool fits = std::ranges::find(floor.routes, c.collective->route) != floor.routes.end() &&
                      domains_of(c) >= floor.fewest_nodes && domains_of(c) <= floor.most_nodes &&
                      c.ranks >= floor.ranks && c.ranks <= floor.most_ranks && bytes_of_rank(c) >= floor.from;
    if (fits && (!best || floor.from > best->from)) best = &floor;
  }
  return best;
}

double achievable_fraction(const topo::Limit& limit) {
  static const std::map<std::string, double> least_of = [] {
    std::map<std::string, double> least;
    for (const topo::Platform& platform : topo::platforms()) {
      const topo::Limits limits = limits_of(platform);
      for (const topo::Limit& wire : limits) {
        const topo::Limit* const reached = topo::find(limits, wire.name, topo::Level::achievable);
        if (wire.level != topo::Level::wire || !reached) continue;
        double& its = least.try_emplace(wire.binding, 1.0).first->second;
        its = std::min(its, reached->rate.count / wire.rate.count);
      }
    }
    return least;
  }();
  if (limit.level != topo::Level::wire) return 1;
  const auto found = least_of.find(limit.binding);
  return found == least_of.end() ? 0 : found->second;
}

bool uses_gpus(const Case& c) {
  // Imported reports may name unknown backends, so find_backend() cannot be used.
  const auto backend = std::ranges::find(backend_table(), c.backend, &BackendInfo::name);
  return backend != backend_table().end() && backend->parts == BackendInfo::Parts::gpus;
}

std::optional<std::size_t> host_of(const topo::Topology& topology, int rank) {
  if (rank < 0 || std::cmp_greater_equal(rank, topology.host_of_rank.size())) return std::nullopt;
  return static_cast<std::size_t>(topology.host_of_rank[static_cast<std::size_t>(rank)]);
}

std::string name_of_rank(const topo::Topology& topology, int rank) {
  const std::optional<std::size_t> host = host_of(topology, rank);
  return host ? fmt::format("rank {} on {}", rank, topology.hosts[*host].name) : fmt::format("rank {}", rank);
}

namespace {

// Those of these hosts that have a rank of the group.
std::set<int> hosts_among(const std::set<int>& hosts, const Group& group, const topo::Topology& topology) {
  std::set<int> its;
  for (const int rank : group)
    if (const auto host = host_of(topology, rank); host && hosts.contains(static_cast<int>(*host)))
      its.insert(static_cast<int>(*host));
  return its;
}

// Those of these hosts that took part. A measurement without groups is of all ranks.
std::set<int> hosts_among(const std::set<int>& hosts, const Measurement& m, const topo::Topology& topology) {
  std::set<int> its;
  for (const GroupResult& each : m.groups) its.merge(hosts_among(hosts, each.group, topology));
  if (m.groups.empty())
    std::ranges::copy_if(topology.host_of_rank, std::inserter(its, its.end()),
                         [&](int host) { return hosts.contains(host); });
  return its;
}

// The measurement of the other groups alone; null without any.
std::optional<Measurement> without_groups_on(const std::set<int>& hosts, Measurement m,
                                             const topo::Topology& topology) {
  std::erase_if(m.groups, [&](const GroupResult& each) { return !hosts_among(hosts, each.group, topology).empty(); });
  if (m.groups.empty()) return std::nullopt;
  const GroupResult& slowest =
      *std::ranges::max_element(m.groups, {}, [](const GroupResult& each) { return each.median.count; });
  m.slowest_group = slowest.group;
  m.throughput->summary = slowest.samples.empty()
                              ? Summary{}
                              : summarize(std::vector<double>(slowest.samples.begin(), slowest.samples.end()));
  m.throughput->summary.median = slowest.median.count;
  return m;
}

Verdict judge_all_groups(const Measurement& m, const topo::Limits& limits, const topo::Topology& topology,
                         const Comparability& comparability) {
  if (m.wrong_elements > 0)
    return without_limit(Grade::wrong,
                         wrong_text(m) + (m.outcome == Outcome::failed ? "; and it failed: " + m.because : ""));
  if (m.outcome == Outcome::failed) return without_limit(Grade::failed, m.because);
  if (!m.measured_case.collective->moves_data && m.outcome == Outcome::measured)
    return without_limit(Grade::unknown, "no time of a healthy machine is known: compare it with an earlier run");
  if (m.outcome == Outcome::skipped || !m.throughput)
    return without_limit(Grade::unknown, "not measured: " + m.because);
  if (!m.measured_case.beside.empty())
    return without_limit(Grade::unknown, "not judged: no figure of a healthy machine is known for operations " +
                                             describe_beside(m.measured_case.beside));
  if (m.measured_case.replay)
    return without_limit(Grade::unknown,
                         "the time of a step has no limit: compare it with another run of the same step");
  if (m.measured_case.ranks < 2) return without_limit(Grade::unknown, "a single rank does not communicate");
  const std::optional<topo::Limit> limit = limit_for(m, limits, topology);
  const std::string conflict = find_conflict(m.measured_case, topology);
  if (!limit)
    return without_limit(Grade::unknown, reason_without_limit(m, topology) + (conflict.empty() ? "" : ": " + conflict));
  Verdict v = judge_against(m, *limit, topology, conflict);
  if (!comparability.comparable) {
    v.grade = Grade::unknown;
    v.because = "not judged: " + comparability.why_not;
  }
  return v;
}

}  // namespace

Verdict judge(const Measurement& m, const topo::Limits& limits, const topo::Topology& topology,
              const Comparability& comparability) {
  if (comparability.shared_hosts.empty() || m.outcome != Outcome::measured || !m.throughput)
    return judge_all_groups(m, limits, topology, comparability);
  const std::set<int> shared = hosts_among(comparability.shared_hosts, m, topology);
  if (shared.empty()) return judge_all_groups(m, limits, topology, comparability);
  // Wrong data is wrong whatever else runs.
  const std::optional<Measurement> rest = m.wrong_elements > 0 ? std::nullopt : without_groups_on(shared, m, topology);
  Comparability own = comparability;
  own.comparable = own.comparable && rest;
  Verdict v = judge_all_groups(rest ? *rest : m, limits, topology, own);
  for (const int host : shared) v.not_judged_hosts.push_back(topology.hosts[static_cast<std::size_t>(host)].name);
  if (own.comparable && v.limit)
    v.because += fmt::format("; without {}: {}", join(v.not_judged_hosts), comparability.why_not);
  return v;
}

void withdraw_sampled_pairs(std::vector<Result>& results) {
  using Kind = std::tuple<std::string, std::string, std::string, std::string, std::string>;
  const auto kind_of = [](const Case& c) { return Kind{c.backend, c.pattern, c.pair, c.group, c.arm}; };
  const auto is_of_pairs = [](const Result& each) {
    const Case& c = each.measurement.measured_case;
    return c.collective->pairwise && !c.nic && each.measurement.outcome == Outcome::measured;
  };
  const auto pairs = [](const Result& each) { return each.measurement.groups.size(); };
  const auto worth = [&](const Result& each) { return std::pair(pairs(each), each.measurement.measured_case.bytes); };
  std::map<Kind, const Result*> most;
  for (const Result& each : results) {
    if (!is_of_pairs(each)) continue;
    const Result*& its = most[kind_of(each.measurement.measured_case)];
    if (!its || worth(each) > worth(*its)) its = &each;
  }
  for (Result& each : results) {
    if (!is_of_pairs(each) || each.verdict.grade != Grade::ok) continue;
    const Case& c = each.measurement.measured_case;
    const Result* const all = most.at(kind_of(c));
    if (pairs(each) >= pairs(*all)) continue;
    each.verdict.grade = Grade::unknown;
    each.verdict.because =
        fmt::format("not judged: measured with fewer pairs than {}", to_text(all->measurement.measured_case.bytes));
  }
}

bool is_not_judged_on(const Verdict& verdict, std::string_view host) {
  return std::ranges::find(verdict.not_judged_hosts, host) != verdict.not_judged_hosts.end();
}

bool is_not_judged(const Group& group, const Result& result, const Report& report) {
  return !result.verdict.not_judged_hosts.empty() && std::ranges::any_of(group, [&](int rank) {
    const std::optional<std::size_t> host = host_of(report.topology, rank);
    return host && is_not_judged_on(result.verdict, report.topology.hosts[*host].name);
  });
}

// The slowest of several groups; empty where the report does not have them.
static Group slowest_group_of(const Measurement& m) {
  if (!m.slowest_group.empty() || m.groups.size() < 2) return m.slowest_group;
  return std::ranges::max_element(m.groups, {}, [](const GroupResult& each) { return each.median.count; })->group;
}

// True if the slowest of the groups whose ranks did not wait is slow, or a group whose ranks did in its fastest sample.
static bool is_steadily_slow(const Result& result, const Report& report, const auto& waited) {
  const GroupResult* slowest = nullptr;  // without ranks that waited
  GroupResult steadiest;                 // with such ranks; the median is its fastest sample
  for (const GroupResult& each : result.measurement.groups) {
    if (is_not_judged(each.group, result, report)) continue;
    if (!waited(each.group)) {
      if (!slowest || slowest->median < each.median) slowest = &each;
    } else if (!each.samples.empty()) {
      const Seconds fastest{*std::ranges::min_element(each.samples)};
      if (steadiest.median < fastest) steadiest = {each.group, fastest};
    }
  }
  return (slowest && is_slow_group(*slowest, result, report)) ||
         (!steadiest.group.empty() && is_slow_group(steadiest, result, report));
}

std::map<int, std::size_t> withdraw_slow_by_waiting(Report& report, const std::set<int>& nodes) {
  std::map<int, std::size_t> withdrawn;
  const auto waiting_nodes_of = [&](const Group& group) { return hosts_among(nodes, group, report.topology); };
  for (Result& each : report.results) {
    if (each.verdict.grade != Grade::slow) continue;
    std::set<int> not_judged;
    for (std::size_t host = 0; host < report.topology.hosts.size(); ++host)
      if (is_not_judged_on(each.verdict, report.topology.hosts[host].name)) not_judged.insert(static_cast<int>(host));
    const Measurement judged =
        not_judged.empty()
            ? each.measurement
            : without_groups_on(not_judged, each.measurement, report.topology).value_or(each.measurement);
    const Group group = slowest_group_of(judged);
    const std::set<int> waiting = group.empty() ? nodes : waiting_nodes_of(group);
    if (waiting.empty()) continue;
    Measurement fastest = judged;
    Summary& summary = fastest.throughput->summary;
    summary.median = summary.min;
    summary.trimmed_mean.reset();
    if (judge(fastest, report.limits, report.topology, Comparability{}).grade == Grade::slow) continue;
    if (is_steadily_slow(each, report, [&](const Group& its) { return !waiting_nodes_of(its).empty(); })) continue;
    each.verdict.grade = Grade::unknown;
    each.verdict.because = fmt::format(
        "not judged: ranks waited for processor cores, and the fastest sample is not slow ({})", each.verdict.because);
    for (const int node : waiting) ++withdrawn[node];
  }
  return withdrawn;
}

std::string percent_beside(double share, const std::optional<double>& other) {
  constexpr int most_decimals = 4;
  std::string text;
  for (int decimals = 0; decimals <= most_decimals; ++decimals) {
    text = fmt::format("{:.{}f}", 100 * share, decimals);
    if (!other || share == *other || text != fmt::format("{:.{}f}", 100 * *other, decimals)) break;
  }
  if (text.find('.') != std::string::npos) text.erase(text.find_last_not_of("0") + 1);
  if (text.ends_with('.')) text.pop_back();
  return text + " %";
}

bool has_figures_to_show(const Measurement& m) { return m.outcome == Outcome::measured || m.wrong_elements > 0; }

bool tells_wrong_data(const topo::Finding& finding) {
  return finding.id == corrupt || finding.id == nccl_tests::out_of_bounds;
}

bool is_at_fault(const Report& report) {
  return !report.suspects.empty() || !report.open_questions.empty() ||
         std::ranges::any_of(report.findings, topo::condemns);
}

std::vector<const TuningFailure*> failures_of_default(const Report& report, bool wrong_data) {
  std::vector<const TuningFailure*> failures;
  if (report.tuning)
    for (const TuningFailure& each : report.tuning->failures)
      if (each.setting == "default" && each.wrong_data == wrong_data) failures.push_back(&each);
  return failures;
}

// Wrong data that no measurement has.
static bool has_wrong_data(const Report& report) {
  return std::ranges::any_of(report.findings, tells_wrong_data) || !failures_of_default(report, true).empty();
}

Grade overall(const Report& report) {
  for (Grade grade : {Grade::wrong, Grade::failed, Grade::faulty, Grade::slow, Grade::ok}) {
    if (std::ranges::any_of(report.results, [&](const Result& r) { return r.verdict.grade == grade; })) return grade;
    if (grade == Grade::wrong && has_wrong_data(report)) return grade;
    if (grade == Grade::failed && !failures_of_default(report, false).empty()) return grade;
    if (grade == Grade::faulty && std::ranges::any_of(report.findings, topo::condemns)) return grade;
    if (grade == Grade::slow && (!report.suspects.empty() || !report.open_questions.empty())) return grade;
  }
  return Grade::unknown;
}

ExitCode exit_code(const Report& report, bool wants_verdict) {
  // A run that never started is not a failure of its cases.
  if (never_joined(report) && overall(report) != Grade::wrong) return ExitCode::environment;
  ExitCode code = ExitCode::ok;
  for (const Result& result : report.results) {
    if (result.verdict.grade == Grade::slow) code = worse(code, ExitCode::slow);
    if (result.verdict.grade == Grade::wrong) code = worse(code, ExitCode::wrong_data);
    if (result.verdict.grade == Grade::failed || result.measurement.outcome == Outcome::failed)
      code = worse(code, ExitCode::unfinished);
  }
  // Missing or failing parts count even if no figure shows them yet.
  if (is_at_fault(report)) code = worse(code, ExitCode::slow);
  if (!failures_of_default(report, false).empty()) code = worse(code, ExitCode::unfinished);
  const auto has_finding = [&](std::string_view id) {
    return std::ranges::find(report.findings, id, &topo::Finding::id) != report.findings.end();
  };
  if (std::ranges::any_of(report.findings, [](const topo::Finding& finding) {
        return finding.id == cores_busy_id && finding.severity == topo::Severity::error;
      }))
    code = worse(code, ExitCode::inconclusive);
  if (has_finding(not_burnt)) code = worse(code, ExitCode::inconclusive);
  if (has_finding(check_failed)) code = worse(code, ExitCode::unfinished);
  if (has_wrong_data(report)) code = worse(code, ExitCode::wrong_data);
  const auto measured = [](const Result& each) { return each.measurement.outcome == Outcome::measured; };
  if (wants_verdict && (std::ranges::none_of(report.results, measured) ||
                        (!report.run.backend.empty() &&
                         find_backend(report.run.backend).parts == BackendInfo::Parts::gpus && !was_judged(report))))
    code = worse(code, ExitCode::inconclusive);
  return code;
}

}  // namespace p5::reports
