// The ControlPlane of many hosts. Parts are collected by host before they go to the leader, and what the leader says
// goes down a tree of hosts, so that an agreement costs the leader as many messages as there are hosts, and an abort
// notice at most two for each rank.
//
// Who does not come hides the others of its host, whose parts wait for its. So after a while the leader asks those
// whose parts are missing, and they answer it directly: with their part, or that they have not got its last words,
// which it then sends again. An abort notice it then sends to all that did not raise it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/base/json_fields.hpp"
#include "bench/base/units.hpp"
#include "bench/control/transport.hpp"
#include "bench/model/control_plane.hpp"

namespace p5 {

// Where a participant stands in the tree whose root is participant 0, the leader.
struct TreePosition {
  int collector = 0;        // the first of its host, which collects the parts of all of them
  std::vector<int> others;  // a collector's: the others of its host
  std::vector<int> next;    // a collector's: the collectors to which it passes on what the leader says
};

void fields(auto& archive, Is<TreePosition> auto& place) {
  archive.must("collector", place.collector);
  archive.must("others", place.others);
  archive.must("next", place.next);
}

// Hosts numbered in order of their first rank.
std::vector<int> number_hosts(const std::vector<std::string>& name_of_rank);

// Of each participant. The collectors are a binomial tree.
std::vector<TreePosition> tree_of(const std::vector<int>& host_of_rank);

// One rank a participant. After `patience` the leader asks.
std::unique_ptr<ControlPlane> make_world_by_host(std::unique_ptr<ControlTransport> post, TreePosition place,
                                                 Seconds patience = {1});

}  // namespace p5
