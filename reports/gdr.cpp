#include "reports/gdr.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"

namespace p5::reports {

namespace {

// The tolerance is wide, since no data exist on how much sound paths differ. `false_alarm`: chance that of paths which
// only scatter any is called slow.
constexpr double tolerated_share = 0.1, false_alarm = 0.01;

using Key = std::tuple<std::string, std::string, std::string>;  // host, GPU, NIC

auto find_gpu(const topo::Host& host, const std::string& gpu) {
  return std::ranges::find_if(host.gpu_devices, [&](const topo::Gpu& each) { return each.pci.address == gpu; });
}

bool lists(const topo::Host& host, const std::string& gpu, const std::string& nic) {
  const auto found = find_gpu(host, gpu);
  return found != host.gpu_devices.end() && std::ranges::find(found->nics, nic) != found->nics.end();
}

bool are_on_different_numa_nodes(const topo::Host& host, const std::string& gpu, const std::string& nic) {
  const auto its = find_gpu(host, gpu);
  const auto device = std::ranges::find(host.nics, nic, &topo::Nic::name);
  if (its == host.gpu_devices.end() || device == host.nics.end()) return false;
  return its->numa_node >= 0 && device->numa_node >= 0 && its->numa_node != device->numa_node;
}

// True if the host knows the GPU, and lists the NIC as one of the nearest to any.
bool knows_better(const topo::Host& host, const std::string& gpu, const std::string& nic) {
  return find_gpu(host, gpu) != host.gpu_devices.end() &&
         std::ranges::any_of(host.gpu_devices, [&](const topo::Gpu& each) {
           return std::ranges::find(each.nics, nic) != each.nics.end();
         });
}

double rate_of_nic(const topo::Host& host, const std::string& nic) {
  const auto device = std::ranges::find(host.nics, nic, &topo::Nic::name);
  return device != host.nics.end() && device->rate ? device->rate->count : 0;
}

// Paths are of one kind if they are as long by design (beside each other, on one NUMA node, or across) and their NICs
// as fast.
std::pair<int, double> path_kind_of(const GdrPath& path) {
  return {path.crosses ? 2 : path.beside ? 0 : 1, path.nic_gb_per_s};
}

// Paths of one kind from the slowest on, with sums of the log rates from the next one on.
class PathKind {
 public:
  void add(std::size_t path, double gb_per_s) { rates_.emplace_back(std::log(gb_per_s), path); }
  void sort() {
    std::ranges::sort(rates_);
    for (const auto& [rate, path] : rates_) count(rate, 1);
  }
  // Leaves out the slowest, whose distance from the mean of the others is then known.
  std::size_t take() {
    count(rates_[taken_].first, -1);
    return rates_[taken_++].second;
  }
  // Log of the mean rate of all but the slowest over the slowest's; needs two others, which tell their scatter.
  std::optional<double> shortfall() const {
    if (taken_ + 3 > rates_.size()) return std::nullopt;
    const double slowest = rates_[taken_].first;
    return (sum_ - slowest) / (static_cast<double>(left()) - 1) - slowest;
  }
  std::size_t left() const { return rates_.size() - taken_; }
  double squares() const {
    return left() < 2 ? 0 : std::max(0.0, squares_ - sum_ * sum_ / static_cast<double>(left()));
  }

 private:
  void count(double rate, int sign) {
    sum_ += sign * rate;
    squares_ += sign * rate * rate;
  }
  std::vector<std::pair<double, std::size_t>> rates_;
  std::size_t taken_ = 0;
  double sum_ = 0, squares_ = 0;
};

// Paths that are slower than the others of their kind by more than the tolerance, and by more than those scatter:
// Rosner's generalized test of extreme deviates (Technometrics 25, 1983), one-sided. The path_kinds differ in rate;
// their scatter is taken as one.
std::vector<bool> low_paths(const std::vector<GdrPath>& paths) {
  std::map<std::pair<int, double>, PathKind> path_kinds;
  for (std::size_t i = 0; i < paths.size(); ++i)
    if (paths[i].compared_gb_per_s > 0) path_kinds[path_kind_of(paths[i])].add(i, paths[i].compared_gb_per_s);
  for (auto& [kind, its] : path_kinds) its.sort();
  std::vector<std::size_t> taken;
  std::size_t low = 0;
  while (!path_kinds.empty() && 2 * taken.size() < paths.size()) {
    PathKind& kind = std::ranges::max_element(path_kinds, {}, [](const auto& each) {
                       return each.second.shortfall().value_or(0);
                     })->second;
    const double shortfall = kind.shortfall().value_or(0);
    if (shortfall <= -std::log(1 - tolerated_share)) break;
    taken.push_back(kind.take());
    double squares = 0;
    int degrees = 0;
    for (const auto& [key, each] : path_kinds) {
      squares += each.squares();
      degrees += std::max(0, static_cast<int>(each.left()) - 1);
    }
    constexpr int as_normal = 1000;
    const double deviation = std::sqrt(squares / degrees * (1 + 1 / static_cast<double>(kind.left())));
    const double chance = student_two_sided_p(shortfall / deviation, std::min(degrees, as_normal)) / 2;
    if (chance * static_cast<double>(paths.size() - taken.size() + 1) < false_alarm) low = taken.size();
  }
  std::vector<bool> is_low(paths.size());
  for (std::size_t i = 0; i < low; ++i) is_low[taken[i]] = true;
  return is_low;
}

// Other load on the hosts only lowers a rate, and a slow link limits even the best sample, so the best one counts.
double best_rate(const Measurement& m, const GroupResult& pair) {
  double best = pair.median.count;
  for (const float each : pair.samples) best = std::min(best, static_cast<double>(each));
  return (m.measured_case.bytes / Seconds{best}).count;
}

bool is_of_a_nic(const Measurement& m) { return m.measured_case.nic && m.outcome == Outcome::measured; }

// Rates of NICs with data in the GPUs nearest to them, by which the part of a partner is told.
class NearestRates {
 public:
  explicit NearestRates(const std::vector<Measurement>& measured) {
    for (const Measurement& m : measured) {
      if (!is_of_a_nic(m) || m.measured_case.gpu) continue;
      const int nic = *m.measured_case.nic;
      for (const GroupResult& pair : m.groups) {
        const double rate = best_rate(m, pair);
        for (double* const known : {&of_pair_[{nic, pair.group}], &of_source_[{nic, pair.group.front()}]})
          *known = std::max(*known, rate);
      }
    }
  }

  // The NIC's rate with its best partner over that with this one; 0: unknown.
  double best_over_partner(int nic, const Group& pair) const {
    const auto its = of_pair_.find({nic, pair});
    return its == of_pair_.end() ? 0 : of_source_.at({nic, pair.front()}) / its->second;
  }

 private:
  std::map<std::pair<int, Group>, double> of_pair_;
  std::map<std::pair<int, int>, double> of_source_;
};

}  // namespace

std::vector<GdrPath> gdr_paths(const topo::Topology& topology, const GpusOfNics& gpus,
                               const std::vector<Measurement>& measured) {
  std::map<Key, GdrPath> all;
  const NearestRates nearest(measured);
  for (const Measurement& m : measured) {
    const Case& c = m.measured_case;
    if (!is_of_a_nic(m)) continue;
    const auto nic = static_cast<std::size_t>(*c.nic);
    for (const GroupResult& pair : m.groups) {
      const auto source = static_cast<std::size_t>(pair.group.front());
      const std::vector<std::string>& its = gpus.gpus_of_rank.at(source);
      const topo::Host& host = topology.hosts[static_cast<std::size_t>(topology.host_of_rank.at(source))];
      const auto place = static_cast<std::size_t>(gpus.beside_of_rank.at(source).at(nic) + c.gpu.value_or(0));
      GdrPath path{.host = host.name, .gpu = its[place % its.size()], .nic = topology.nics_of_rank[source].at(nic)};
      path.crosses = are_on_different_numa_nodes(host, path.gpu, path.nic);
      // The worker divides the GPUs among the places of the NICs, whether or not they are near.
      const bool by_place = !c.gpu && !path.crosses && !knows_better(host, path.gpu, path.nic);
      path.beside = by_place || lists(host, path.gpu, path.nic);
      path.nic_gb_per_s = rate_of_nic(host, path.nic);
      path.gb_per_s = best_rate(m, pair);
      path.compared_gb_per_s = path.gb_per_s * nearest.best_over_partner(*c.nic, pair.group);
      GdrPath& kept = all.try_emplace({path.host, path.gpu, path.nic}, path).first->second;
      kept.gb_per_s = std::max(kept.gb_per_s, path.gb_per_s);
      kept.compared_gb_per_s = std::max(kept.compared_gb_per_s, path.compared_gb_per_s);
    }
  }
  std::vector<GdrPath> paths;
  for (auto& [key, path] : all) paths.push_back(std::move(path));
  const std::vector<bool> low = low_paths(paths);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    // If all paths of a NIC are slow, the NIC is at fault, and another finding names it.
    const auto sound_elsewhere = [&](const GdrPath& other) {
      return other.host == paths[i].host && other.nic == paths[i].nic &&
             !low[static_cast<std::size_t>(&other - paths.data())];
    };
    paths[i].slow = low[i] && std::ranges::any_of(paths, sound_elsewhere);
  }
  return paths;
}

std::vector<topo::Finding> slow_paths(const std::vector<GdrPath>& paths) {
  std::vector<topo::Finding> findings;
  for (const GdrPath& path : paths) {
    if (!path.slow) continue;
    std::vector<double> rest;
    for (const GdrPath& each : paths)
      if (&each != &path && path_kind_of(each) == path_kind_of(path)) rest.push_back(each.gb_per_s);
    topo::Finding finding;
    finding.id = "gdr.slow_path";
    finding.severity = topo::Severity::warning;
    finding.about = topo::About::hardware;
    finding.subject = {.host = path.host, .instance = {}, .gpu = {}, .nic = path.nic};
    finding.evidence = fmt::format(
        "NIC {} of {} reads the memory of the GPU {} at {:.4g} GB/s; of the {} other paths between {} the median is "
        "{:.4g} GB/s, and the NIC is no slower from another GPU",
        path.nic, path.host, path.gpu, path.gb_per_s, rest.size(),
        path.crosses  ? "a NIC and a GPU of another NUMA node"
        : path.beside ? "a NIC and a GPU beside it"
                      : "a NIC and a GPU far from it",
        median(rest));
    finding.action =
        "look at the PCIe links between them (lspci -vv, LnkSta) and whether ACS or an IOMMU sends this traffic "
        "through "
        "the processor; where others of its kind are sound, replace the node";
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::string gdr_text(const std::vector<GdrPath>& paths) {
  std::vector<std::string> parts;
  for (const bool beside : {true, false}) {
    std::vector<double> rates;
    for (const GdrPath& path : paths)
      if (path.beside == beside) rates.push_back(path.gb_per_s);
    if (rates.empty()) continue;
    const auto [low, high] = std::ranges::minmax(rates);
    parts.push_back(fmt::format("{} {:.4g} to {:.4g} GB/s", beside ? "beside" : "far", low, high));
  }
  for (const GdrPath& path : paths)
    if (path.slow) parts.push_back(fmt::format("slow: {} {} to {}", path.host, path.gpu, path.nic));
  return join(parts);
}

std::vector<topo::FindingKind> gdr_finding_kinds() {
  using enum topo::About;
  return {{"gdr.slow_path", hardware, "a NIC that reads one GPU's memory more slowly than other NICs read theirs"}};
}

}  // namespace p5::reports
