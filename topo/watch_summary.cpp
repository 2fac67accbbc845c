// Summaries of a watch: by host and window, over hosts, and as findings.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/names.hpp"
#include "topo/checks/families.hpp"
#include "topo/tables.hpp"
#include "topo/watch.hpp"

namespace p5::topo {

void fields(auto& archive, Is<Tick::Xid> auto& xid) {
  archive.must("uuid", xid.uuid);
  archive.must("code", xid.code);
  archive.may("text", xid.text);
  archive.may("count", xid.count);
}

void fields(auto& archive, Is<XidEvent> auto& xid) {
  archive.must("code", xid.code);
  archive.must("text", xid.text);
  archive.must("count", xid.count);
}

void fields(auto& archive, Is<GpuActivity> auto& gpu) {
  archive.must("gpu", gpu.gpu);
  archive.must("seconds", gpu.seconds);
  archive.may("sm_clock_min_mhz", gpu.sm_clock_min_mhz);
  archive.may("sm_clock_median_mhz", gpu.sm_clock_median_mhz);
  archive.may("temperature_max_c", json_fields::any(gpu.temperature_max_c));
  archive.may("power_max_w", gpu.power_max_w);
  archive.must("throttle_mask", gpu.throttle_mask);
  archive.must("held_back_seconds", gpu.held_back_seconds);
  archive.must("corrected", gpu.corrected);
  archive.must("uncorrected", gpu.uncorrected);
  archive.must("xids", gpu.xids);
}

void fields(auto& archive, Is<NicActivity> auto& nic) {
  archive.must("nic", nic.nic);
  archive.must("counts_bytes", nic.counts_bytes);
  archive.must("counted", nic.counted);
}

void fields(auto& archive, Is<HostActivity> auto& during) {
  archive.must("host", during.host);
  archive.must("seconds", during.seconds);
  archive.must("gpus", during.gpus);
  archive.must("nics", during.nics);
  archive.must("watched_s", during.watched_s);
  archive.must("measured_s", during.measured_s);
}

void fields(auto& archive, Is<CaseWatch> auto& watch) {
  archive.must("seconds", json_fields::at_least(1, watch.seconds));
  archive.may("sm_clock_min_mhz", watch.sm_clock_min_mhz);
  archive.may("sm_clock_median_mhz", watch.sm_clock_median_mhz);
  archive.may("temperature_max_c", json_fields::any(watch.temperature_max_c));
  archive.may("power_max_w", watch.power_max_w);
  archive.must("notes", watch.notes);
}

namespace {

using nlohmann::json;

constexpr std::uint64_t idle = 0x1;

template <class Value>
void raise(std::optional<Value>& most, const std::optional<Value>& value) {
  if (value && (!most || *value > *most)) most = value;
}

std::optional<int> median(std::vector<int> values) {
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// True for Xids that a process causes when it crashes or is killed.
bool of_a_process(int xid) { return class_of_xid(xid).name == "process"; }

// A killed worker's events may come a moment after the case that it failed.
bool in_failed(const Windows& failed, Seconds at) {
  constexpr double later = 3;
  return std::ranges::any_of(failed, [&](const Window& window) {
    return at.count >= window.from.count && at.count <= window.to.count + later;
  });
}

// A counter that is lower than before began again from 0, as where a driver was loaded again or a device was reset.
std::uint64_t growth_of(std::uint64_t before, std::uint64_t now) { return now >= before ? now - before : now; }

// A faulty GPU may report the same Xid endlessly.
void count_xid(std::vector<XidEvent>& xids, const Tick::Xid& xid) {
  const auto same = std::ranges::find_if(xids, [&](const XidEvent& each) {
    return each.code == xid.code && &class_of_xid(each.code, each.text) == &class_of_xid(xid.code, xid.text);
  });
  if (same == xids.end()) {
    xids.push_back({xid.code, xid.text, xid.count});
    return;
  }
  same->count += xid.count;
  same->text = xid.text;
  std::rotate(same, same + 1, xids.end());  // the order of the last ones
}

GpuActivity gpu_during(const std::vector<const Tick*>& ticks, const Windows& failed, const std::string& uuid,
                       int index) {
  GpuActivity during{.gpu = index};
  std::optional<std::uint64_t> last_corrected, last_uncorrected;
  const auto add_growth = [](std::optional<std::uint64_t>& last, const std::optional<std::uint64_t>& now,
                             std::uint64_t& growth) {
    if (last && now) growth += growth_of(*last, *now);
    if (now) last = now;
  };
  std::vector<int> clocks;
  for (const Tick* tick : ticks) {
    for (const Tick::Xid& xid : tick->xids)
      if (xid.uuid == uuid && !(of_a_process(xid.code) && in_failed(failed, tick->at))) count_xid(during.xids, xid);
    const auto at = std::ranges::find(tick->gpus, uuid, &Tick::Gpu::uuid);
    if (at == tick->gpus.end()) continue;
    add_growth(last_corrected, at->corrected, during.corrected);
    add_growth(last_uncorrected, at->uncorrected, during.uncorrected);
    raise(during.temperature_max_c, at->state.temperature_c);
    raise(during.power_max_w, at->state.power_w);
    const std::uint64_t mask = at->state.throttle_mask.value_or(0);
    if (mask & idle) continue;  // its clock is low because nothing runs
    ++during.seconds;
    during.throttle_mask |= mask;
    if (held_back(mask)) ++during.held_back_seconds;
    if (at->state.sm_clock_mhz) clocks.push_back(*at->state.sm_clock_mhz);
  }
  if (!clocks.empty()) during.sm_clock_min_mhz = std::ranges::min(clocks);
  during.sm_clock_median_mhz = median(clocks);
  return during;
}

// Counter growth from sample to sample, of each device from its last sample before.
std::vector<NicActivity> nics_during(std::span<const Tick> ticks) {
  std::map<std::string, NicActivity> nics;
  std::map<std::string, const std::map<std::string, std::uint64_t>*> last;
  for (const Tick& tick : ticks)
    for (const auto& [name, counters] : tick.nics) {
      const auto [then, first] = last.try_emplace(name, &counters);
      if (first) continue;
      const bool counts_bytes = counters.contains("tx_bytes") || counters.contains("port_xmit_data");
      NicActivity& during = nics.try_emplace(name, NicActivity{name, counts_bytes}).first->second;
      for (const auto& [counter, value] : counters)
        if (const auto at = then->second->find(counter); at != then->second->end() && value != at->second)
          if (const std::uint64_t growth = growth_of(at->second, value); growth > 0) during.counted[counter] += growth;
      then->second = &counters;
    }
  std::vector<NicActivity> all;
  for (auto& [name, during] : nics) all.push_back(std::move(during));
  return all;
}

// The samples inside the window. A long run has very many of both.
std::span<const Tick> ticks_in(std::span<const Tick> ticks, const Window& window) {
  const auto first = std::ranges::lower_bound(ticks, window.from, {}, &Tick::at);
  const auto after = std::ranges::upper_bound(ticks, window.to, {}, &Tick::at);
  return first < after ? std::span(first, after) : std::span<const Tick>();
}

// From the last sample before the window to the first after it, so that no traffic in it is lost. Without a sample
// inside the window the counted traffic could as well belong to the neighbouring windows.
std::vector<NicActivity> nics_during(std::span<const Tick> ticks, const Window& window) {
  const std::span<const Tick> inside = ticks_in(ticks, window);
  if (inside.empty()) return {};
  const auto first = static_cast<std::size_t>(&inside.front() - ticks.data()), after = first + inside.size();
  const std::size_t from = first == 0 ? 0 : first - 1;
  return nics_during(ticks.subspan(from, std::min(after + 1, ticks.size()) - from));
}

void add(std::vector<NicActivity>& sums, const std::vector<NicActivity>& more) {
  for (const NicActivity& nic : more) {
    const auto at = std::ranges::find(sums, nic.nic, &NicActivity::nic);
    NicActivity& sum = at == sums.end() ? sums.emplace_back(NicActivity{nic.nic, nic.counts_bytes}) : *at;
    for (const auto& [counter, grown] : nic.counted) sum.counted[counter] += grown;
  }
}

HostActivity host_during(const std::vector<Tick>& ticks, const Windows& spans, const Windows& failed,
                         const Host& host) {
  HostActivity during{.host = host.name};
  std::vector<const Tick*> within;
  for (const Window& span : spans)
    for (const Tick& tick : ticks_in(ticks, span)) within.push_back(&tick);
  std::ranges::sort(within);
  within.erase(std::ranges::unique(within).begin(), within.end());
  during.seconds = static_cast<int>(within.size());
  for (std::size_t i = 0; i < host.gpu_devices.size(); ++i)
    if (const std::string& uuid = host.gpu_devices[i].uuid; !uuid.empty())
      during.gpus.push_back(gpu_during(within, failed, uuid, static_cast<int>(i)));
  for (const Window& span : spans) add(during.nics, nics_during(ticks, span));
  return during;
}

struct CounterFinding {
  std::string id;
  Severity severity;
  std::string text, action;
  std::optional<int> xid = {};
};

std::vector<CounterFinding> complaints_of(const GpuActivity& gpu) {
  std::vector<CounterFinding> all;
  if (gpu.held_back_seconds > 0) {
    std::vector<std::string> reasons;
    for (std::uint64_t bit = 1; bit != 0 && bit <= gpu.throttle_mask; bit <<= 1)
      if ((gpu.throttle_mask & bit) && held_back(bit)) reasons.push_back(throttle_reasons(bit).front());
    std::string text = fmt::format("held back ({}) in {} of {} looks, one a second", join(reasons),
                                   gpu.held_back_seconds, gpu.seconds);
    if (gpu.sm_clock_min_mhz) text += fmt::format(", SM clock down to {} MHz", *gpu.sm_clock_min_mhz);
    if (gpu.temperature_max_c) text += fmt::format(", up to {} °C", *gpu.temperature_max_c);
    all.push_back({"gpu.held_back", Severity::warning, text,
                   "see nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; on rented capacity replace the instance"});
  }
  if (gpu.uncorrected > 0)
    all.push_back({"gpu.new_memory_errors", Severity::error,
                   fmt::format("{} new uncorrected memory errors while measuring", gpu.uncorrected),
                   "reset the GPU; replace the instance if they come back"});
  for (auto event = gpu.xids.begin(); event != gpu.xids.end(); ++event) {
    const auto& [code, text, count] = *event;
    const XidClass& kind = class_at_last(event, gpu.xids.end(), [](const XidEvent&) { return true; });
    // An Xid that a process causes by itself is worth a warning if it occurs while measuring.
    all.push_back({"gpu.xid", of_a_process(code) ? Severity::warning : kind.severity,
                   fmt::format("Xid {} while measuring{}{}", code, count == 1 ? "" : fmt::format(" ({} times)", count),
                               text.empty() ? "" : fmt::format(": \"{}\"", text)),
                   kind.action, code});
  }
  return all;
}

// Counters that stay still on a sound fabric: of EFA; of verbs (Linux, Documentation/ABI/stable/sysfs-class-infiniband,
// and mlx5's hw_counters).
constexpr std::array efa_drops{"rx_drops", "retrans_timeout_events", "impaired_remote_conn_events",
                               "unresponsive_remote_events"};
constexpr std::array verbs_drops{"symbol_error",      "link_error_recovery", "link_downed",
                                 "port_rcv_errors",   "port_xmit_discards",  "local_link_integrity_errors",
                                 "out_of_sequence",   "packet_seq_err",      "local_ack_timeout_err",
                                 "rnr_nak_retry_err", "rx_discards",         "rx_discards_phy",
                                 "roce_slow_restart"};
// Lost packets, as Ethernet has them where nothing holds its senders back.
constexpr std::array lost_on_roce{"out_of_sequence", "packet_seq_err", "rx_discards", "rx_discards_phy"};
// RoCE counters that show senders slowed down by ECN.
constexpr std::array congestion_notices{"np_cnp_sent", "rp_cnp_handled", "np_ecn_marked_roce_packets"};

std::uint64_t grown(const NicActivity& nic, std::span<const char* const> names) {
  std::uint64_t sum = 0;
  for (const char* name : names)
    if (const auto at = nic.counted.find(name); at != nic.counted.end()) sum += at->second;
  return sum;
}

std::string drops_of(const NicActivity& nic) {
  std::vector<std::string> parts;
  for (const std::span<const char* const> names :
       {std::span<const char* const>(efa_drops), std::span<const char* const>(verbs_drops)})
    for (const char* name : names)
      if (const auto at = nic.counted.find(name); at != nic.counted.end())
        parts.push_back(fmt::format("{} {}", at->second, name));
  return join(parts);
}

std::string remedy_for_drops(const Host& host, const NicActivity& nic) {
  const auto device = std::ranges::find(host.nics, nic.nic, &Nic::name);
  if (device != host.nics.end() && device->kind == "ethernet" && grown(nic, lost_on_roce) > 0)
    return grown(nic, congestion_notices) > 0 ? "RoCE lost packets although ECN marks some: set PFC for its priority "
                                                "on hosts and switches, and compare "
                                                "the thresholds of ECN"
                                              : "RoCE lost packets and no congestion notice was counted: switch ECN "
                                                "(DCQCN) and PFC on for its priority "
                                                "and traffic class (NCCL_IB_TC) on all hosts and switches";
  return "compare with the other NICs: one that stands out is a bad rail, cable or port, or its peer's";
}

// EFA counts sends, and RDMA writes and reads besides: only some versions of its driver include the latter in the
// former, so the larger figure counts. InfiniBand counts in units of four bytes.
std::optional<std::uint64_t> sent_by(const NicActivity& nic) {
  if (!nic.counts_bytes) return std::nullopt;
  const auto of = [&](const char* name) -> std::uint64_t {
    const auto at = nic.counted.find(name);
    return at == nic.counted.end() ? 0 : at->second;
  };
  return std::max({of("tx_bytes"), of("rdma_write_bytes") + of("rdma_read_resp_bytes"), of("port_xmit_data") * 4});
}

const Host* host_named(const Topology& topology, const std::string& name) {
  const auto at = std::ranges::find(topology.hosts, name, &Host::name);
  return at == topology.hosts.end() ? nullptr : &*at;
}

// A GPU whose clock under load is well below that of the other GPUs of its model.
void add_stragglers(std::vector<Finding>& findings, const Topology& topology, const std::vector<HostActivity>& hosts) {
  constexpr int enough_looks = 3;
  constexpr double share = 0.9;
  std::map<std::string, std::vector<int>> clocks;  // by model
  const auto each = [&](const std::function<void(const Host&, const GpuActivity&, const Gpu&)>& visit) {
    for (const HostActivity& during : hosts)
      if (const Host* const host = host_named(topology, during.host))
        for (const GpuActivity& gpu : during.gpus)
          if (gpu.seconds >= enough_looks && gpu.sm_clock_median_mhz)
            visit(*host, gpu, host->gpu_devices[static_cast<std::size_t>(gpu.gpu)]);
  };
  each([&](const Host&, const GpuActivity& gpu, const Gpu& device) {
    clocks[device.name].push_back(*gpu.sm_clock_median_mhz);
  });
  each([&](const Host& host, const GpuActivity& gpu, const Gpu& device) {
    const int usual = *median(clocks[device.name]);
    if (clocks[device.name].size() < 3 || *gpu.sm_clock_median_mhz >= share * usual) return;
    findings.push_back(about_gpu(
        host, static_cast<std::size_t>(gpu.gpu), "gpu.straggler", Severity::warning,
        fmt::format("{} ran at {} MHz (median of {} looks) while measuring, {} GPUs like it at {} MHz", device.name,
                    *gpu.sm_clock_median_mhz, gpu.seconds, clocks[device.name].size() - 1, usual),
        "see nvidia-smi -q -d CLOCK,PERFORMANCE there: a lowered clock makes all ranks wait"));
  });
}

// NICs of the hosts of an NVLink domain, which send together.
struct DomainActivity {
  std::vector<const Host*> hosts;
  std::size_t counted = 0, nics = 0;  // hosts whose NICs count what they send, and their NICs
  std::uint64_t sent = 0;
};

// Data that never touched the NICs went another way. With reduction inside the network half may do. Where the watch
// ended early its counters lack what was sent later.
void add_bypass(std::vector<Finding>& findings, const Topology& topology, const std::vector<HostActivity>& hosts,
                std::uint64_t least_sent) {
  constexpr double tolerated = 0.25;
  constexpr std::uint64_t worth_looking = 1 << 30;
  if (least_sent < worth_looking) return;
  const std::vector<int> domains = domains_of_hosts(topology);
  std::map<int, DomainActivity> activities;
  for (std::size_t host = 0; host < topology.hosts.size(); ++host)
    activities[domains[host]].hosts.push_back(&topology.hosts[host]);
  for (const HostActivity& during : hosts) {
    const Host* const host = host_named(topology, during.host);
    const auto sent = bytes_sent(during);
    if (!host || !sent || ended_early(during)) continue;
    DomainActivity& its = activities[domains[static_cast<std::size_t>(host - topology.hosts.data())]];
    ++its.counted;
    its.nics += during.nics.size();
    its.sent += *sent;
  }
  for (const auto& [domain, its] : activities) {
    if (its.counted < its.hosts.size() || static_cast<double>(its.sent) >= tolerated * static_cast<double>(least_sent))
      continue;
    const Host &first = *its.hosts.front(), &last = *its.hosts.back();
    const bool single = its.hosts.size() == 1;
    Finding finding = about_host(
        first, "nic.bypassed", Severity::error,
        fmt::format("at least {:.4g} GB must have left {}, but its {} NICs of the fabric count {:.4g} GB sent",
                    static_cast<double>(least_sent) * 1e-9,
                    single ? first.name : fmt::format("the NVLink domain of {} to {}", first.name, last.name), its.nics,
                    static_cast<double>(its.sent) * 1e-9),
        "the data went another way, such as sockets: run once with NCCL_DEBUG=INFO and look for NET/; check that "
        "NCCL finds the network plugin");
    if (!single) {
      finding.subject = {};
      for (const Host* host : its.hosts) finding.hosts.push_back(host->name);
    }
    findings.push_back(std::move(finding));
  }
}

// Names of the NICs that a job's ranks on the host send through. A job with fewer ranks than GPUs leaves NICs idle:
// only those nearest to its GPUs are in use, none that is known where its GPUs are unknown.
std::set<std::string> nics_in_use(const Topology& topology, const Host& host) {
  std::set<std::string> all, nearest;
  for (const Nic& nic : host.nics) all.insert(nic.name);
  std::size_t ranks = 0;
  for (std::size_t rank = 0; rank < topology.host_of_rank.size(); ++rank) {
    if (&topology.hosts.at(static_cast<std::size_t>(topology.host_of_rank[rank])) != &host) continue;
    ++ranks;
    if (rank >= topology.gpu_of_rank.size()) continue;
    const auto gpu = std::ranges::find(host.gpu_devices, topology.gpu_of_rank[rank], &Gpu::uuid);
    if (gpu != host.gpu_devices.end()) nearest.insert(gpu->nics.begin(), gpu->nics.end());
  }
  return ranks >= host.gpu_devices.size() ? all : nearest;
}

void add_uneven(std::vector<Finding>& findings, const Topology& topology, const Host& host,
                const HostActivity& during) {
  constexpr double share = 0.5;
  constexpr std::uint64_t worth_looking = 1 << 30;
  // Only EFA devices are all there for the job; elsewhere some may serve storage.
  const std::set<std::string> in_use = nics_in_use(topology, host);
  std::vector<std::string> names;
  std::vector<std::uint64_t> all;
  for (const NicActivity& nic : during.nics) {
    if (!in_use.contains(nic.nic)) continue;
    const auto device = std::ranges::find(host.nics, nic.nic, &Nic::name);
    const auto sent = sent_by(nic);
    if (!sent || device == host.nics.end() || device->kind != "efa") continue;
    names.push_back(nic.nic);
    all.push_back(*sent);
  }
  if (all.size() < 2) return;
  std::vector<std::uint64_t> sorted = all;
  std::ranges::sort(sorted);
  const std::uint64_t usual = sorted[sorted.size() / 2];
  if (usual < worth_looking) return;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (static_cast<double>(all[i]) >= share * static_cast<double>(usual)) continue;
    Finding finding =
        about_host(host, "nic.uneven", Severity::warning,
                   fmt::format("{} sent {:.4g} GB while measuring, the NICs beside it {:.4g} GB (median)", names[i],
                               static_cast<double>(all[i]) * 1e-9, static_cast<double>(usual) * 1e-9),
                   "a rail that carries less is slow, down or left out: see the pairs through it and "
                   "NCCL_DEBUG=INFO");
    finding.subject.nic = names[i];
    findings.push_back(std::move(finding));
  }
}

}  // namespace

Tick tick_from(const std::string& line, Seconds at) {
  using json_fields::member, json_fields::member_as;
  const json j = parse_output("a line of the watch", line);
  Tick tick{.at = at};
  try {
    for (const json& gpu : json_fields::list_in(member(j, "gpus"))) {
      Tick::Gpu told{member_as<std::string>(gpu, "uuid"), gpu_state_from_json(member(gpu, "state"))};
      for (const auto& [name, count] : {std::pair("corrected", &told.corrected), {"uncorrected", &told.uncorrected}})
        if (!member(gpu, name).is_null()) *count = member_as<std::uint64_t>(gpu, name);
      tick.gpus.push_back(std::move(told));
    }
    tick.nics = member_as<decltype(tick.nics)>(j, "nics");
    tick.xids = member_as<std::vector<Tick::Xid>>(j, "xids");
  } catch (const json_fields::BadValue& problem) {
    throw not_of_this_build("a line of the watch", problem.what());
  }
  return tick;
}

std::vector<HostActivity> summarize(const std::vector<Tick>& ticks, const std::vector<Windows>& cases,
                                    const Host& host) {
  const Seconds end = ticks.empty() ? Seconds{} : ticks.back().at;
  Windows failed;
  double measured_s = 0;
  for (const Windows& windows : cases)
    for (const Window& window : windows) {
      measured_s = std::max(measured_s, window.to.count);
      if (window.failed) failed.push_back(window);
    }
  std::vector<HostActivity> all{host_during(ticks, {{{}, end}}, failed, host)};
  all.front().watched_s = end.count;
  all.front().measured_s = measured_s;
  for (const Windows& windows : cases) all.push_back(host_during(ticks, windows, failed, host));
  return all;
}

bool ended_early(const HostActivity& whole) {
  constexpr double tolerated_s = 10;
  return whole.measured_s - whole.watched_s > tolerated_s;
}

json to_json(const std::vector<HostActivity>& during) { return json_fields::written(during); }

std::vector<HostActivity> during_from_json(const json& j) try {
  std::vector<HostActivity> during;
  json_fields::read(j, during);
  return during;
} catch (const json_fields::BadValue& problem) {
  throw UsageError(
      fmt::format("a watch is not in the form of this version: {}; install one on all hosts", problem.what()));
}

std::vector<HostActivity> activity_of_job(const Topology& topology, std::vector<HostActivity> hosts) {
  if (topology.gpu_of_rank.empty()) return hosts;
  for (HostActivity& during : hosts) {
    const Host* const host = host_named(topology, during.host);
    if (!host) continue;
    for (GpuActivity& gpu : during.gpus) {
      const std::string& uuid = host->gpu_devices.at(static_cast<std::size_t>(gpu.gpu)).uuid;
      if (std::ranges::find(topology.gpu_of_rank, uuid) != topology.gpu_of_rank.end()) continue;
      GpuActivity of_others{.gpu = gpu.gpu};
      of_others.corrected = gpu.corrected;
      of_others.uncorrected = gpu.uncorrected;
      of_others.xids = std::move(gpu.xids);
      gpu = std::move(of_others);
    }
  }
  return hosts;
}

CaseWatch over_hosts(const std::vector<HostActivity>& hosts) {
  CaseWatch watch;
  std::vector<int> medians;
  for (const HostActivity& host : hosts) {
    watch.seconds = &host == &hosts.front() ? host.seconds : std::min(watch.seconds, host.seconds);
    for (const GpuActivity& gpu : host.gpus) {
      if (gpu.sm_clock_min_mhz && (!watch.sm_clock_min_mhz || gpu.sm_clock_min_mhz < watch.sm_clock_min_mhz))
        watch.sm_clock_min_mhz = gpu.sm_clock_min_mhz;
      if (gpu.sm_clock_median_mhz) medians.push_back(*gpu.sm_clock_median_mhz);
      raise(watch.temperature_max_c, gpu.temperature_max_c);
      raise(watch.power_max_w, gpu.power_max_w);
      for (const CounterFinding& complaint : complaints_of(gpu))
        watch.notes.push_back(fmt::format("{} GPU {}: {}", host.host, gpu.gpu, complaint.text));
    }
    for (const NicActivity& nic : host.nics)
      if (const std::string drops = drops_of(nic); !drops.empty())
        watch.notes.push_back(fmt::format("{} {}: {}", host.host, nic.nic, drops));
  }
  watch.sm_clock_median_mhz = median(medians);
  return watch;
}

json to_json(const CaseWatch& watch) { return json_fields::written(watch); }

CaseWatch case_watch_from_json(const json& j) {
  CaseWatch watch;
  json_fields::read(j, watch);
  return watch;
}

std::optional<std::uint64_t> bytes_sent(const HostActivity& host) {
  std::optional<std::uint64_t> sum;
  for (const NicActivity& nic : host.nics)
    if (const auto sent = sent_by(nic)) sum = sum.value_or(0) + *sent;
  return sum;
}

std::vector<FindingKind> watch_kinds() {
  using enum About;
  return {{"gpu.held_back", hardware, "a GPU lowered its clocks while measuring: heat, power or a brake"},
          {"gpu.new_memory_errors", hardware, "a GPU counted memory errors while measuring"},
          {"gpu.xid", hardware, "the driver reported an Xid error while measuring"},
          {"gpu.straggler", hardware, "a GPU ran at a lower clock than the others"},
          {"nic.errors", fabric, "a NIC counted errors or drops while measuring"},
          {"nic.uneven", fabric, "a NIC carried much less than its neighbours"},
          {"nic.bypassed", software, "less crossed the fabric's NICs than must have: another transport was used"}};
}

std::vector<Finding> watch_findings(const Topology& topology, const std::vector<HostActivity>& hosts,
                                    std::uint64_t least_sent) {
  std::vector<Finding> findings;
  for (const HostActivity& during : hosts) {
    const Host* const host = host_named(topology, during.host);
    if (!host) continue;
    for (const GpuActivity& gpu : during.gpus)
      for (const CounterFinding& complaint : complaints_of(gpu)) {
        findings.push_back(about_gpu(*host, static_cast<std::size_t>(gpu.gpu), complaint.id, complaint.severity,
                                     fmt::format("GPU {} of {}: {}", gpu.gpu, host->name, complaint.text),
                                     complaint.action));
        findings.back().subject.xid = complaint.xid;
      }
    for (const NicActivity& nic : during.nics)
      if (const std::string drops = drops_of(nic); !drops.empty()) {
        Finding finding = about_host(*host, "nic.errors", Severity::warning,
                                     fmt::format("{} of {} counted while measuring: {}", nic.nic, host->name, drops),
                                     remedy_for_drops(*host, nic));
        finding.subject.nic = nic.nic;
        findings.push_back(std::move(finding));
      }
    add_uneven(findings, topology, *host, during);
  }
  add_bypass(findings, topology, hosts, least_sent);
  add_stragglers(findings, topology, hosts);
  const std::vector<FindingKind> kinds = watch_kinds();
  for (Finding& finding : findings) finding.about = std::ranges::find(kinds, finding.id, &FindingKind::id)->about;
  return findings;
}

}  // namespace p5::topo
