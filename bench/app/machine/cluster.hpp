// The hosts of a job as each of its ranks knows them. What a host tells of itself is long, and most ranks need little
// of it: the leader has all, the first rank of a host all of its own, and others a sketch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/base/json_fields.hpp"
#include "bench/model/control_plane.hpp"
#include "topo/topology.hpp"

namespace p5 {

// Of all hosts, for all ranks: 13 bytes for each host.
struct ClusterSketch {
  std::vector<std::uint16_t> name_of_host, boot_of_host;  // the same number where names, or boot ids, are the same
  std::vector<std::uint8_t> traits_of_host;
  std::vector<std::uint64_t> memory_of_host;  // available, in bytes
};

void fields(auto& archive, Is<ClusterSketch> auto& sketch) {
  archive.must("name_of_host", sketch.name_of_host);
  archive.must("boot_of_host", sketch.boot_of_host);
  archive.must("traits_of_host", sketch.traits_of_host);
  archive.must("memory_of_host", sketch.memory_of_host);
}

ClusterSketch sketch_of(const std::vector<topo::Host>& hosts);

// Hosts that are alike in what all ranks have to know: which of them are one kernel or pretended, whether they have a
// fabric, links between GPUs, and how much memory. Their names and devices are none of theirs.
std::vector<topo::Host> hosts_from(const ClusterSketch& sketch);

// The first rank of each host describes it. At the leader all of it; elsewhere what hosts_from() gives, with the own
// host's name, and at the first rank of a host all of that one. Without a platform's name.
topo::Topology discover_cluster(ControlPlane& control, const topo::Probes& probes);

}  // namespace p5
