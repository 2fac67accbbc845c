// How the ranks of a backend come together, and where that fails, which host it is: hosts by themselves, then pairs of
// hosts, each in fresh workers and by its own short deadline.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/measurement.hpp"

namespace p5 {

struct PhaseFailed;
class Observer;

// The ranks of a backend that are not together yet, or no longer, on terms that the leader settles. Throws PhaseFailed.
void join_ranks(ControlPlane& control, Backend& backend);

// Each group by itself; what each failed of, alike on all participants.
std::vector<std::optional<PhaseFailed>> join_groups(ControlPlane& control, Backend& backend,
                                                    const RendezvousGroups& rendezvous_groups);

// ---- what a failure to join comes from. Pure.

// Some hosts that were to join without the others.
struct JoinAttempt {
  std::vector<int> hosts;
  std::string failure = {};  // "": they joined
};

struct JoinFault {
  // nowhere: no host's ranks join, not even by themselves. between: no two hosts do, though each does. together: all
  // do, alone and in pairs, but not the whole job.
  enum class Kind { nowhere, hosts, between, pairs, together };
  Kind kind = Kind::together;
  std::vector<int> hosts = {};
  bool alone = false;  // they fail by themselves
  std::vector<std::pair<int, int>> pairs = {};
  std::string because = {};  // of the first of them
};

// Hosts that fail by themselves; else those that fail with each of several partners, of which at least one is not to
// blame because it joins with others; else pairs. Of hosts that tried more than once the last time counts.
JoinFault locate_fault(int hosts, const std::vector<JoinAttempt>& trials);

// Rounds of disjoint pairs in which each host meets two others: two rounds, of an odd number three.
std::vector<std::vector<std::pair<int, int>>> pairs_to_try(int hosts);

// ----

// Where ranks are: for saying whose fault it is. Without hosts nobody looks.
struct RanksOnHosts {
  std::vector<int> host_of_rank = {};
  std::vector<std::string> names = {};
  // Not "": all ranks are on this host, and what is called hosts here are its GPUs.
  std::string one_host = {};
};

// What the leader tells of a failure to join.
struct JoinFailure {
  std::optional<JoinFault> culprit = {};  // nullopt: it worked the second time
  std::vector<std::string> hosts = {};    // their names
  std::string one_host = {};              // as in RanksOnHosts
  std::string said = {};                  // what failed, and which hosts it is, in a sentence
};

// Of one run, for one arm: looks for the culprit once, and gives the run up where joining again has no prospect.
class Rendezvous {
 public:
  Rendezvous(ControlPlane& control, RanksOnHosts hosts, Observer& observer);

  // Throws PhaseFailed. Costs nothing once given up.
  void join_ranks(Backend& backend);
  // Why ranks do not come together any more, alike on all participants; "": they do, as far as is known.
  const std::string& given_up() const { return given_up_; }

 private:
  void search_for_fault(Backend& backend, const PhaseFailed& first);
  std::optional<PhaseFailed> join_again(Backend& backend);
  bool try_rounds(Backend& backend, std::vector<JoinAttempt>& trials);
  bool try_round(Backend& backend, const std::vector<std::vector<int>>& hosts, int rounds_left,
                 std::vector<JoinAttempt>& trials);
  void start_anew(Backend& backend);
  void tell(const PhaseFailed& first, const std::optional<JoinFault>& culprit);

  ControlPlane& control_;
  const RanksOnHosts hosts_;
  Observer& observer_;
  bool looked_ = false;
  Clock::time_point began_{};
  std::string given_up_;
};

}  // namespace p5
