#include "reports/judge.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/model/backends.hpp"
#include "reports/bars.hpp"
#include "reports/decision.hpp"
#include "reports/local_checks.hpp"
#include "reports/rendezvous.hpp"
#include "topo/host_memory.hpp"
#include "topo/platform.hpp"

namespace p5::reports {

namespace {

bool is_against(const Bar& bar, const topo::Limit& limit) {
  return bar.binding == limit.binding && bar.level == topo::name_of(limit.level);
}

// The same words for all sizes, so that a reader sees each reason once. Of `bars` none is for a message so small.
std::string why_no_bar(const Case& c, const std::vector<const Bar*>& bars, const topo::Limit& limit,
                       const topo::Topology& topology) {
  const auto against = std::ranges::find_if(bars, [&](const Bar* bar) { return is_against(*bar, limit); });
  if (against != bars.end())
    return fmt::format("less than {} a rank: too little to judge bandwidth by", to_text((*against)->from));
  const auto another = std::ranges::find(bars, topo::name_of(limit.level), &Bar::level);
  if (another != bars.end())
    return fmt::format("published figures of healthy ones bind by {}, this one by {}", (*another)->binding,
                       limit.binding);
  const std::string model = gpu_model(topology);
  const std::string kind = !topology.platform.empty() ? topology.platform
                           : !model.empty()           ? "machine of " + model
                                                      : "machine of this kind";
  return fmt::format("nobody has shown what a healthy {} reaches in {} with {} ranks on {} {}", kind,
                     c.collective->name, c.ranks, c.nodes, c.nodes == 1 ? "node" : "nodes");
}

topo::Limit scaled(const topo::Limit& limit, double factor, const std::string& why) {
  topo::Limit out = limit;
  out.rate = limit.rate * factor;
  out.because += why;
  return out;
}

// Bus bandwidth counts what each rank moves, so the ranks of a host share what they can copy together.
std::optional<topo::Limit> host_limit(const Case& c, const topo::Limits& limits, const topo::Topology& topology) {
  const auto* one = find(limits, topo::host_copy_one, topo::Level::wire);
  const auto* all = find(limits, topo::host_copy_all, topo::Level::wire);
  if (!one || !all) return std::nullopt;
  std::vector<int> ranks_on(topology.hosts.size());
  for (int host : topology.host_of_rank) ++ranks_on[static_cast<std::size_t>(host)];
  const int most_ranks = ranks_on.empty() ? 1 : *std::ranges::max_element(ranks_on);
  if (is_alone(c)) {
    // Both ways, two copies go on at once.
    return c.pattern == "both_ways" ? scaled(*all, 1.0 / std::min(2, most_ranks), "; two copies at once") : *one;
  }
  // Of a star bus bandwidth counts what the root moves, for which all may copy.
  if (c.collective->route == Route::star) return *all;
  const int copies = c.collective->pairwise && c.pattern != "both_ways" ? std::max(1, most_ranks / 2) : most_ranks;
  topo::Limit share = scaled(*all, 1.0 / copies, fmt::format("; shared by {} ranks that copy at once", copies));
  return share.rate < one->rate ? share : *one;
}

int ranks_on_node(const Case& c) { return (c.ranks + c.nodes - 1) / c.nodes; }

bool used_nvls(const Measurement& m) { return m.selection && m.selection->algorithm.starts_with("nvls"); }

// A GPU's link into its node, and across nodes its NICs too: the slower binds. Where nobody has shown what is
// achievable, what the wires carry.
std::optional<topo::Limit> gpu_limit(const Measurement& m, const topo::Limits& limits) {
  const Case& c = m.measured_case;
  topo::Operation op{
      .route = c.collective->route, .ranks = c.ranks, .nodes = c.nodes, .nvls = used_nvls(m), .alone = is_alone(c)};
  for (const topo::Level level : {topo::Level::achievable, topo::Level::wire}) {
    if (auto limit = limit_of(limits, op, level)) return limit;
    // What NVLS can do here is not known, but it was chosen for being faster than a ring.
    op.nvls = false;
    if (auto limit = limit_of(limits, op, level)) return limit;
  }
  return std::nullopt;
}

std::optional<topo::Limit> limit_for(const Measurement& m, const topo::Limits& limits, const topo::Topology& topology) {
  const Case& c = m.measured_case;
  const BackendInfo::Parts parts = find_backend(c.backend).parts;
  if (c.nic) {
    const topo::Limit* const nic = find(limits, topo::one_nic, topo::Level::wire);
    return nic ? std::optional(*nic) : std::nullopt;
  }
  // Known on some platforms, and below what the wires carry: see why_no_limit().
  if (parts == BackendInfo::Parts::nics) return std::nullopt;
  if (parts == BackendInfo::Parts::gpus) return gpu_limit(m, limits);
  if (c.nodes < 2) return host_limit(c, limits, topology);
  const auto* nics = find(limits, topo::node_nics, topo::Level::wire);
  if (!nics) return std::nullopt;
  const topo::Operation op{.route = c.collective->route, .ranks = c.ranks, .nodes = c.nodes};
  if (c.collective->route == Route::star) return exchange_limit(*nics, op);
  if (c.collective->route != Route::exchange && c.collective->route != Route::uneven_exchange) return *nics;
  const int sharing = ranks_on_node(c);
  return exchange_limit(scaled(*nics, 1.0 / sharing, fmt::format("; shared by {} ranks", sharing)), op);
}

// What keeps a figure from being judged on this kind of machine: sources that differ. "" for nothing.
std::string conflict_over(const Case& c, const topo::Topology& topology) {
  const topo::Platform* const platform = topo::platform_of_instance_type(topology.platform);
  if (!platform || find_backend(c.backend).parts == BackendInfo::Parts::hosts) return "";
  if (const auto* about = platform->conflict_about(c.collective->name)) return about->text;
  const auto* about = c.nodes > 1 ? platform->conflict_about("nics") : nullptr;
  return about ? about->text : "";
}

// Single NICs are held against each other, not against their wires: see suspects.
std::string why_no_nic_is_judged(const Measurement& m) {
  std::string why = "not judged by the wire, but NICs by each other: data in host memory";
  if (m.selection && m.selection->protocol == packets_protocol)
    why +=
        ", and without device RDMA: processors copied it in packets (libfabric below 1.18, FI_EFA_USE_DEVICE_RDMA=0 "
        "or a device that has none)";
  else if (m.selection)
    why += fmt::format(", moved by {}", m.selection->protocol);
  return why;
}

// Says what is known besides of messages of host memory through all NICs.
std::string why_no_limit(const Measurement& m, const topo::Topology& topology) {
  const Case& c = m.measured_case;
  if (c.nic && find_backend(c.backend).parts == BackendInfo::Parts::nics) return why_no_nic_is_judged(m);
  const topo::Platform* const platform = topo::platform_of_instance_type(topology.platform);
  const topo::HostMemoryRate* const known = platform ? topo::host_memory_of(*platform) : nullptr;
  if (!known || find_backend(c.backend).parts != BackendInfo::Parts::nics) return "the limit is not known";
  return fmt::format("not judged: data in host memory, which feeds {:g} of the {:g} GB/s of a {}'s NICs", known->read,
                     platform->nics * platform->nic_rate.count, platform->name);
}

Verdict unknown(std::string because) {
  return {
      .grade = Grade::unknown, .level = "", .limit = {}, .fraction = {}, .binding = "", .because = std::move(because)};
}

std::string wrong_text(const Measurement& m) {
  if (!m.first_wrong) return fmt::format("{} wrong elements", m.wrong_elements);
  const WrongElement& first = *m.first_wrong;
  return fmt::format("{} wrong {}; the first at rank {}, {} {}: wanted {}, got {}", m.wrong_elements,
                     m.wrong_elements == 1 ? "element" : "elements", first.rank,
                     first.guard ? "byte beside the buffer" : "element", first.offset, first.wanted, first.got);
}

// Of several groups the figures are the slowest one's: which that is.
std::string slowest_of(const Measurement& m, const topo::Topology& topology) {
  if (m.groups.size() < 2 || m.slowest_group.empty()) return "";
  const auto place = [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (at >= topology.host_of_rank.size()) return fmt::format("rank {}", rank);
    return fmt::format("rank {} on {}", rank, topology.hosts[static_cast<std::size_t>(topology.host_of_rank[at])].name);
  };
  if (m.measured_case.collective->pairwise)
    return fmt::format("; the slowest of {} pairs, {} to {}", m.groups.size(), place(m.slowest_group.front()),
                       place(m.slowest_group.back()));
  return fmt::format("; the slowest of {} groups, from {} on", m.groups.size(), place(m.slowest_group.front()));
}

std::string share_of_limit(const Verdict& v) {
  return fmt::format("{:.0f} % of what {} can do ({:.4g} GB/s, {})", *v.fraction * 100, v.binding, v.limit->count,
                     v.level);
}

std::string proves_no_nics(const Case& c, const topo::Limit& limit) {
  if (c.nodes < 2 || limit.binding == "nic") return "";
  return fmt::format("; between {} nodes this cannot prove the NICs: pairs and all_gather do", c.nodes);
}

// Where nobody has shown what such a machine reaches, it is slow under the floor that holds for every machine.
void hold_against_floor(const Measurement& m, const topo::Limit& limit, const topo::Topology& topology, Verdict& v) {
  const Floor* const floor = floor_of(m.measured_case, topology);
  if (!floor) return;
  const double share = floor->share * achievable_of(limit);
  if (*v.fraction >= share) return;
  v.grade = Grade::slow;
  v.because = fmt::format(
      "{}; slow below {:.0f} % on any machine: the lowest published figure of a healthy one is {:.0f} % of what is "
      "achievable, with {} a rank and more ({})",
      share_of_limit(v), share * 100, floor->lowest * 100, to_text(floor->from), floor->of);
  v.because += slowest_of(m, topology) + proves_no_nics(m.measured_case, limit);
}

// Against the limit alone. `conflict`: what sources differ about, so that their figures are no bar; "" for nothing.
Verdict measure_against(const Measurement& m, const topo::Limit& limit, const topo::Topology& topology,
                        const std::string& conflict) {
  const Case& c = m.measured_case;
  Verdict v;
  v.level = topo::name_of(limit.level);
  v.limit = limit.rate;
  v.binding = limit.binding;
  v.fraction = bus_bandwidth(c, {m.throughput->summary.median}).count / limit.rate.count;
  if (c.nic && find_backend(c.backend).parts == BackendInfo::Parts::nics) {
    v.because = why_no_nic_is_judged(m);
    return v;
  }
  // A node by itself is what a job of one node is.
  if (c.group != "world" && c.group != "node") {
    v.because = fmt::format("not judged: nobody has shown what a healthy machine reaches in groups ({})", c.group);
    return v;
  }
  const std::vector<const Bar*> bars = bars_of(c, topology);
  const Bar* bar = nullptr;
  for (const Bar* each : bars)
    if (is_against(*each, limit) && part_of_rank(c) >= each->from) bar = each;
  if (!bar || !conflict.empty()) {
    v.because = "not judged: " + (conflict.empty() ? why_no_bar(c, bars, limit, topology) : conflict);
    hold_against_floor(m, limit, topology, v);
    return v;
  }
  v.grade = *v.fraction >= bar->ok_from ? Grade::ok : Grade::slow;
  v.because = fmt::format("{}; good from {:.0f} %: {}", share_of_limit(v), bar->ok_from * 100, bar->because);
  v.because += slowest_of(m, topology) + proves_no_nics(c, limit);
  return v;
}

}  // namespace

Verdict judge(const Measurement& m, const topo::Limits& limits, const topo::Topology& topology,
              const Comparability& fitness) {
  if (m.outcome == Outcome::failed) {
    Verdict v = unknown(m.because);
    v.grade = Grade::failed;
    return v;
  }
  if (m.outcome == Outcome::skipped || !m.throughput) return unknown("not measured: " + m.because);
  if (m.wrong_elements > 0) {
    Verdict v = unknown(wrong_text(m));
    v.grade = Grade::wrong;
    return v;
  }
  if (m.measured_case.ranks < 2) return unknown("one rank alone communicates with nobody");
  const std::optional<topo::Limit> limit = limit_for(m, limits, topology);
  const std::string conflict = conflict_over(m.measured_case, topology);
  if (!limit) return unknown(why_no_limit(m, topology) + (conflict.empty() ? "" : ": " + conflict));
  Verdict v = measure_against(m, *limit, topology, conflict);
  if (!fitness.comparable) {
    v.grade = Grade::unknown;
    v.because = "not judged: " + fitness.why_not;
  }
  return v;
}

void leave_to_all_pairs(std::vector<Result>& results) {
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

Grade overall(const Report& report) {
  for (Grade grade : {Grade::wrong, Grade::failed, Grade::faulty, Grade::slow, Grade::ok}) {
    if (std::ranges::any_of(report.results, [&](const Result& r) { return r.verdict.grade == grade; })) return grade;
    if (grade == Grade::faulty && std::ranges::any_of(report.findings, topo::condemns)) return grade;
    if (grade == Grade::slow && (!report.suspects.empty() || !report.open_questions.empty())) return grade;
  }
  return Grade::unknown;
}

ExitCode exit_code(const Report& report, bool wants_verdict) {
  // A run that never began is no fault of its cases.
  if (never_joined(report)) return ExitCode::environment;
  ExitCode code = ExitCode::ok;
  for (const Result& result : report.results) {
    if (result.verdict.grade == Grade::slow) code = worse(code, ExitCode::slow);
    if (result.verdict.grade == Grade::wrong) code = worse(code, ExitCode::wrong_data);
    if (result.verdict.grade == Grade::failed) code = worse(code, ExitCode::unfinished);
  }
  // Also where no figure shows it yet: a part that is missing or about to fail.
  if (std::ranges::any_of(report.findings, topo::condemns) || !report.suspects.empty() ||
      !report.open_questions.empty())
    code = worse(code, ExitCode::slow);
  // What fails with a setting that was only tried is that setting's fault; what fails with none is the machine's.
  if (report.tuning)
    for (const TuningFailure& failure : report.tuning->failures)
      if (failure.setting == "default")
        code = worse(code, failure.wrong_data ? ExitCode::wrong_data : ExitCode::unfinished);
  const auto has_finding = [&](std::string_view id) {
    return std::ranges::find(report.findings, id, &topo::Finding::id) != report.findings.end();
  };
  if (has_finding(check_failed)) code = worse(code, ExitCode::unfinished);
  if (has_finding(corrupt)) code = worse(code, ExitCode::wrong_data);
  if (wants_verdict && !report.run.backend.empty() &&
      find_backend(report.run.backend).parts == BackendInfo::Parts::gpus && !was_judged(report))
    code = worse(code, ExitCode::inconclusive);
  return code;
}

}  // namespace p5::reports
