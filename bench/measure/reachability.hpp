// Reachability of hosts and their NICs, checked before all of them join: messages between disjoint pairs of hosts
// through each NIC, all pairs at once, each with a short deadline. A silent host or NIC is paired with others until it
// is certain which one is at fault.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure/rendezvous.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/control_plane.hpp"

namespace p5 {

// Deadline of a message each way, counted from when both sides are ready, without the time in which a side did not run.
inline constexpr Seconds message_limit{5};

// Disjoint pairs of these hosts for the next round; empty if all is known or cannot be. First each host is paired with
// one other (round-robin method). A host whose messages have not arrived is then paired with others, first with those
// whose messages have, until one of its messages arrives or two such hosts received none. If no message arrives
// anywhere, there are three rounds. A silent pair of hosts that both reach others is tried again. `so_far`: trials of
// pairs, the lower host first. Pure.
std::vector<std::pair<int, int>> next_probe_pairs(const std::vector<int>& hosts,
                                                  const std::vector<JoinAttempt>& so_far);

// Result of the check, at the leader.
struct Reachability {
  // Pairs of hosts, the lower one first. Failures are the receiver's: no message passed through any NIC.
  std::vector<JoinAttempt> trials = {};
  // The same by number of the NIC, of pairs that exchanged a message through some NIC.
  std::vector<std::vector<JoinAttempt>> trials_of_nics = {};
  std::map<std::size_t, std::set<int>> unmatched = {};  // by number of the NIC: hosts whose partners all lacked it
  std::set<std::pair<int, int>> nothing_common = {};    // pairs without a NIC of the same number, so nothing was tried
  // Hosts whose own side failed before any message, or that have nothing in common with their partners, and why.
  std::map<int, std::string> not_tried = {};
};

// Checks with one rank per host, which uses all NICs of the host, in fresh workers each round, at most four rounds: 20
// s if no message arrives. `limit`: deadline of a message. The workers are unusable afterwards. All ranks call it
// together.
Reachability check_reachability(ControlPlane& control, Backend& backend, const std::vector<int>& rank_of_host,
                                Seconds limit);

}  // namespace p5
