// The ControlPlane of many hosts. Parts are collected by host before they go to the leader, and the leader's broadcasts
// go down a tree of hosts, so that an agreement costs the leader as many messages as there are hosts, and an abort
// notice at most two for each rank.
//
// If the first rank of a host (its collector) is stuck, the parts of that host do not arrive. After `patience` the
// leader therefore polls the ranks whose parts are missing. They answer directly: with their part, or with the number
// of the broadcast that they lack, which is then sent again. From then on an abort notice goes directly to all ranks
// that did not raise it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/json_fields.hpp"
#include "bench/base/units.hpp"
#include "bench/model/control_plane.hpp"

namespace p5 {

struct ControlMessage {
  int from = 0;
  std::string text;
};

// Carries the control messages of a HostTree, so that tests can replace it.
class ControlTransport {
 public:
  virtual ~ControlTransport() = default;

  virtual int participants() const = 0;
  virtual int participant() const = 0;

  // Returns immediately, whatever the receiver does. Messages between two participants arrive in order.
  virtual void send(int to, std::string text) = 0;
  // True if all sent messages have left, so that they arrive without further calls.
  virtual bool all_left() = 0;
  // The next received message, if any.
  virtual std::optional<ControlMessage> receive() = 0;
  // Called between two polls by a participant that has waited since then.
  virtual void pause(Clock::time_point waiting_since) = 0;
};

// Position of a participant in the tree, whose root is participant 0, the leader.
struct TreePosition {
  int collector = 0;        // first rank of its host, which collects the parts of all its ranks
  std::vector<int> others;  // collector only: the other ranks of its host
  std::vector<int> next;    // collector only: the collectors to which it forwards broadcasts
};

void fields(auto& archive, Is<TreePosition> auto& place) {
  archive.must("collector", place.collector);
  archive.must("others", place.others);
  archive.must("next", place.next);
}

// Numbers hosts in order of their first rank.
std::vector<int> number_hosts(const std::vector<std::string>& name_of_rank);

// Position of each participant; the collectors form a binomial tree.
std::vector<TreePosition> build_tree(const std::vector<int>& host_of_rank);

// One rank per participant. After `patience` the leader polls missing ranks.
std::unique_ptr<ControlPlane> make_host_tree(std::unique_ptr<ControlTransport> transport, TreePosition place,
                                             Seconds patience = {1});

}  // namespace p5
