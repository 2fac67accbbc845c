#include "reports/local_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "bench/measure/load.hpp"
#include "reports/reachability.hpp"
#include "topo/checks/families.hpp"
#include "topo/platform.hpp"
#include "topo/tables.hpp"

namespace p5::reports {

namespace {

struct Device {
  std::size_t rank = 0;
  const topo::Host* host = nullptr;
  std::optional<int> gpu;  // index on its host
  std::string model;
  std::optional<double> power_cap_w;
  int programs = 0;  // others that compute on it
};

// The model of all GPUs of a host that have a name; "" where none has one or they differ.
std::string only_model(const topo::Host& host) {
  std::set<std::string> models;
  for (const topo::Gpu& gpu : host.gpu_devices)
    if (!gpu.name.empty()) models.insert(gpu.name);
  return models.size() == 1 ? *models.begin() : "";
}

Device device_of(const Report& report, std::size_t rank) {
  const topo::Topology& topology = report.topology;
  Device device;
  device.rank = rank;
  if (rank >= topology.host_of_rank.size()) return device;
  device.host = &topology.hosts[static_cast<std::size_t>(topology.host_of_rank[rank])];
  const auto& gpus = device.host->gpu_devices;
  const auto found = rank < topology.gpu_of_rank.size()
                         ? std::ranges::find(gpus, topology.gpu_of_rank[rank], &topo::Gpu::uuid)
                         : gpus.end();
  if (found == gpus.end()) {
    device.model = only_model(*device.host);
    return device;
  }
  device.gpu = static_cast<int>(found - gpus.begin());
  device.model = found->name;
  device.power_cap_w = found->power_cap_w;
  device.programs = found->processes.value_or(0);
  return device;
}

// The same for GPUs that are comparable: those of one model, and where that is not known those of one host.
using Likeness = std::pair<std::string, const topo::Host*>;
Likeness likeness_of(const Device& device) { return {device.model, device.model.empty() ? device.host : nullptr}; }

std::optional<double> figure(const Report& report, std::size_t rank, const LocalCheck& check) {
  const auto found = report.local_checks[rank].find(std::string(check.name));
  return found == report.local_checks[rank].end() ? std::nullopt : std::optional(found->second);
}

// True if the report says why this figure was left out on this GPU; after a wrong bit its checks end.
bool was_left_out(const Report& report, std::size_t rank, const LocalCheck& check) {
  if (rank >= report.compute_checks.size()) return false;
  const ComputeCheck& compute = report.compute_checks[rank];
  if (check.name.starts_with("fp8") && !compute.fp8_not_measured.empty()) return true;
  return !compute.corruption.empty() || (check.unit == "TFLOP/s" && !compute.not_measured.empty());
}

// The size of the matrix products behind a figure, the largest of several measurements; 0 for figures of anything else,
// and where the size is not known: that of products under load is the same on all GPUs. Rates of unlike sizes are not
// comparable.
unsigned long size_of_products(const ComputeCheck& compute, const LocalCheck& check) {
  if (check.unit != "TFLOP/s" || check.under_load) return 0;
  const std::string_view type = check.name.starts_with("fp8") ? "fp8 " : "bf16 ";
  unsigned long largest = 0;
  for (const auto& [product, digest] : compute.digests)
    if (product.starts_with(type)) largest = std::max(largest, std::strtoul(&product[type.size()], nullptr, 10));
  return largest;
}

unsigned long size_of_products(const Report& report, std::size_t rank, const LocalCheck& check) {
  return rank < report.compute_checks.size() ? size_of_products(report.compute_checks[rank], check) : 0;
}

std::string text_of(double value, const LocalCheck& check) {
  return fmt::format("{:.4g}{}", value, check.unit.empty() ? "" : fmt::format(" {}", check.unit));
}

topo::Finding finding_of(const Device& device, const LocalCheck& check, topo::Severity severity,
                         const std::string& evidence) {
  topo::Finding finding;
  finding.id = std::string(check.under_load ? slow_under_load_id : slow_alone_id);
  finding.severity = severity;
  finding.about = topo::About::hardware;
  if (device.host) finding.subject = {device.host->name, device.host->instance, device.gpu, {}};
  finding.evidence =
      fmt::format("rank {}, {}{}: {}", device.rank, check.under_load ? "" : "alone, ", check.label, evidence);
  finding.action = check.action;
  return finding;
}

// The fraction by which a GPU may be worse than the median of so many others. A check's tolerance is for the median of
// a whole cluster; that of few GPUs differs from it as they do from each other. Of two healthy H200 one computes up
// to 4.1 % less (2026-11-27).
double tolerated(const LocalCheck& check, std::size_t others) {
  return check.tolerated * std::sqrt(1 + 1.0 / static_cast<double>(others));
}

// Median of sorted values without the one at `left_out`.
double median_of_others(const std::vector<double>& sorted, std::size_t left_out) {
  const auto other = [&](std::size_t i) { return sorted[i < left_out ? i : i + 1]; };
  const std::size_t others = sorted.size() - 1, middle = others / 2;
  return others % 2 == 1 ? other(middle) : (other(middle - 1) + other(middle)) / 2;
}

struct Deviation {
  double here, others;  // the GPU's figure, and the median of all others'
  double by;            // how much worse it is, relative to the others
};

// By rank, for all GPUs that have the figure. Two of them suffice: no fault makes a GPU faster, so the slower one is at
// fault.
std::map<std::size_t, Deviation> deviations(const Report& report, const std::vector<Device>& alike,
                                            const LocalCheck& check) {
  std::map<std::size_t, double> all;
  for (const Device& device : alike)
    if (const auto value = figure(report, device.rank, check)) all.emplace(device.rank, *value);
  if (all.size() < 2) return {};
  std::vector<double> sorted;
  for (const auto& [rank, value] : all) sorted.push_back(value);
  std::ranges::sort(sorted);
  std::map<std::size_t, Deviation> found;
  for (const auto& [rank, here] : all) {
    const double others =
        median_of_others(sorted, static_cast<std::size_t>(std::ranges::lower_bound(sorted, here) - sorted.begin()));
    found.emplace(rank, Deviation{here, others, (check.more_is_better ? others - here : here - others) / others});
  }
  return found;
}

// The load of each rank; empty where the topology does not have all ranks.
std::vector<LoadOfRank> loads_of(const Report& report) {
  const std::vector<int>& host_of_rank = report.topology.host_of_rank;
  if (host_of_rank.size() < report.local_checks.size()) return {};
  const std::vector<int> domains = topo::domains_of_hosts(report.topology);
  DomainOfRank domain_of_rank;
  for (const int host : host_of_rank) domain_of_rank.push_back(domains.at(static_cast<std::size_t>(host)));
  return loads_of_ranks(domain_of_rank);
}

// True if these ranks exchange messages of the check's part with each other only. Of several partners the best counts.
bool have_no_other_partner(const std::set<std::size_t>& ranks, const LocalCheck& check,
                           const std::vector<LoadOfRank>& loads) {
  const auto part = std::ranges::find_if(
      load_parts, [&](const LoadPart& each) { return check.name.starts_with(fmt::format("load_{}_", each.name)); });
  if (part == load_parts.end()) return false;
  return std::ranges::all_of(ranks, [&](std::size_t rank) {
    if (rank >= loads.size()) return false;
    const auto partners = loads[rank].partners.find(static_cast<std::size_t>(part - load_parts.begin()));
    return partners != loads[rank].partners.end() && std::ranges::all_of(partners->second, [&](int other) {
             return ranks.contains(static_cast<std::size_t>(other));
           });
  });
}

struct Worse : Deviation {
  const Device* device;
  std::optional<double> cap_of_others;  // their median power cap in watts, where the GPU's own is lower
};

std::optional<double> higher_cap_of_others(const std::vector<Device>& alike, const Device& device) {
  constexpr double lowered = 0.99;
  std::vector<double> others;
  for (const Device& each : alike)
    if (each.rank != device.rank && each.power_cap_w) others.push_back(*each.power_cap_w);
  if (!device.power_cap_w || others.empty()) return std::nullopt;
  const double usual = median(others);
  return *device.power_cap_w < lowered * usual ? std::optional(usual) : std::nullopt;
}

// Adds to evidence and action what a lower power cap and other programs have to do with it. They are no faults of the
// GPU, and come first unless it is slower than they explain.
void explain_by_settings(topo::Finding& finding, const Worse& one, const LocalCheck& check) {
  std::string first;
  if (one.cap_of_others && check.condemned > 0) {
    finding.evidence += fmt::format("; with a power cap of {:.0f} W, where the others have {:.0f} W",
                                    *one.device->power_cap_w, *one.cap_of_others);
    first = "give it the others' power cap first (nvidia-smi -pl). Then ";
  }
  if (const int programs = one.device->programs; programs > 0) {
    finding.evidence +=
        fmt::format("; {} other {} on it", programs, programs == 1 ? "program computes" : "programs compute");
    first += "run again without other programs on it. Then ";
  }
  if (finding.severity != topo::Severity::error) finding.action = first + finding.action;
}

// The deviation from which a GPU is at fault, whatever its power cap and other programs on it explain: a power cap of a
// tenth less costs at most 15 % of a rate, since what a GPU draws without computing is a third of its power at most,
// and N programs leave a GPU of equal turns one part of N + 1.
double condemned_from(const Worse& one, const LocalCheck& check) {
  constexpr double loss_by_cap = 1.5;
  const double lowered = one.cap_of_others ? 1 - *one.device->power_cap_w / *one.cap_of_others : 0;
  const double left = std::max(0.0, 1 - loss_by_cap * lowered) / (1 + one.device->programs);
  return std::max(check.condemned, 1 - (1 - 2 * check.tolerated) * left);
}

// True if the check condemns the GPU. Ranks that take turns on processors launch late, and what another of them waits
// for is late too.
bool is_condemned(const Worse& one, const LocalCheck& check, const Report& report) {
  return check.condemned > 0 && one.by > condemned_from(one, check) &&
         !(check.under_load && !topo::oversubscribed_hosts(report.topology).empty());
}

// Leaves those of a host's GPUs, all of which are worse than others, that have this in common. The others are at fault
// by themselves: condemned where some are not, or worse than the host's too.
void keep_what_is_common(std::vector<const Worse*>& its, const LocalCheck& check, const Report& report) {
  std::vector<double> all;
  for (const Worse* each : its) all.push_back(each->by);
  const double typical = median(all), left = check.more_is_better ? 1 - typical : 1 + typical;
  const double tolerance = tolerated(check, its.size() - 1);
  const auto condemned = [&](const Worse* each) { return is_condemned(*each, check, report); };
  const bool all_condemned = std::ranges::all_of(its, condemned);
  std::erase_if(its, [&](const Worse* each) {
    return (condemned(each) && !all_condemned) || each->by - typical > tolerance * left;
  });
}

constexpr std::string_view all_gpus = "all ";  // begins the evidence of such a finding

// Adds one finding for each host of which all GPUs are worse, three or more, and their ranks to `told`, but for those
// that are at fault by themselves. Where GPUs of another host show the same of an exchange, either host may be the slow
// one.
void add_whole_hosts(const Report& report, const std::vector<Device>& alike, const LocalCheck& check,
                     const std::vector<Worse>& worse_ones, std::set<std::size_t>& told,
                     std::vector<topo::Finding>& findings) {
  constexpr std::size_t fewest = 3;
  std::map<const topo::Host*, std::vector<const Worse*>> by_host;
  for (const Worse& each : worse_ones)
    if (each.device->host) by_host[each.device->host].push_back(&each);
  for (auto& [host, its] : by_host) {
    const std::size_t of_host = its.size();
    if (its.size() < fewest || std::cmp_not_equal(its.size(), std::ranges::count(alike, host, &Device::host))) continue;
    const auto shows_the_same = [&](const Worse& other) {
      return other.device->host != host && std::ranges::any_of(its, [&](const Worse* each) {
               return std::abs(other.here - each->here) < check.tolerated * each->here;
             });
    };
    if (check.of_exchange && std::ranges::any_of(worse_ones, shows_the_same)) continue;
    keep_what_is_common(its, check, report);
    if (its.size() < fewest) continue;
    std::vector<double> here;
    for (const Worse* each : its) here.push_back(each->here), told.insert(each->device->rank);
    const bool condemned =
        std::ranges::all_of(its, [&](const Worse* each) { return is_condemned(*each, check, report); });
    topo::Finding finding =
        finding_of(*its.front()->device, check, condemned ? topo::Severity::error : topo::Severity::warning, "");
    finding.subject.gpu.reset();
    const double typical = median(here), others = its.front()->others;
    finding.evidence = fmt::format(
        "all {} {}GPUs of {}, {}{}: {}, their median; median of the others of their model: "
        "{:.4g} ({:.0f} % {})",
        its.size(), its.size() < of_host ? "other " : "", host->name, check.under_load ? "" : "alone, ", check.label,
        text_of(typical, check), others, 100 * std::abs(1 - typical / others), check.more_is_better ? "less" : "more");
    const auto has_reason = [](const Worse* each) { return each->cap_of_others || each->device->programs > 0; };
    if (std::ranges::all_of(its, has_reason)) explain_by_settings(finding, *its.front(), check);
    findings.push_back(std::move(finding));
  }
}

// Adds findings for those of the GPUs, whose figures are comparable, that are worse than the others. `of_model`: all
// GPUs of their model.
void find_worse_of(const Report& report, const std::vector<Device>& of_model, const std::vector<Device>& alike,
                   const LocalCheck& check, const std::vector<LoadOfRank>& loads,
                   std::vector<topo::Finding>& findings) {
  std::vector<Worse> worse_ones;
  const std::map<std::size_t, Deviation> own = deviations(report, alike, check);
  std::map<std::size_t, Deviation> rates;
  if (!check.rate.empty())
    rates = deviations(report, alike, *std::ranges::find(local_checks(), check.rate, &LocalCheck::name));
  for (const Device& device : alike) {
    const auto its = own.find(device.rank);
    if (its == own.end()) continue;
    Worse worse{its->second, &device, {}};
    if (const auto rate = rates.find(device.rank); rate != rates.end()) worse.by = std::min(worse.by, rate->second.by);
    if (!(worse.by > tolerated(check, own.size() - 1))) continue;
    worse.cap_of_others = higher_cap_of_others(alike, device);
    worse_ones.push_back(worse);
  }
  // An exchange is as slow as the slower end; both ends of one show the same.
  const auto same_as = [&](const Worse& one) {
    std::vector<const Worse*> alike_ones;
    for (const Worse& other : worse_ones)
      if (check.of_exchange && &other != &one && std::abs(other.here - one.here) < check.tolerated * one.here)
        alike_ones.push_back(&other);
    return alike_ones;
  };
  std::set<std::size_t> told;
  add_whole_hosts(report, of_model, check, worse_ones, told, findings);
  for (const Worse& one : worse_ones) {
    if (told.contains(one.device->rank)) continue;
    const bool condemned = is_condemned(one, check, report);
    const std::vector<const Worse*> others = same_as(one);
    std::string evidence = fmt::format("{}; median of the {} others of its model: {:.4g} ({:.0f} % {})",
                                       text_of(one.here, check), alike.size() - 1, one.others,
                                       100 * own.at(one.device->rank).by, check.more_is_better ? "less" : "more");
    const std::string either =
        fmt::format("{} may be slow", others.size() < 2 ? "of two that exchange messages either"
                                                        : "of those that exchange messages each");
    std::set<std::size_t> ranks;
    std::vector<std::string> hosts;
    for (const Worse* each : others) ranks.insert(each->device->rank);
    if (!ranks.empty())
      evidence += fmt::format("; rank {} {} the same: {}", fmt::join(ranks, ", rank "),
                              ranks.size() == 1 ? "shows" : "show", either);
    topo::Finding finding =
        finding_of(*one.device, check, condemned ? topo::Severity::error : topo::Severity::warning, evidence);
    ranks.insert(one.device->rank);
    for (const Device& each : alike)
      if (ranks.contains(each.rank) && each.host && std::ranges::find(hosts, each.host->name) == hosts.end())
        hosts.push_back(each.host->name);
    if (hosts.size() > 1 && have_no_other_partner(ranks, check, loads)) {
      // Neither host is known to be at fault: one finding without a host.
      told.merge(std::set(ranks));
      finding.subject = {};
      finding.hosts = hosts;
      finding.evidence = fmt::format("{} (ranks {}), {}: {}", fmt::join(hosts, " or "), fmt::join(ranks, ", "),
                                     check.label, evidence.substr(0, evidence.find("; rank "))) +
                         fmt::format("; {}", either);
      finding.action = fmt::format(
          "measure each of the two nodes with a third one: the one that is slow there too is at fault. Then {}",
          check.action);
    }
    explain_by_settings(finding, one, check);
    findings.push_back(std::move(finding));
  }
}

void find_worse(const Report& report, const std::vector<Device>& of_model, const LocalCheck& check,
                const std::vector<LoadOfRank>& loads, std::vector<topo::Finding>& findings) {
  std::map<unsigned long, std::vector<Device>> by_size;
  std::vector<double> all;
  std::vector<const Device*> without;
  for (const Device& device : of_model) {
    if (const auto value = figure(report, device.rank, check)) {
      all.push_back(*value);
      by_size[size_of_products(report, device.rank, check)].push_back(device);
    } else if (!check.under_load && !was_left_out(report, device.rank, check)) {
      without.push_back(&device);
    }
  }
  if (all.empty()) return;
  for (const Device* const device : without)
    findings.push_back(finding_of(
        *device, check, topo::Severity::error,
        fmt::format("no figure; median of the {} others of its model: {}", all.size(), text_of(median(all), check))));
  for (const auto& [size, alike] : by_size) find_worse_of(report, of_model, alike, check, loads, findings);
}

topo::Finding corruption_of(const std::vector<Device>& devices, std::string evidence) {
  topo::Finding finding;
  finding.id = std::string(corrupt);
  finding.severity = topo::Severity::error;
  finding.about = topo::About::hardware;
  const Device& first = devices.front();
  const bool one_host = std::ranges::all_of(devices, [&](const Device& each) { return each.host == first.host; });
  if (first.host && one_host) finding.subject = {first.host->name, first.host->instance, {}, {}};
  if (devices.size() == 1) finding.subject.gpu = first.gpu;
  for (const Device& each : devices)
    if (!one_host && each.host && std::ranges::find(finding.hosts, each.host->name) == finding.hosts.end())
      finding.hosts.push_back(each.host->name);
  finding.evidence = std::move(evidence);
  finding.action =
      one_host ? "do not use it: replace the instance, and open a case with support.txt"
               : "do not use both in one job: measure each of them with a third one; the one whose data is wrong there "
                 "too is at fault, and if neither is, the network between them";
  return finding;
}

// GPUs of one model and library whose result of the same product differs from the majority's. Without a majority those
// of several hosts are one finding of no host.
void find_other_digests(const Report& report, const std::vector<Device>& alike, std::vector<topo::Finding>& findings) {
  std::map<std::pair<std::string, std::string>, std::map<std::string, std::vector<Device>>> by_product;
  for (const Device& device : alike) {
    if (device.rank >= report.compute_checks.size()) continue;
    const ComputeCheck& check = report.compute_checks[device.rank];
    for (const auto& [type, digest] : check.digests) by_product[{check.library, type}][digest].push_back(device);
  }
  for (const auto& [product, by_digest] : by_product) {
    if (by_digest.size() < 2) continue;
    const auto most = std::ranges::max_element(by_digest, {}, [](const auto& each) { return each.second.size(); });
    const bool tied = std::ranges::count_if(
                          by_digest, [&](const auto& each) { return each.second.size() == most->second.size(); }) > 1;
    const std::string type = product.second.substr(0, product.second.find(' '));
    std::vector<Device> all;
    for (const auto& [digest, devices] : by_digest) all.insert(all.end(), devices.begin(), devices.end());
    const bool one_host = std::ranges::all_of(all, [&](const Device& each) { return each.host == all.front().host; });
    if (tied && !one_host) {
      std::vector<std::size_t> ranks;
      for (const Device& each : all) ranks.push_back(each.rank);
      std::ranges::sort(ranks);
      findings.push_back(corruption_of(
          all, fmt::format("ranks {}: the bits of the {} matrix product differ, and it is not known on which of these "
                           "GPUs they are wrong",
                           fmt::join(ranks, ", "), type)));
      continue;
    }
    for (const auto& [digest, devices] : by_digest)
      if (tied || digest != most->first)
        for (const Device& device : devices)
          findings.push_back(corruption_of(
              {device},
              fmt::format(
                  "rank {}: the bits of the {} matrix product differ from those of {} other GPUs of its model{}",
                  device.rank, type, all.size() - devices.size(),
                  tied ? "; it is not known which of them are wrong" : "")));
  }
}

}  // namespace

bool is_of_all_gpus(const topo::Finding& finding) {
  return (finding.id == slow_alone_id || finding.id == slow_under_load_id) && finding.evidence.starts_with(all_gpus);
}

std::vector<topo::Finding> corruptions(const Report& report) {
  std::vector<topo::Finding> findings;
  std::map<Likeness, std::vector<Device>> by_likeness;
  for (std::size_t rank = 0; rank < report.compute_checks.size(); ++rank) {
    Device device = device_of(report, rank);
    const ComputeCheck& check = report.compute_checks[rank];
    if (check.partner)
      findings.push_back(corruption_of({device, device_of(report, static_cast<std::size_t>(*check.partner))},
                                       fmt::format("rank {} or rank {}: {}", rank, *check.partner, check.corruption)));
    else if (!check.corruption.empty())
      findings.push_back(corruption_of(
          {device}, fmt::format("rank {}{}: {}", rank, check.under_load ? "" : ", alone", check.corruption)));
    else
      by_likeness[likeness_of(device)].push_back(std::move(device));
  }
  for (const auto& [likeness, alike] : by_likeness) find_other_digests(report, alike, findings);
  return findings;
}

void withdraw_explained_corruptions(Report& report) {
  const auto is_explained = [&](std::size_t rank) {
    const std::vector<int>& host_of_rank = report.topology.host_of_rank;
    return rank < host_of_rank.size() && std::ranges::any_of(report.suspects, [&](const Suspect& each) {
             return each.fault == "wrong" &&
                    each.host == report.topology.hosts[static_cast<std::size_t>(host_of_rank[rank])].name;
           });
  };
  Report explained;
  explained.topology = report.topology;
  explained.compute_checks = report.compute_checks;
  for (std::size_t rank = 0; rank < explained.compute_checks.size(); ++rank) {
    ComputeCheck& check = explained.compute_checks[rank];
    const bool either = is_explained(rank) || (check.partner && is_explained(static_cast<std::size_t>(*check.partner)));
    if (!check.in_messages || !either) check = {};
  }
  for (const topo::Finding& finding : corruptions(explained))
    std::erase_if(report.findings, [&](const topo::Finding& each) {
      return each.id == finding.id && each.evidence == finding.evidence;
    });
}

static std::vector<topo::Finding> slower_ones(const Report& report, bool under_load) {
  const std::vector<LoadOfRank> loads = under_load ? loads_of(report) : std::vector<LoadOfRank>{};
  std::map<std::pair<Likeness, decltype(LoadOfRank::parts)>, std::vector<Device>> comparable;
  for (std::size_t rank = 0; rank < report.local_checks.size(); ++rank) {
    Device device = device_of(report, rank);
    comparable[{likeness_of(device), rank < loads.size() ? loads[rank].parts : decltype(LoadOfRank::parts){}}]
        .push_back(std::move(device));
  }
  std::vector<topo::Finding> findings;
  for (const auto& [kind, alike] : comparable)
    for (const LocalCheck& check : local_checks())
      if (check.under_load == under_load) find_worse(report, alike, check, loads, findings);
  return findings;
}

std::vector<topo::Finding> slow_alone(const Report& report) { return slower_ones(report, false); }
std::vector<topo::Finding> slow_under_load(const Report& report) { return slower_ones(report, true); }

// Adds the digests of a second measurement of a GPU, whose results are wrong where both have the product and differ.
static void add_digests(ComputeCheck& first, const ComputeCheck& second) {
  for (const auto& [product, digest] : second.digests) {
    const auto [known, is_new] = first.digests.emplace(product, digest);
    if (!is_new && known->second != digest && first.library == second.library && first.corruption.empty())
      first.corruption = fmt::format("the bits of the {} matrix product differ between two measurements",
                                     product.substr(0, product.find(' ')));
  }
  if (second.digests.empty()) return;
  first.library = second.library;
  if (second.not_measured.empty()) first.not_measured.clear();
  if (second.fp8_not_measured.empty()) first.fp8_not_measured.clear();
}

void keep_better(LocalChecks& first, const LocalChecks& second) {
  for (const auto& [name, value] : second.figures) {
    const auto [known, is_new] = first.figures.emplace(name, value);
    if (is_new) continue;
    const auto check = std::ranges::find(local_checks(), name, &LocalCheck::name);
    const bool is_known = check != local_checks().end(), more_is_better = !is_known || check->more_is_better;
    const auto size_in = [&](const LocalChecks& of) { return is_known ? size_of_products(of.compute, *check) : 0; };
    const unsigned long size = size_in(first), size_again = size_in(second);
    if (size != size_again)
      known->second = size_again > size ? value : known->second;
    else
      known->second = more_is_better ? std::max(known->second, value) : std::min(known->second, value);
  }
  if (first.compute.corruption.empty() && !second.compute.corruption.empty()) {
    first.compute.corruption = second.compute.corruption;
    first.compute.partner = second.compute.partner;
    first.compute.under_load = second.compute.under_load;
    first.compute.in_messages = second.compute.in_messages;
  }
  add_digests(first.compute, second.compute);
}

namespace {

// What is published of the figure on GPUs of this model; "" if nothing is.
std::string published_text(const topo::Topology& topology, std::string_view figure) {
  const std::string model = topo::gpu_model(topology);
  const topo::PublishedProducts* const known = topo::published_products_of(model);
  const std::optional<double> value = !known                         ? std::nullopt
                                      : figure == "bf16_tflop_per_s" ? known->bf16_tflop_per_s
                                      : figure == "fp8_tflop_per_s"  ? known->fp8_tflop_per_s
                                                                     : std::nullopt;
  return value ? fmt::format(" (published of {}: {:.4g} in the best of many shapes)", model, *value) : "";
}

}  // namespace

std::vector<std::string> local_ranges(const Report& report) {
  std::vector<std::string> ranges;
  for (const LocalCheck& check : local_checks()) {
    std::vector<double> values;
    for (std::size_t rank = 0; rank < report.local_checks.size(); ++rank)
      if (const auto value = figure(report, rank, check)) values.push_back(*value);
    if (values.empty()) continue;
    const auto [least, most] = std::ranges::minmax(values);
    const std::string low = fmt::format("{:.4g}", least), high = fmt::format("{:.4g}", most);
    ranges.push_back(fmt::format("{} {}{}{}{}", check.label, low, low == high ? "" : " to " + high,
                                 check.unit.empty() ? "" : fmt::format(" {}", check.unit),
                                 published_text(report.topology, check.name)));
  }
  return ranges;
}

std::vector<std::string> worse_figures(std::span<const Report> base, std::span<const Report> fresh) {
  const auto values_by_size = [](std::span<const Report> reports, const LocalCheck& check) {
    std::map<unsigned long, std::vector<double>> values;
    for (const Report& report : reports)
      for (std::size_t rank = 0; rank < report.local_checks.size(); ++rank)
        if (const auto value = figure(report, rank, check))
          values[size_of_products(report, rank, check)].push_back(*value);
    return values;
  };
  std::vector<std::string> sentences;
  for (const LocalCheck& check : local_checks()) {
    const std::map<unsigned long, std::vector<double>> before = values_by_size(base, check);
    for (const auto& [size, now] : values_by_size(fresh, check)) {
      const auto same = before.find(size);
      if (same == before.end()) continue;
      const double was = median(same->second), is = median(now),
                   worse = (check.more_is_better ? was - is : is - was) / was;
      if (worse > check.tolerated)
        sentences.push_back(fmt::format("each GPU, {}: {:.4g} instead of {}, {:.1f} % {} (medians; not in the answer)",
                                        check.label, is, text_of(was, check), 100 * worse,
                                        check.more_is_better ? "less" : "more"));
    }
  }
  return sentences;
}

namespace {

std::string name_on_host(const Device& device) {
  return device.gpu ? fmt::format("GPU {}", *device.gpu) : fmt::format("rank {}", device.rank);
}

std::string or_unknown(const auto& value, std::string_view unit) {
  return value ? fmt::format("{:.0f} {}", static_cast<double>(*value), unit) : "unknown";
}

// "1755 (1410) MHz": the median and the least.
std::string clocks_of(const LocalActivity& activity) {
  if (!activity.sm_clock_min_mhz || !activity.sm_clock_median_mhz) return "unknown";
  return fmt::format("{} ({}) MHz", *activity.sm_clock_median_mhz, *activity.sm_clock_min_mhz);
}

std::string xids_of(const LocalActivity& activity) {
  return activity.xids.empty() ? "none" : fmt::format("{}", fmt::join(activity.xids, ", "));
}

// A row for each GPU of a host: of each part the rate alone, under load, and the share that is left.
std::string load_table(const Report& report, std::size_t host) {
  std::string rows, titles = fmt::format("  {:<8}", "GPU");
  std::vector<const LoadPart*> parts;
  const auto name_of = [](const LoadPart& part, bool alone) {
    return fmt::format("load_{}_{}{}", part.name, alone ? "alone_" : "", part.unit);
  };
  for (const LoadPart& part : load_parts)
    if (std::ranges::any_of(report.local_checks,
                            [&](const LocalFigures& figures) { return figures.contains(name_of(part, true)); }))
      parts.push_back(&part);
  for (std::size_t rank = 0; rank < report.local_checks.size(); ++rank) {
    const LocalFigures& figures = report.local_checks[rank];
    const Device device = device_of(report, rank);
    if (device.host != &report.topology.hosts[host]) continue;
    std::string row;
    for (const LoadPart* const part : parts) {
      const auto alone = figures.find(name_of(*part, true)), loaded = figures.find(name_of(*part, false));
      row += alone == figures.end() || loaded == figures.end()
                 ? fmt::format("{:>28}", "-")
                 : fmt::format("{:>10.4g}{:>10.4g}{:>6.1f} %", alone->second, loaded->second,
                               100 * loaded->second / alone->second);
    }
    if (rank < report.load_activity.size()) {
      const LocalActivity& activity = report.load_activity[rank];
      row += fmt::format("{:>18}{:>10}{:>10}  {}", clocks_of(activity), or_unknown(activity.temperature_max_c, "C"),
                         or_unknown(activity.power_max_w, "W"),
                         activity.throttle_reasons.empty() ? "nothing" : join(activity.throttle_reasons));
    }
    rows += fmt::format("  {:<8}{}\n", name_on_host(device), row);
  }
  if (parts.empty() || rows.empty()) return "";
  for (const LoadPart* const part : parts)
    titles += fmt::format("{:>28}", fmt::format("{}: alone, together", part->name));
  if (!report.load_activity.empty())
    titles += fmt::format("{:>18}{:>10}{:>10}  {}", "clock (least)", "hottest", "power", "held back by");
  return titles + "   TFLOP/s, GB/s\n" + rows;
}

}  // namespace

std::string burn_table(const Report& report, std::size_t host) {
  std::string rows;
  for (std::size_t rank = 0; rank < report.local_checks.size(); ++rank) {
    const LocalFigures& figures = report.local_checks[rank];
    const Device device = device_of(report, rank);
    const auto first = figures.find("burn_first_tflop_per_s"), last = figures.find("burn_last_tflop_per_s"),
               least = figures.find("burn_least_tflop_per_s");
    if (first == figures.end() || last == figures.end() || least == figures.end()) continue;
    if (device.host != &report.topology.hosts[host]) continue;
    const auto [low, high] = std::minmax({first->second, last->second, least->second});
    rows += fmt::format("  {:<8}{:>10.4g}{:>10.4g}{:>16.4g}{:>9.1f} %", name_on_host(device), first->second,
                        last->second, least->second, 100 * (high - low) / high);
    if (rank < report.local_activity.size()) {
      const LocalActivity& activity = report.local_activity[rank];
      rows += fmt::format("{:>18}{:>10}{:>10}{:>14}{:>11}  {}", clocks_of(activity),
                          or_unknown(activity.temperature_max_c, "C"), or_unknown(activity.power_max_w, "W"),
                          activity.uncorrected, activity.corrected, xids_of(activity));
    }
    rows += "\n";
  }
  if (rows.empty()) return "";
  std::string titles =
      fmt::format("  {:<8}{:>10}{:>10}{:>16}{:>11}", "GPU", "first", "last", "slowest second", "spread");
  if (!report.local_activity.empty())
    titles += fmt::format("{:>18}{:>10}{:>10}{:>14}{:>11}  {}", "clock (least)", "hottest", "power", "memory errors",
                          "corrected", "Xids");
  return titles + "   TFLOP/s, bf16\n" + rows + load_table(report, host);
}

std::vector<std::string> products_left_out(const Report& report, std::optional<std::size_t> host) {
  using Reason = std::tuple<std::string, std::string, std::string>;  // host, what is left out, why
  std::map<Reason, std::vector<std::string>> by_reason;
  for (std::size_t rank = 0; rank < report.compute_checks.size(); ++rank) {
    const ComputeCheck& compute = report.compute_checks[rank];
    const Device device = device_of(report, rank);
    if (host && device.host != &report.topology.hosts[*host]) continue;
    for (const auto& [what, why] : {std::pair("matrix products", compute.not_measured),
                                    std::pair("matrix products in float8", compute.fp8_not_measured)})
      if (!why.empty()) by_reason[{device.host ? device.host->name : "", what, why}].push_back(name_on_host(device));
  }
  std::vector<std::string> sentences;
  for (const auto& [reason, gpus] : by_reason) {
    const auto& [name, what, why] = reason;
    sentences.push_back(
        fmt::format("no {} on {}{}: {}", what, join(gpus), host || name.empty() ? "" : " of " + name, why));
  }
  return sentences;
}

topo::Finding missing_burn(const topo::Host* host, const std::vector<std::string>& gpus, const std::string& why) {
  topo::Finding finding{.id = std::string(not_burnt),
                        .severity = topo::Severity::error,
                        .subject = {},
                        .evidence = fmt::format("no burn on {}{}{}", join(gpus), why.empty() ? "" : ": ", why),
                        .action = "remove the cause and run it again",
                        .about = topo::About::software};
  if (host) finding.subject = {host->name, host->instance, {}, {}};
  return finding;
}

std::vector<topo::Finding> missing_burns(const Report& report) {
  std::map<std::pair<std::string, std::string>, std::pair<const topo::Host*, std::vector<std::string>>> by_reason;
  for (std::size_t rank = 0; rank < report.topology.host_of_rank.size(); ++rank) {
    const bool burnt = rank < report.local_checks.size() && report.local_checks[rank].contains("burn_last_tflop_per_s");
    const ComputeCheck compute = rank < report.compute_checks.size() ? report.compute_checks[rank] : ComputeCheck{};
    if (burnt || !compute.corruption.empty()) continue;
    const std::string why =
        compute.not_measured.empty() ? "the GPUs were not checked alone to the end" : compute.not_measured;
    const Device device = device_of(report, rank);
    auto& [host, gpus] = by_reason[{device.host ? device.host->name : "", why}];
    host = device.host;
    gpus.push_back(name_on_host(device));
  }
  std::vector<topo::Finding> findings;
  for (const auto& [reason, its] : by_reason) findings.push_back(missing_burn(its.first, its.second, reason.second));
  return findings;
}

topo::Finding failed_check(const Report& report, std::optional<int> rank, const std::string& what) {
  topo::Finding finding{.id = std::string(check_failed),
                        .severity = topo::Severity::error,
                        .subject = {},
                        .evidence = rank ? fmt::format("rank {}: {}", *rank, what) : what,
                        .action = "run again; if it recurs, replace that GPU's host",
                        .about = topo::About::hardware};
  if (may_be_of_host(what)) {
    finding.about = topo::About::host;
    if (is_of_versions(what))
      finding.action = fmt::format("{}, all of one version, on all hosts", topo::beside_each_other);
    else if (is_of_log(what))
      finding.action = "log less (NCCL_DEBUG, FI_LOG_LEVEL), or into a file (NCCL_DEBUG_FILE); run again";
    else
      finding.action =
          "look at the memory limit of the container (dmesg names processes that were killed), and at ulimit -a; run "
          "again";
  }
  const Device device = rank ? device_of(report, static_cast<std::size_t>(*rank)) : Device{};
  if (device.host) finding.subject = {device.host->name, device.host->instance, device.gpu, {}};
  return finding;
}

topo::Finding unanswered_check(const Report& report, int rank, const std::string& what) {
  topo::Finding finding = failed_check(report, rank, what);
  finding.about = topo::About::host;
  return finding;
}

std::vector<topo::FindingKind> local_finding_kinds() {
  using enum topo::About;
  return {{std::string(slow_alone_id), hardware,
           "a GPU that copies, computes or launches more slowly than the others, each alone"},
          {std::string(slow_under_load_id), hardware,
           "a GPU that computes, or whose messages pass, more slowly than alone where both are at once"},
          {std::string(corrupt), hardware, "a GPU that computes or stores wrong data; exit code 11"},
          {std::string(not_burnt), software, "GPUs on which the burn of `check --burn` did not run; exit code 14"},
          {std::string(check_failed), hardware,
           "copies and launches of each GPU alone could not be measured, or a rank of `check` did not answer"}};
}

}  // namespace p5::reports
