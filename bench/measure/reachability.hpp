// Whether hosts reach each other at all, before anything waits for all of them together: messages between disjoint
// pairs of hosts, all pairs at once, each with a short deadline. Who is silent meets others until it is known who it
// is.
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

// For a message each way, once both sides are ready.
inline constexpr Seconds message_limit{5};

// Disjoint pairs of these hosts for the next round, empty when all is known or cannot be: first each host meets one
// other (round_robin method). A host that nobody has heard then meets others, those first that somebody has heard,
// until it is heard or two of these have not heard it. Where nobody hears anybody, there are three rounds. A pair that
// is silent though others hear both meets again. `so_far`: of pairs, the lower host first. Pure.
std::vector<std::pair<int, int>> next_probe_pairs(const std::vector<int>& hosts,
                                                  const std::vector<JoinAttempt>& so_far);

// What stands in a trial where no message came and the library said nothing either.
inline constexpr std::string_view nothing_heard = "nothing";

// What came of it; at the leader.
struct Reachability {
  std::vector<JoinAttempt> trials = {};       // pairs of hosts, the lower one first; the failure is what was heard
  std::map<int, std::string> not_tried = {};  // hosts whose own side failed before any message, and of what
};

// One rank of each host, in fresh workers for each round, at most four rounds: 20 s where everything is silent. The
// backend's own timeout is the deadline of a message. Its workers are of no use afterwards. On all ranks together.
Reachability check_reachability(ControlPlane& control, Backend& backend, const std::vector<int>& rank_of_host);

}  // namespace p5
