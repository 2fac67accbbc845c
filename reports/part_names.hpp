// Names of the parts of a cluster: "nic n1r5", "link n0-n2".
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "reports/observations.hpp"

namespace p5::reports {

// "nic" and "n1r5", as in a suspect's fields.
std::string kind_name(const Part& part);
std::string name_of(const Part& part);
// Both; the name in open questions.
std::string full_name(const Part& part);
// The part of that full name; std::nullopt for other texts.
std::optional<Part> part_named(std::string_view full_name);
std::optional<Part> part_of(const Suspect& suspect);

// Nodes that the part is on or joins; empty for rails and NVLink domains.
std::set<int> nodes_of(const Part& part);
// Indices of the hosts that the part is on or joins: both ends of a link, all hosts of an NVLink domain or of a rail.
std::set<std::size_t> hosts_of(const Part& part, const topo::Topology& topology);
std::set<std::size_t> hosts_of(const Suspect& suspect, const topo::Topology& topology);

// "slow", "silent" or "wrong".
std::string fault_name(Fault fault);

}  // namespace p5::reports
