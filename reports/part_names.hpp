// Names of the parts of a cluster: "nic n1r5", "link n0-n2", "link n0,n1-n2,n3" (all links between sets of nodes).
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "reports/observations.hpp"

namespace p5::reports {

// Kind and name of a part as in a suspect's fields: "nic" and "n1r5".
std::string kind_name(const Part& part);
std::string name_of(const Part& part);
// "nic n1r5", as in open questions.
std::string full_name(const Part& part);
// The part that has this full name; std::nullopt for any other text.
std::optional<Part> part_named(std::string_view full_name);
std::optional<Part> part_of(const Suspect& suspect);

// The node that the part is on, or both ends of a link; empty for links between sets, rails and domains.
std::set<int> nodes_of(const Part& part);
// Pairs of nodes, the lower one first, that a link, or the links between sets, join; empty for other parts.
std::set<std::pair<int, int>> pairs_joined_by(const Part& part);
// Indices of the hosts that the part is on or joins: the ends of links, the hosts of an NVLink domain, all of a rail.
std::set<std::size_t> hosts_of(const Part& part, const topo::Topology& topology);
std::set<std::size_t> hosts_of(const Suspect& suspect, const topo::Topology& topology);

// "slow", "silent" or "wrong".
std::string fault_name(Fault fault);

}  // namespace p5::reports
