// Reachability of hosts, checked before all of them join: messages between disjoint pairs of hosts, all pairs at once,
// each with a short deadline. A silent host is paired with others until it is certain which host is at fault.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/measure/rendezvous.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/control_plane.hpp"

namespace p5 {

// Deadline of a message each way, counted from when both sides are ready.
inline constexpr Seconds message_limit{5};

// Disjoint pairs of these hosts for the next round; empty if all is known or cannot be. First each host is paired with
// one other (round-robin method). A host whose messages have not arrived is then paired with others, first with those
// whose messages have, until one of its messages arrives or two such hosts received none. If no message arrives
// anywhere, there are three rounds. A silent pair of hosts that both reach others is tried again. `so_far`: trials of
// pairs, the lower host first. Pure.
std::vector<std::pair<int, int>> next_probe_pairs(const std::vector<int>& hosts,
                                                  const std::vector<JoinAttempt>& so_far);

// Text of a trial in which no message arrived and the library reported no error.
inline constexpr std::string_view nothing_heard = "nothing";

// Result of the check, at the leader.
struct Reachability {
  std::vector<JoinAttempt> trials = {};       // pairs of hosts, the lower one first; failures are the receiver's
  std::map<int, std::string> not_tried = {};  // hosts whose own side failed before any message, and why
};

// Checks with one rank per host, in fresh workers each round, at most four rounds: 20 s if no message arrives. The
// backend's timeout is the deadline of a message. Its workers are unusable afterwards. All ranks call it together.
Reachability check_reachability(ControlPlane& control, Backend& backend, const std::vector<int>& rank_of_host);

}  // namespace p5
