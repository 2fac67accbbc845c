// Topology as JSON: how hosts travel between ranks and how a machine is recorded. Also the made-up machine of the
// simulator.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/error.hpp"
#include "topo/platform.hpp"
#include "topo/topology.hpp"

namespace p5::topo {

using nlohmann::json;

namespace {

json to_json(const Nic& nic) {
  return {{"name", nic.name},
          {"kind", nic.kind},
          {"driver", nic.driver},
          {"state", nic.state},
          {"rate_gb_per_s", nic.rate ? json(nic.rate->count) : json()},
          {"numa_node", nic.numa_node}};
}

Nic nic_from_json(const json& j) {
  Nic nic;
  j.at("name").get_to(nic.name);
  j.at("kind").get_to(nic.kind);
  j.at("driver").get_to(nic.driver);
  j.at("state").get_to(nic.state);
  if (const json& rate = j.at("rate_gb_per_s"); !rate.is_null()) nic.rate = GBps{rate.get<double>()};
  j.at("numa_node").get_to(nic.numa_node);
  return nic;
}

template <class Value>
json or_null(const std::optional<Value>& value) {
  return value ? json(*value) : json();
}

std::optional<int> whole_from(const json& j) { return j.is_null() ? std::nullopt : std::optional(j.get<int>()); }

json to_json(const Gpu& gpu) {
  return {{"uuid", gpu.uuid},
          {"name", gpu.name},
          {"architecture", gpu.architecture},
          {"links", gpu.links},
          {"link_rate_raw_gb_per_s", gpu.link_rate_raw ? json(gpu.link_rate_raw->count) : json()},
          {"pcie_generation", or_null(gpu.pcie_generation)},
          {"pcie_width", or_null(gpu.pcie_width)},
          {"processes", or_null(gpu.processes)}};
}

Gpu gpu_from_json(const json& j) {
  Gpu gpu;
  j.at("uuid").get_to(gpu.uuid);
  j.at("name").get_to(gpu.name);
  j.at("architecture").get_to(gpu.architecture);
  j.at("links").get_to(gpu.links);
  if (const json& rate = j.at("link_rate_raw_gb_per_s"); !rate.is_null()) gpu.link_rate_raw = GBps{rate.get<double>()};
  gpu.pcie_generation = whole_from(j.at("pcie_generation"));
  gpu.pcie_width = whole_from(j.at("pcie_width"));
  gpu.processes = whole_from(j.at("processes"));
  return gpu;
}

Host read_host(const json& j) {
  Host host;
  j.at("name").get_to(host.name);
  j.at("host_name").get_to(host.host_name);
  j.at("pretended").get_to(host.pretended);
  j.at("boot_id").get_to(host.boot_id);
  j.at("instance").get_to(host.instance);
  j.at("instance_type").get_to(host.instance_type);
  j.at("kernel").get_to(host.kernel);
  j.at("cpu_model").get_to(host.cpu_model);
  j.at("packages").get_to(host.packages);
  j.at("numa_nodes").get_to(host.numa_nodes);
  j.at("cores").get_to(host.cores);
  j.at("threads").get_to(host.threads);
  j.at("allowed_threads").get_to(host.allowed_threads);
  j.at("gpus").get_to(host.gpus);
  j.at("memory_bytes").get_to(host.memory.count);
  j.at("memory_available_bytes").get_to(host.memory_available.count);
  for (const json& nic : j.at("nics")) host.nics.push_back(nic_from_json(nic));
  for (const json& gpu : j.at("gpu_devices")) host.gpu_devices.push_back(gpu_from_json(gpu));
  j.at("gpu_driver").get_to(host.gpu_driver);
  j.at("gpu_problem").get_to(host.gpu_problem);
  return host;
}

Topology read_topology(const json& j) {
  Topology topology;
  j.at("provenance").get_to(topology.provenance);
  j.at("platform").get_to(topology.platform);
  for (const json& host : j.at("hosts")) topology.hosts.push_back(read_host(host));
  j.at("host_of_rank").get_to(topology.host_of_rank);
  topology.gpus_seen_of_rank = j.value("gpus_seen_of_rank", std::vector<int>());
  const int hosts = static_cast<int>(topology.hosts.size());
  for (const int host : topology.host_of_rank)
    if (host < 0 || host >= hosts)
      throw UsageError(
          fmt::format("topology: host_of_rank names host {}, but there are {} hosts, counted from 0; record it again",
                      host, hosts));
  return topology;
}

UsageError unreadable(std::string_view what, const json::exception& problem) {
  return UsageError(
      fmt::format("{} is not in the form that this version writes: {}; record it again", what, problem.what()));
}

Host synthetic_host(const Platform& platform, int node) {
  Host host;
  host.name = host.host_name = fmt::format("n{}", node);
  host.boot_id = fmt::format("synthetic-{}", node);
  host.instance_type = platform.name;
  host.gpus = platform.gpus;
  for (int i = 0; i < platform.nics; ++i)
    host.nics.push_back({fmt::format("rdma{}", i), "efa", "efa", "up", platform.nic_rate, -1});
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

json to_json(const Host& host) {
  json nics = json::array();
  for (const Nic& nic : host.nics) nics.push_back(to_json(nic));
  json gpus = json::array();
  for (const Gpu& gpu : host.gpu_devices) gpus.push_back(to_json(gpu));
  return {{"name", host.name},
          {"host_name", host.host_name},
          {"pretended", host.pretended},
          {"boot_id", host.boot_id},
          {"instance", host.instance},
          {"instance_type", host.instance_type},
          {"kernel", host.kernel},
          {"cpu_model", host.cpu_model},
          {"packages", host.packages},
          {"numa_nodes", host.numa_nodes},
          {"cores", host.cores},
          {"threads", host.threads},
          {"allowed_threads", host.allowed_threads},
          {"gpus", host.gpus},
          {"memory_bytes", host.memory.count},
          {"memory_available_bytes", host.memory_available.count},
          {"nics", std::move(nics)},
          {"gpu_devices", std::move(gpus)},
          {"gpu_driver", host.gpu_driver},
          {"gpu_problem", host.gpu_problem}};
}

Host host_from_json(const json& j) try { return read_host(j); } catch (const json::exception& problem) {
  throw unreadable("host", problem);
}

json to_json(const Topology& topology) {
  json hosts = json::array();
  for (const Host& host : topology.hosts) hosts.push_back(to_json(host));
  return {{"provenance", topology.provenance},
          {"platform", topology.platform},
          {"hosts", std::move(hosts)},
          {"host_of_rank", topology.host_of_rank},
          {"gpus_seen_of_rank", topology.gpus_seen_of_rank}};
}

Topology topology_from_json(const json& j) try { return read_topology(j); } catch (const json::exception& problem) {
  throw unreadable("topology", problem);
}

}  // namespace p5::topo
