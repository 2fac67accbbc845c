#include "bench/app/machine/cluster.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "bench/base/units.hpp"
#include "bench/control/host_tree.hpp"
#include "bench/measure/agreement.hpp"

namespace p5 {

using nlohmann::json;

namespace {

enum HostTrait : std::uint8_t { is_pretended = 1, has_efa = 2, has_infiniband = 4, fabric_is_up = 8, has_links = 16 };

std::uint8_t traits_of(const topo::Host& host) {
  int traits = host.pretended ? is_pretended : 0;
  for (const topo::Nic& nic : host.nics) {
    const int kind = nic.kind == "efa" ? has_efa : nic.kind == "infiniband" ? has_infiniband : 0;
    traits |= kind;
    if (kind != 0 && nic.state == "up") traits |= fabric_is_up;
  }
  for (const topo::Gpu& gpu : host.gpu_devices)
    if (gpu.links.value_or(0) > 0) traits |= has_links;
  return static_cast<std::uint8_t>(traits);
}

topo::Host host_with(int traits) {
  topo::Host host;
  host.pretended = (traits & is_pretended) != 0;
  for (const auto& [trait, kind] : {std::pair{has_efa, "efa"}, std::pair{has_infiniband, "infiniband"}}) {
    if ((traits & trait) == 0) continue;
    topo::Nic& nic = host.nics.emplace_back();
    nic.kind = kind;
    if (traits & fabric_is_up) nic.state = "up";
  }
  if (traits & has_links) host.gpu_devices.emplace_back().links = 1;
  return host;
}

template <class Member>
std::vector<std::uint16_t> numbers_of(const std::vector<topo::Host>& hosts, Member member) {
  std::vector<std::string> texts;
  for (const topo::Host& host : hosts) texts.push_back(host.*member);
  const std::vector<int> numbers = number_hosts(texts);
  return {numbers.begin(), numbers.end()};
}

}  // namespace

ClusterSketch sketch_of(const std::vector<topo::Host>& hosts) {
  ClusterSketch sketch;
  sketch.name_of_host = numbers_of(hosts, &topo::Host::host_name);
  sketch.boot_of_host = numbers_of(hosts, &topo::Host::boot_id);
  for (const topo::Host& host : hosts) {
    sketch.traits_of_host.push_back(traits_of(host));
    sketch.memory_of_host.push_back(host.memory_available.count);
  }
  return sketch;
}

std::vector<topo::Host> hosts_from(const ClusterSketch& sketch) {
  std::vector<topo::Host> hosts;
  for (std::size_t at = 0; at < sketch.traits_of_host.size(); ++at) {
    topo::Host& host = hosts.emplace_back(host_with(sketch.traits_of_host[at]));
    host.host_name = std::to_string(sketch.name_of_host.at(at));
    host.boot_id = std::to_string(sketch.boot_of_host.at(at));
    host.memory_available = Bytes{sketch.memory_of_host.at(at)};
  }
  return hosts;
}

topo::Topology discover_cluster(ControlPlane& control, const topo::Probes& probes) {
  const std::string name = topo::host_name().name;
  const std::vector<int> numbers = number_hosts(control.gather(name));
  const auto host_of_rank = shared_by_leader(control, std::vector<std::uint16_t>(numbers.begin(), numbers.end()));
  const std::uint16_t mine = host_of_rank[static_cast<std::size_t>(control.participant())];
  const bool first = std::ranges::find(host_of_rank, mine) - host_of_rank.begin() == control.participant();
  topo::Host host;
  if (first) host = topo::discover_host(probes);
  const std::vector<std::string> described =
      control.gather(first ? to_json(host).dump(-1, ' ', true, json::error_handler_t::replace) : "");
  topo::Topology topology;
  topology.host_of_rank.assign(host_of_rank.begin(), host_of_rank.end());
  topology.taken = utc_now();
  if (control.is_leader()) {
    topology.settings = topo::job_settings();
    for (const std::string& text : described)
      if (!text.empty()) topology.hosts.push_back(topo::host_from_json(json::parse(text)));
  }
  const ClusterSketch sketch = shared_by_leader(control, sketch_of(topology.hosts));
  if (control.is_leader()) return topology;
  topology.hosts = hosts_from(sketch);
  topo::Host& own = topology.hosts.at(mine);
  own.name = name;
  if (!first) return topology;
  // Beside other hosts it is called as they are.
  host.host_name = own.host_name;
  host.boot_id = own.boot_id;
  own = std::move(host);
  return topology;
}

}  // namespace p5
