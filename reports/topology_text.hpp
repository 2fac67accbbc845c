// A topology as a tree that a person can read in a terminal: hosts, NUMA nodes, PCIe, GPUs and NICs, with what is wrong
// marked where it stands.
#pragma once

#include <string>
#include <vector>

#include "topo/binding.hpp"
#include "topo/finding.hpp"
#include "topo/topology.hpp"

namespace p5::reports {

std::string render_topology(const topo::Topology& topology, const std::vector<topo::Finding>& findings,
                            const std::vector<topo::Binding>& bindings);

}  // namespace p5::reports
