#include "topo/binding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"

namespace p5::topo {

namespace {

// Indices of the GPUs that NVML reported, which have a UUID; of all GPUs if none has one.
std::vector<int> gpus_of_nvml(const Host& host) {
  std::vector<int> all;
  for (std::size_t i = 0; i < host.gpu_devices.size(); ++i)
    if (!host.gpu_devices[i].uuid.empty()) all.push_back(static_cast<int>(i));
  if (!all.empty()) return all;
  for (std::size_t i = 0; i < host.gpu_devices.size(); ++i) all.push_back(static_cast<int>(i));
  return all;
}

// The GPU of an entry of CUDA_VISIBLE_DEVICES, among `all`.
std::optional<int> gpu_named(const Host& host, const std::vector<int>& all, const std::string& entry) {
  if (entry.starts_with("GPU-") && entry.size() > 4) {
    const auto at = std::ranges::find_if(
        all, [&](int gpu) { return host.gpu_devices[static_cast<std::size_t>(gpu)].uuid.starts_with(entry); });
    return at == all.end() ? std::nullopt : std::optional(*at);
  }
  const std::optional<std::size_t> number = as_number<std::size_t>(entry);
  return number && *number < all.size() ? std::optional(all[*number]) : std::nullopt;
}

std::optional<int> gpu_with_uuid(const Host& host, const std::string& uuid) {
  const auto at = std::ranges::find(host.gpu_devices, uuid, &Gpu::uuid);
  if (at == host.gpu_devices.end() || uuid.empty()) return std::nullopt;
  return static_cast<int>(at - host.gpu_devices.begin());
}

// NUMA node of a GPU, -1 if unknown; on a host with a single NUMA node, that one.
int numa_node_near(const Host& host, int gpu) {
  const int node = gpu < 0 ? -1 : host.gpu_devices[static_cast<std::size_t>(gpu)].numa_node;
  return node < 0 && host.numa.size() == 1 ? host.numa.front().index : node;
}

// Cores of a NUMA node, ascending; of the whole host if the node is unknown.
std::vector<int> cores_near(const Host& host, int numa_node) {
  std::vector<int> cores;
  for (const NumaNode& node : host.numa)
    if (numa_node < 0 || node.index == numa_node) cores.insert(cores.end(), node.cores.begin(), node.cores.end());
  std::ranges::sort(cores);
  return cores;
}

// The part of the cores that the rank `index` of `count` ranks gets; with fewer cores than ranks, several ranks get the
// same core.
std::vector<int> part_of(const std::vector<int>& cores, std::size_t index, std::size_t count) {
  if (cores.empty()) return {};
  if (cores.size() < count) return {cores[index % cores.size()]};
  const auto from = cores.begin() + static_cast<std::ptrdiff_t>(cores.size() * index / count);
  const auto to = cores.begin() + static_cast<std::ptrdiff_t>(cores.size() * (index + 1) / count);
  return {from, to};
}

std::vector<int> hosts_of_ranks(const Topology& topology) {
  if (!topology.host_of_rank.empty()) return topology.host_of_rank;
  std::vector<int> hosts;
  for (std::size_t h = 0; h < topology.hosts.size(); ++h)
    hosts.insert(hosts.end(), topology.hosts[h].gpu_devices.size(), static_cast<int>(h));
  return hosts;
}

}  // namespace

std::vector<int> visible_gpus(const Host& host, const char* visible) {
  std::vector<int> all = gpus_of_nvml(host);
  if (!visible) return all;
  std::vector<int> chosen;
  for (const std::string& entry : split(visible)) {
    const std::optional<int> gpu = gpu_named(host, all, entry);
    if (!gpu) break;
    chosen.push_back(*gpu);
  }
  return chosen;
}

std::vector<Binding> bindings(const Topology& topology, const char* visible) {
  const std::vector<int> hosts = hosts_of_ranks(topology);
  std::vector<Binding> all;
  std::map<int, std::size_t> ranks_on_host;
  std::map<std::pair<int, int>, std::vector<std::size_t>> ranks_near;  // by host and NUMA node
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const Host& host = topology.hosts[static_cast<std::size_t>(hosts[rank])];
    const std::vector<int> gpus = visible_gpus(host, visible);
    const std::size_t local_rank = ranks_on_host[hosts[rank]]++;
    Binding binding{.rank = static_cast<int>(rank), .host = hosts[rank]};
    if (rank < topology.gpu_of_rank.size())
      binding.gpu = gpu_with_uuid(host, topology.gpu_of_rank[rank]).value_or(-1);
    else if (!gpus.empty())
      binding.gpu = gpus[local_rank % gpus.size()];
    if (binding.gpu >= 0) binding.nics = host.gpu_devices[static_cast<std::size_t>(binding.gpu)].nics;
    binding.numa_node = numa_node_near(host, binding.gpu);
    ranks_near[{hosts[rank], binding.numa_node}].push_back(rank);
    all.push_back(std::move(binding));
  }
  for (const auto& [where, ranks] : ranks_near)
    for (std::size_t i = 0; i < ranks.size(); ++i)
      all[ranks[i]].cores =
          part_of(cores_near(topology.hosts[static_cast<std::size_t>(where.first)], where.second), i, ranks.size());
  return all;
}

Topology with_ranks_of_job(Topology topology) {
  if (topology.host_of_rank.size() > topology.hosts.size()) return topology;
  topology.host_of_rank.clear();
  topology.gpus_seen_of_rank.clear();
  topology.gpu_of_rank.clear();
  topology.nics_of_rank.clear();
  return topology;
}

std::string list_text(const std::vector<int>& sorted) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    parts.push_back(last == i ? std::to_string(sorted[i]) : fmt::format("{}-{}", sorted[i], sorted[last]));
    i = last + 1;
  }
  return join(parts, ",");
}

std::string rank_file(const std::vector<Binding>& bindings, const Topology& topology) {
  std::string text = "# Open MPI 4: mpirun --rankfile THIS ...; slots are logical cores near each rank's GPU.\n";
  for (const Binding& binding : bindings) {
    const Host& host = topology.hosts[static_cast<std::size_t>(binding.host)];
    if (binding.cores.empty())
      throw UsageError(
          fmt::format("--rankfile: the cores of {} are not known to hwloc; start without a rank file", host.name));
    text += fmt::format("rank {}={} slot={}\n", binding.rank, host.host_name, list_text(binding.cores));
  }
  return text;
}

}  // namespace p5::topo
