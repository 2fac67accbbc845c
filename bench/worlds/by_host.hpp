// The World of many hosts. Parts are collected by host before they go to the leader, and what the leader says goes down
// a tree of hosts, so that an agreement costs the leader as many letters as there are hosts, and an alarm at most two
// for each rank.
//
// Who does not come hides the others of its host, whose parts wait for its. So after a while the leader asks those
// whose parts are missing, and they answer it directly: with their part, or that they have not got its last words,
// which it then sends again. An alarm it then sends to all that did not raise it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/base/json_fields.hpp"
#include "bench/base/units.hpp"
#include "bench/model/world.hpp"
#include "bench/worlds/post.hpp"

namespace p5 {

// Where a participant stands in the tree whose root is participant 0, the leader.
struct TreePlace {
  int collector = 0;        // the first of its host, which collects the parts of all of them
  std::vector<int> others;  // a collector's: the others of its host
  std::vector<int> next;    // a collector's: the collectors to which it passes on what the leader says
};

void fields(auto& visit, Is<TreePlace> auto& place) {
  visit.must("collector", place.collector);
  visit.must("others", place.others);
  visit.must("next", place.next);
}

// Hosts numbered in order of their first rank.
std::vector<int> number_hosts(const std::vector<std::string>& name_of_rank);

// Of each participant. The collectors are a binomial tree.
std::vector<TreePlace> tree_of(const std::vector<int>& host_of_rank);

// One rank a participant. After `patience` the leader asks.
std::unique_ptr<World> make_world_by_host(std::unique_ptr<Post> post, TreePlace place, Seconds patience = {1});

}  // namespace p5
